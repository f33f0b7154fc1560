"""How a policy draws tokens, and the numbers that differ from turn to turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trajstore.rollouts.policy import Message
from trajstore.schema import digest

LogprobsMode = Literal["processed_logprobs", "raw_logprobs"]
"""Whether log-probabilities are those of the distribution that was drawn from, after temperature,
top-p and top-k, or those of the bare model. The two agree at temperature 1 with both others off."""

_TOKENS = ("prompt_token_ids", "completion_token_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn.

    The defaults draw from the model's own distribution, which is what reinforcement learning
    assumes: top-p and top-k leave out tokens whose chance the trainer counts (TRL issue 6789).
    """

    temperature: float = 1.0
    """Logits are divided by it; 0 takes the likeliest token."""
    max_tokens: int = 256
    """Tokens of one turn at most."""
    top_p: float = 1.0
    """Draw from the likeliest tokens that hold this share of the chance; 1 is off."""
    top_k: int = 0
    """Draw from so many likeliest tokens; 0 is off."""

    def told(self, seed: int, mode: LogprobsMode = "processed_logprobs") -> dict[str, Any]:
        """What is stored with a step that was drawn so.

        Args:
            seed: of this turn.
            mode: what its log-probabilities are.
        """
        return {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "seed": seed,
            "max_tokens": self.max_tokens,
            "logprobs_mode": mode,
        }


def told_mode(sampling: Sampling, mode: LogprobsMode) -> LogprobsMode:
    """What log-probabilities are: at temperature 0 they are the bare model's in any mode."""
    return "raw_logprobs" if sampling.temperature == 0 else mode


def turn_seed(seed: int, messages: Sequence[Message]) -> int:
    """Seed of one turn, 31 bits: another at each turn of an attempt, equal for equal turns.

    With one seed for all turns, the first token of each would be drawn with the same noise.

    Args:
        seed: of the attempt.
        messages: the conversation so far; only their number counts.
    """
    return int(digest("turn", str(seed), str(len(messages)))[:8], 16) & 0x7FFFFFFF


def as_sent(message: Message, *, keep_reasoning: bool) -> dict[str, Any]:
    """The message as a chat endpoint takes it.

    Args:
        message: one message of the conversation; the tokens of its turn are left out.
        keep_reasoning: whether its reasoning goes along.
    """
    left_out = _TOKENS if keep_reasoning else (*_TOKENS, "reasoning_content")
    sent = {key: value for key, value in message.items() if key not in left_out}
    if sent.get("content") is None and not sent.get("tool_calls"):
        sent["content"] = ""
    return sent


class LackingError(ValueError):
    """An answer is whole and lacks what was asked for, so asking again would not help."""


def tokens_and_logprobs(
    token_ids: Any, logprobs: Any, about: str
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Both as tuples, one log-probability a token.

    Raises:
        LackingError: one is missing.
        TypeError, ValueError: one holds something else than numbers, or they differ in length.
    """
    if token_ids is None or logprobs is None:
        raise LackingError(
            f"{about} holds no token ids with log-probabilities, which vLLM gives for "
            "return_token_ids; roll out without them, or on a server that gives them"
        )
    if len(token_ids) != len(logprobs):
        message = f"{about} holds {len(token_ids)} tokens and {len(logprobs)} log-probabilities"
        raise ValueError(message)
    return tuple(int(t) for t in token_ids), tuple(float(p) for p in logprobs)


def logprob_values(content: Sequence[Mapping[str, Any]]) -> list[float]:
    """The number of each entry of OpenAI's ``logprobs.content``."""
    return [float(entry["logprob"]) for entry in content]
