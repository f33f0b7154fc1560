"""What was said and done inside a step: tool calls and their observations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trajstore.schema.jsontext import clean_text, json_text, strict_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool.

    ``arguments`` is canonical JSON text, or None when the raw text is no JSON (NaN and the
    infinities are none); the raw text is always kept as ``arguments_raw``.
    """

    name: str
    """Name of the tool."""
    arguments: str | None = None
    """Canonical JSON text of the arguments, or None when ``arguments_raw`` is no JSON."""
    arguments_raw: str | None = None
    """The arguments exactly as the model wrote them, or as JSON where the source had an object."""
    call_id: str | None = None
    """Id that links the result, where the source has one; not unique across trajectories."""

    @classmethod
    def of(cls, name: Any, arguments: Any, call_id: Any = None) -> ToolCall:
        """Make a call from whatever the source has: object, JSON text, free text or None.

        >>> ToolCall.of("search", {"q": "x", "k": 2}).arguments
        '{"k":2,"q":"x"}'
        >>> ToolCall.of("bash", "ls -la").arguments is None
        True
        """
        (parsed,), (raw,) = argument_texts([arguments])
        return cls(
            name=str(name if name is not None else ""),
            arguments=parsed,
            arguments_raw=raw,
            call_id=None if call_id is None else str(call_id),
        )


def _canonical_arguments(arguments: Any) -> str | None:
    if arguments is None:
        return None
    if not isinstance(arguments, str):
        return strict_json(arguments)
    try:
        return strict_json(json.loads(arguments))
    except ValueError:
        return None


def argument_texts(arguments: Iterable[Any]) -> tuple[list[str | None], list[str | None]]:
    """Canonical and raw text of the arguments of many calls; see :meth:`ToolCall.of`."""
    listed = list(arguments)
    parsed = [_canonical_arguments(a) for a in listed]
    return parsed, [_raw(a, text) for a, text in zip(listed, parsed, strict=True)]


def _raw(arguments: Any, parsed: str | None) -> str | None:
    if arguments is None or isinstance(arguments, str):
        return arguments
    if parsed is not None:
        return json_text(arguments)
    text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=str)
    return clean_text(text)  # with NaN and Infinity, as the source has them


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One result that came back to the agent."""

    text: str | None = None
    """The result as text."""
    call_id: str | None = None
    """Id of the call it answers, where the source has one."""
    is_error: bool | None = None
    """True where the source or the environment says that the call failed; None is unknown."""
    content: str | None = None
    """JSON text: the parts, only where the result has more than text."""
