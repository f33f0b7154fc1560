"""Values of the plain JSONL format, column by column, checked as they are read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from trajstore.schema import ToolCall, canonical_json, json_text

_CALL = ("call_id", "name", "arguments", "arguments_raw")


def text(value: Any) -> str:
    """Text."""
    if not isinstance(value, str):
        raise TypeError(f"must be text, not {value!r:.60}")
    return value


def identifier(value: Any) -> str:
    """Text or a whole number, as ids are written."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text(value)


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise TypeError(f"must be true or false, not {value!r:.60}")
    return value


def count(value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"must be a whole number, not {value!r:.60}")
    return value


def real(value: Any) -> float:
    """A number, or the names "nan", "inf" and "-inf", which JSON has no numbers for."""
    if isinstance(value, str) and value in {"nan", "inf", "-inf"}:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"must be a number, not {value!r:.60}")
    return float(value)


def finite(value: Any) -> Any:
    """Numbers (one, a list or an object of them) with the names that :func:`real` reads.

    >>> finite((1.5, float("inf")))
    [1.5, 'inf']
    """
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return [finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def time(value: Any) -> datetime:
    """A point in time as ISO 8601; UTC where it names no zone."""
    try:
        found = datetime.fromisoformat(text(value))
    except ValueError:
        raise ValueError(
            f"must be a time such as 2026-01-31T12:00:00Z, not {value!r:.60}"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(read_list(text)(value))


def whole_numbers(value: Any) -> tuple[int, ...]:
    """A list of whole numbers."""
    return tuple(read_list(count)(value))


def numbers(value: Any) -> tuple[float, ...]:
    """A list of numbers."""
    return tuple(read_list(real)(value))


def one_of(allowed: Sequence[str]) -> Callable[[Any], str]:
    """A reader for one of a few words."""

    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}, not {value!r:.60}")
        return str(value)

    return read


def read_list(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A reader for a list; a fault is named with the place in the list."""

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError(f"must be a list, not {value!r:.60}")
        found = []
        for i, item in enumerate(value):
            try:
                found.append(read(item))
            except (ValueError, TypeError) as error:
                raise ValueError(f"[{i}] {error}") from error
        return tuple(found)

    return read_all


def read_json(value: Any) -> str:
    """JSON text of a column that holds some: an object or list, or the text itself."""
    if not isinstance(value, str):
        return json_text(value)
    try:
        json.loads(value)
    except ValueError:
        raise ValueError(f"must be JSON or JSON text, not {value!r:.60}") from None
    return value


def json_value(text_: str | None, *, exactly: bool = False) -> Any:
    """The value of JSON text.

    Args:
        text_: JSON text, or None.
        exactly: only objects and lists that give the same text again; else the text itself.
    """
    if text_ is None:
        return None
    try:
        value = json.loads(text_)
    except ValueError:
        return text_
    if not exactly or (isinstance(value, dict | list) and json_text(value) == text_):
        return value
    return text_


def refuse_strange(value: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse names that have no place; calls and observations have no metadata to keep them in."""
    strange = [k for k in value if k not in known]
    if strange:
        raise ValueError(f"unknown field {', '.join(strange)}; known are {', '.join(known)}")


def read_call(value: Any) -> ToolCall:
    """A tool call: ``name`` and ``arguments`` (object or text), or ``arguments_raw`` beside."""
    if not isinstance(value, Mapping):
        raise TypeError(f"must be an object, not {value!r:.60}")
    refuse_strange(value, _CALL)
    name, call_id = text(value.get("name")), value.get("call_id")
    if call_id is not None:
        call_id = text(call_id)
    if "arguments_raw" not in value:
        return ToolCall.of(name, value.get("arguments"), call_id)
    raw, arguments = value["arguments_raw"], value.get("arguments")
    return ToolCall(
        name=name,
        arguments=None if arguments is None else text(arguments),
        arguments_raw=None if raw is None else text(raw),
        call_id=call_id,
    )


def call_record(call: ToolCall) -> dict[str, Any]:
    """A tool call as JSON: the arguments as an object where that says all there is to say."""
    record: dict[str, Any] = {} if call.call_id is None else {"call_id": call.call_id}
    record["name"] = call.name
    value = json_value(call.arguments_raw, exactly=True)
    if isinstance(value, dict | list) and canonical_json(value) == call.arguments:
        record["arguments"] = value
    else:
        record["arguments"] = call.arguments
        record["arguments_raw"] = call.arguments_raw
    return record
