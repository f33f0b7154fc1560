"""Arguments of calls as objects, the shape that TRL's chat templates read."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from trajstore.exports.messages import Message
from trajstore.schema import clean_text

_DEEPEST = 100
_SMALLEST, _GREATEST = -(2**63), 2**64 - 1


def with_objects(messages: Sequence[Message]) -> list[Message]:
    """Copies of the messages whose ``function.arguments`` are objects instead of text.

    Raises:
        ValueError: arguments that are no JSON object, or hold a number that the JSON reader of
            ``datasets`` refuses or changes; the message names the call.
    """
    return [_with_objects(m) if "tool_calls" in m else m for m in messages]


def _with_objects(message: Message) -> Message:
    calls = [
        {**c, "function": {**c["function"], "arguments": _object(c)}} for c in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _object(call: dict[str, Any]) -> Any:
    function = call["function"]
    text = function["arguments"]
    where = f"call {call['id']!r} of {function['name']!r}"
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: arguments are no JSON: {text[:80]!r}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where}: arguments are no JSON object: {text[:80]!r}")  # noqa: TRY004 - data, not a type of ours
    try:
        return _loadable(value, _DEEPEST)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _loadable(value: Any, depth: int) -> Any:
    """The value with text that UTF-8 can hold, or ValueError where it would not load again."""
    if depth == 0:
        raise ValueError(f"arguments are nested deeper than {_DEEPEST} levels")
    if isinstance(value, dict):
        return {clean_text(k): _loadable(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_loadable(v, depth - 1) for v in value]
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    if isinstance(value, int) and not _SMALLEST <= value <= _GREATEST:
        raise ValueError(f"the whole number {value} has more than 64 bits")
    return value
