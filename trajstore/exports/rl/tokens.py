"""The tokens of a run as the sampler saw them: one flat row a stretch that only grew.

Source: ``TrainingSample`` of prime-rl and the drift rules of TRL's ``AsyncGRPOTrainer``: a turn
whose prompt continues what came before belongs to the row, any other turn starts a new one. Nothing
is tokenised again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from trajstore.exports.conversation import Unfit
from trajstore.schema import Step, Trajectory, counted

CONTEXT_TEMPERATURE = 1.0
"""What stands for tokens that nobody sampled; the mask leaves them out."""


@dataclass(slots=True, kw_only=True)
class TokenRow:
    """One sequence; every list has the length of ``token_ids``."""

    token_ids: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    """True on tokens that the policy sampled."""
    logprobs: list[float] = field(default_factory=list)
    """Of the policy that sampled; 0 elsewhere."""
    temperatures: list[float] = field(default_factory=list)

    def add_context(self, ids: list[int]) -> None:
        """Append tokens that the policy did not sample."""
        self.token_ids += ids
        self.mask += [False] * len(ids)
        self.logprobs += [0.0] * len(ids)
        self.temperatures += [CONTEXT_TEMPERATURE] * len(ids)

    def add_sampled(self, ids: list[int], logprobs: list[float], temperature: float) -> None:
        """Append tokens that the policy sampled."""
        self.token_ids += ids
        self.mask += [True] * len(ids)
        self.logprobs += logprobs
        self.temperatures += [temperature] * len(ids)


def token_rows(run: Trajectory, temperature: float | None = None) -> list[TokenRow]:
    """The rows of one run, in order.

    Args:
        run: the run.
        temperature: of sampling, for steps that do not say.

    Raises:
        Unfit: a step of the agent has no stored tokens, log-probabilities or temperature, or the
            run was not sampled from the prompt that it shows.
    """
    if run.relation == "rationalization":
        raise Unfit("rationalized")
    rows: list[TokenRow] = []
    for index, step in enumerate(run.steps):
        if not counted(step):
            continue
        prompt, sampled, logprobs = _sampled(step, index)
        row = rows[-1] if rows else None
        if row is None or prompt[: len(row.token_ids)] != row.token_ids:
            row = TokenRow()
            rows.append(row)
        row.add_context(prompt[len(row.token_ids) :])
        row.add_sampled(sampled, logprobs, _temperature(step, index, temperature))
    if not rows:
        raise Unfit("nothing-to-train")
    return rows


def _sampled(step: Step, index: int) -> tuple[list[int], list[int], list[float]]:
    if not step.prompt_token_ids or not step.completion_token_ids:
        raise Unfit("no-token-ids", f"step {index}")
    if step.logprobs is None or len(step.logprobs) != len(step.completion_token_ids):
        raise Unfit("no-logprobs", f"step {index}")
    return list(step.prompt_token_ids), list(step.completion_token_ids), list(step.logprobs)


def _temperature(step: Step, index: int, given: float | None) -> float:
    try:
        told = json.loads(step.sampling or "{}").get("temperature", given)
    except (ValueError, AttributeError):
        told = given
    if isinstance(told, bool) or not isinstance(told, int | float):
        raise Unfit("no-temperature", f"step {index}")
    return float(told)
