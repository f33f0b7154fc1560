"""The steps of a conversation: a message of the agent with the results of its calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajstore.retrieval.compress_text import LEAST, Rule, shorten
from trajstore.retrieval.tokens import Count

Message = Mapping[str, Any]
"""A chat message in OpenAI's form."""

StepMessages = tuple[Message, ...]
"""A message of the agent, the results of its calls, and what the user said after it."""

MARKS_A_MESSAGE = 8
"""Tokens that a chat template puts around a message: role, begin and end."""

PART_TOKENS = 1600
"""Tokens that a part of a message counts that is no text: an image of about a megapixel."""

RESULT_ROLES = frozenset({"tool", "function"})
"""Roles of messages that bring a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What comes before the first step, and the steps."""

    system: StepMessages
    """System prompts at the beginning."""
    intent: StepMessages
    """What was said before the agent acted."""
    steps: tuple[StepMessages, ...]
    """The steps, the oldest first."""


def conversation(messages: Sequence[Message]) -> Conversation:
    """Take a conversation apart; no message is lost, and none changes its place.

    Args:
        messages: in OpenAI's form. A step begins with each message of the role ``assistant``.
    """
    starts = [n for n, m in enumerate(messages) if m.get("role") == "assistant"]
    first = starts[0] if starts else len(messages)
    head = 0
    while head < first and messages[head].get("role") in {"system", "developer"}:
        head += 1
    ends = [*starts[1:], len(messages)]
    return Conversation(
        system=tuple(messages[:head]),
        intent=tuple(messages[head:first]),
        steps=tuple(tuple(messages[a:b]) for a, b in zip(starts, ends, strict=False)),
    )


def tokens_of(messages: Sequence[Message], count: Count) -> int:
    """Tokens of messages: texts, calls, and the marks of a chat template around them."""
    total = 0
    for message in messages:
        values = (message.get("content"), message.get("reasoning_content"))
        parts = [p for v in values if v for p in (v if isinstance(v, list) else [v])]
        total += MARKS_A_MESSAGE + sum(_part_tokens(p, count) for p in parts)
        total += sum(count(_text(call)) for call in message.get("tool_calls") or ())
    return total


def _part_tokens(part: Any, count: Count) -> int:
    if isinstance(part, Mapping) and "text" not in part:
        return PART_TOKENS
    return count(_text(part["text"] if isinstance(part, Mapping) else part))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


_MEDIA = frozenset({"image_url", "input_image", "image", "input_audio", "audio", "file", "video"})


def shorter(message: Message, most: int, rule: Rule, *, results_only: bool) -> Message:
    """A message with its texts shortened; the same object where none is too long.

    Arguments of calls stay JSON: the texts inside are shortened. Parts that are no text stay.

    Args:
        message: the message.
        most: most characters of one text.
        rule: how.
        results_only: leave alone what is no result of a call.
    """
    if message.get("role") not in RESULT_ROLES and results_only:
        return message
    changed = {
        name: _shortened(message[name], most, rule)
        for name in ("content", "reasoning_content")
        if message.get(name)
    }
    if message.get("tool_calls"):
        changed["tool_calls"] = [_shorter_call(c, most, rule) for c in message["tool_calls"]]
    made = {**message, **changed}
    return message if made == message else made


def _shorter_call(call: Mapping[str, Any], most: int, rule: Rule) -> Mapping[str, Any]:
    function = call.get("function")
    raw = function.get("arguments") if isinstance(function, Mapping) else None
    if not isinstance(raw, str) or len(raw) <= most:
        return call
    try:
        value = _shortened(json.loads(raw), most, rule)
    except ValueError:
        return {
            **call,
            "function": {**call["function"], "arguments": shorten(raw, most, rule=rule)},
        }
    arguments = json.dumps(value, ensure_ascii=False)
    return {**call, "function": {**call["function"], "arguments": arguments}}


def _shortened(value: Any, most: int, rule: Rule) -> Any:
    """A value with every text in it shortened; media in it stay as they are."""
    if isinstance(value, str):
        return shorten(value, max(most, LEAST), rule=rule)
    if isinstance(value, list):
        return [_shortened(v, most, rule) for v in value]
    if isinstance(value, dict):
        media = value.get("type") in _MEDIA
        return value if media else {k: _shortened(v, most, rule) for k, v in value.items()}
    return value
