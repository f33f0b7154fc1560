"""The canonical training row: tokens, which of them the policy produced, and what is known of them.

Every trainer reads this one shape. It is that of ``TrainingSample`` in prime-rl, to which every
framework for reinforcement learning came in the end: one sequence, a mask for the loss, and numbers
aligned to the tokens. The attention mask is no part of it: context between two actions is read by
the model like all else, only the loss leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trajstore._optional import require
from trajstore.errors import TrainingError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]
    FloatArray = npt.NDArray[np.float32]


def numpy() -> Any:
    """The module, or an error that names the extra."""
    return require("numpy", extra="train", purpose="Making training rows")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenRow:
    """One sequence to train on; every array has the length T of ``token_ids``.

    Raises:
        TrainingError: arrays of other lengths, no action token, or one in the first place, which
            no token before it can predict.
    """

    token_ids: IntArray
    """(T,) the tokens."""
    action_mask: BoolArray
    """(T,) True where the policy produced the token and loss may fall on it."""
    trajectory_id: str
    """The run it comes from."""
    step_from: int
    """Index of the first step whose tokens are trained on."""
    step_to: int
    """Index of the last one; it is in the row."""
    old_logprobs: FloatArray | None = None
    """(T,) log-probability under the policy that sampled, as stored; 0 off the mask. None where it
    is not known for every action token, or is of another prompt (rationalised runs)."""
    snapshot_logprobs: FloatArray | None = None
    """(T,) the same under the weights at the start of an update, recomputed; 0 off the mask."""
    ref_logprobs: FloatArray | None = None
    """(T,) the same under the reference policy; 0 off the mask."""
    advantages: FloatArray | None = None
    """(T,) advantage of each action token; 0 off the mask."""
    temperature: float | None = None
    """Of sampling; logits are divided by it in training. None is unknown and means 1."""
    weight: float = 1.0
    """How much the row counts; 2 is the row twice, 0 is no row."""
    group_id: str | None = None
    """Attempts that were compared with one another."""
    policy_version: str | None = None
    """The policy that sampled it."""
    stored: bool = False
    """Whether the tokens are those that the sampler saw and wrote, and not tokenised from text."""
    cut_steps: tuple[int, ...] = ()
    """Steps that would have been trained on behind this row's end, left out for ``max_tokens``."""
    unused: tuple[str, ...] = ()
    """What its run has stored and is not used: :data:`trajstore.trainers.sampled.REASONS`."""

    def __post_init__(self) -> None:
        """Check what every loss relies on."""
        length = len(self.token_ids)
        names = ("action_mask", "old_logprobs", "snapshot_logprobs", "ref_logprobs", "advantages")
        for name in names:
            value = getattr(self, name)
            if value is not None and len(value) != length:
                message = f"{self._where()}: {name} has {len(value)} values for {length} tokens"
                raise TrainingError(message, record=self.trajectory_id)
        if not self.action_mask.any():
            message = f"{self._where()} has no token of the policy, so there is nothing to train on"
            raise TrainingError(message, record=self.trajectory_id)
        if self.action_mask[0]:
            message = f"{self._where()} begins with a token of the policy; a prompt must precede it"
            raise TrainingError(message, record=self.trajectory_id)

    def _where(self) -> str:
        return f"run {self.trajectory_id}, steps {self.step_from} to {self.step_to}"

    @property
    def n_action_tokens(self) -> int:
        """How many tokens carry loss."""
        return int(self.action_mask.sum())


@dataclass(slots=True, kw_only=True)
class Turn:
    """One model call: the tokens it read, and those it wrote."""

    step: int
    """Index of the step."""
    prompt: Sequence[int]
    """Everything the model read."""
    produced: Sequence[int]
    """Everything it wrote, with the end of turn."""
    trained: bool = True
    """Whether loss may fall on what it wrote."""
    logprobs: Sequence[float] | None = None
    """Of the produced tokens, where known."""
    temperature: float | None = None
    """Of sampling, where known."""
    stored: bool = False
    """Whether the tokens are the sampler's own."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """A row while it grows."""

    ids: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    logprobs: list[float] | None = field(default_factory=list)
    temperature: float | None = None
    steps: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Length of the row behind each of ``steps``."""
    stored: bool = False
    """Whether all that is trained on are the sampler's own tokens."""

    def read(self, ids: Sequence[int]) -> None:
        """Append tokens that nobody trains on."""
        self.ids += ids
        self.mask += [False] * len(ids)
        if self.logprobs is not None:
            self.logprobs += [0.0] * len(ids)

    def write(self, step: int, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> None:
        """Append tokens that the policy produced."""
        self.ids += ids
        self.mask += [True] * len(ids)
        if logprobs is None or self.logprobs is None:
            self.logprobs = None
        else:
            self.logprobs += logprobs
        self.steps.append(step)
        self.ends.append(len(self.ids))


def drafts(turns: Sequence[Turn]) -> list[Draft]:
    """Rows of turns: one that continues the tokens before it stays in their row, others begin one.

    A turn that was sampled at another temperature begins one too, as a row has but one. (The rules
    CLEAN and FORK of ``DriftKind`` in TRL's ``AsyncGRPOTrainer``.)
    """
    made: list[Draft] = []
    for turn in turns:
        prompt = list(turn.prompt)
        draft = made[-1] if made else None
        if draft is None or not _continues(draft, prompt, turn):
            draft = Draft(temperature=turn.temperature, stored=True)
            made.append(draft)
        draft.read(prompt[len(draft.ids) :])
        if turn.trained:
            draft.temperature = turn.temperature
            draft.stored = draft.stored and turn.stored
            draft.write(turn.step, turn.produced, turn.logprobs)
        else:
            draft.read(turn.produced)
    return [d for d in made if d.steps]


def _continues(draft: Draft, prompt: list[int], turn: Turn) -> bool:
    if turn.trained and draft.steps and turn.temperature != draft.temperature:
        return False
    return prompt[: len(draft.ids)] == draft.ids


def cut(draft: Draft, max_tokens: int | None) -> tuple[int, tuple[int, ...]]:
    """How many tokens of a row to keep, and the steps that this leaves out.

    A row ends behind its last trained turn. Where that is beyond ``max_tokens``, it ends behind the
    last trained turn that fits; 0 tokens if none does.
    """
    fits = [e for e in draft.ends if max_tokens is None or e <= max_tokens]
    return (fits[-1] if fits else 0), tuple(draft.steps[len(fits) :])
