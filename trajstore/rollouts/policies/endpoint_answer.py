"""A chat completion in OpenAI's form as an action, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from trajstore.rollouts.environment import Action
from trajstore.rollouts.policies.sampling import logprob_values, tokens_and_logprobs
from trajstore.rollouts.policy import Message, Usage
from trajstore.schema import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars for a million tokens, for servers that do not say what a call cost."""

    prompt: float
    """Tokens read and not cached."""
    completion: float
    """Tokens written."""
    cached: float | None = None
    """Tokens read from a cache; as ``prompt`` where None."""

    def cost_usd(self, usage: Usage) -> float | None:
        """Price of a call; None where its tokens are unknown."""
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return None
        cached = usage.cached_tokens or 0
        at = self.prompt if self.cached is None else self.cached
        read = (usage.prompt_tokens - cached) * self.prompt + cached * at
        return (read + usage.completion_tokens * self.completion) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """What one completion says."""

    action: Action
    """What to do."""
    usage: Usage
    """Tokens and cost."""
    model: str | None
    """The model that answered."""
    finish_reason: str | None
    """Why it ended: ``stop``, ``tool_calls``, ``length``, ..."""
    prompt_token_ids: tuple[int, ...] | None = None
    """What the sampler saw, where the server says."""
    completion_token_ids: tuple[int, ...] | None = None
    """What it wrote."""
    logprobs: tuple[float, ...] | None = None
    """Of what it wrote."""


def chat_turn(
    value: Any, messages: Sequence[Message], *, token_ids: bool, prices: Prices | None
) -> ChatTurn:
    """Read a chat completion.

    Args:
        value: the JSON.
        messages: the conversation before it, for ids of calls that are not taken yet.
        token_ids: whether the answer must hold tokens and log-probabilities.
        prices: what tokens cost, where the server does not say the cost.

    Raises:
        LackingError: tokens were asked for and are not there.
        LookupError, TypeError, ValueError, AttributeError: it is no chat completion.
    """
    choice = value["choices"][0]
    said = choice["message"]
    turn: dict[str, Any] = {}
    if token_ids:
        turn = _tokens(value, choice)
    return ChatTurn(
        action=Action(
            text=_text(said.get("content")) or said.get("refusal") or None,
            reasoning=said.get("reasoning_content") or said.get("reasoning") or None,
            tool_calls=_calls(said.get("tool_calls") or [], messages),
        ),
        usage=usage_of(value, prices),
        model=_name(value.get("model")),
        finish_reason=_name(choice.get("finish_reason")),
        **turn,
    )


def usage_of(value: Mapping[str, Any], prices: Prices | None) -> Usage:
    """Tokens and cost as OpenAI's ``usage`` has them, the cost as OpenRouter adds it."""
    given = value.get("usage") or {}
    details = given.get("prompt_tokens_details") or {}
    usage = Usage(
        prompt_tokens=_count(given.get("prompt_tokens")),
        completion_tokens=_count(given.get("completion_tokens")),
        cached_tokens=_count(details.get("cached_tokens")),
    )
    cost = given.get("cost")
    if cost is None and prices is not None:
        cost = prices.cost_usd(usage)
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=None if cost is None else float(cost),
    )


def _tokens(value: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any]:
    content = (choice.get("logprobs") or {}).get("content")
    written, logprobs = tokens_and_logprobs(
        choice.get("token_ids"),
        None if content is None else logprob_values(content),
        "the completion",
    )
    read = value["prompt_token_ids"]
    return {
        "prompt_token_ids": tuple(int(t) for t in read),
        "completion_token_ids": written,
        "logprobs": logprobs,
    }


def _calls(given: Sequence[Mapping[str, Any]], messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls, each with an id that no other call of the run has.

    Some servers count anew in each turn or give no ids at all.
    """
    taken = {c.get("id") for m in messages for c in m.get("tool_calls") or ()}
    made: list[ToolCall] = []
    for call in given:
        function = call["function"]
        call_id = call.get("id")
        if not call_id or call_id in taken:
            call_id = next(c for n in count(1) if (c := f"call_{n}") not in taken)
        taken.add(call_id)
        made.append(ToolCall.of(function["name"], function.get("arguments"), call_id))
    return tuple(made)


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(str(part.get("text") or "") for part in content)


def _name(value: Any) -> str | None:
    return None if value is None else str(value)


def _count(value: Any) -> int | None:
    return None if value is None else int(value)
