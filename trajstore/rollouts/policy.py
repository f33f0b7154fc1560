"""The policy protocol: messages and tools in, one action out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from trajstore.rollouts.environment import Action, Tool

Message = Mapping[str, Any]
"""One chat message in OpenAI's form: role, content, tool_calls, tool_call_id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one model call cost; None is unknown."""

    prompt_tokens: int | None = None
    """Tokens read, cached ones included."""
    completion_tokens: int | None = None
    """Tokens written."""
    cached_tokens: int | None = None
    """Part of ``prompt_tokens`` that came from a cache."""
    cost_usd: float | None = None
    """Price in US dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An action, and what is known of the model call that brought it."""

    action: Action
    """What to do."""
    usage: Usage = Usage()
    """Tokens and cost."""
    model: str | None = None
    """The model that answered, where it differs from the policy's."""
    format_error: bool = False
    """The output could not be parsed; arguments that are no JSON object count without it."""
    prompt_token_ids: tuple[int, ...] | None = None
    """What the sampler really saw."""
    completion_token_ids: tuple[int, ...] | None = None
    """What the sampler really wrote."""
    logprobs: tuple[float, ...] | None = None
    """Natural-log probability of each completion token."""
    sampling: Mapping[str, Any] | None = None
    """Temperature, top_p, top_k, seed and logprobs mode of this call."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else is worth keeping with the step."""


class Policy(Protocol):
    """Something that acts. It keeps no state between calls, so one object serves all attempts."""

    @property
    def agent(self) -> str:
        """Name of the scaffold around the model."""

    @property
    def model(self) -> str | None:
        """Name of the model, where there is one."""

    @property
    def version(self) -> str | None:
        """Checkpoint, iteration or profile: what tells two policies of one agent apart."""

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """Choose the next action.

        Args:
            messages: the conversation so far, oldest first.
            tools: the tools on offer.
            seed: number of this attempt, the same at each of its steps; equal messages and seed
                give an equal action wherever the policy can promise it.
        """
