"""ATIF documents that trajstore itself wrote: every column comes back as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from trajstore.importers.building import moment, parts_of, text_of
from trajstore.schema import (
    TABLES,
    Column,
    Observation,
    Step,
    ToolCall,
    Trajectory,
    json_text_or_none,
)

_OWN = "trajstore"
_TOTALS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
_CALL = ("call_id", "arguments", "arguments_raw")


def own_run(document: Mapping[str, Any]) -> Trajectory | None:
    """The run whose document the export ``to_atif`` wrote, or None for any other document.

    What ATIF has a field for is read from there, so an edited document gives what it now says; the
    rest comes from ``extra``. A document whose ``extra`` is not as trajstore writes it counts as
    any other, and is read by the rules for those.
    """
    own = _own(document)
    if not {"task_id", "source"} <= own.keys():
        return None
    try:
        return _run(document, own)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _run(document: Mapping[str, Any], own: Mapping[str, Any]) -> Trajectory:
    agent, totals = document["agent"], document.get("final_metrics") or {}
    said = {
        "trajectory_id": document["trajectory_id"],
        "agent": agent["name"],
        "model": agent.get("model_name"),
        "tools": json_text_or_none(agent.get("tool_definitions")),
        **{name: totals.get(f"total_{name}") for name in _TOTALS},
        **own,
    }
    steps = [_step(s) for s in document["steps"] if not _own(s).get("absent")]
    return Trajectory(steps=tuple(steps), **_typed(said, TABLES["trajectories"]))


def _own(value: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = value.get("extra")
    found = extra.get(_OWN) if isinstance(extra, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _step(step: Mapping[str, Any]) -> Step:
    own = dict(_own(step))
    metrics = step.get("metrics") or {}
    calls = own.pop("tool_calls", None)
    said = {
        "actor": step["source"],
        "text": text_of(step["message"]),
        "content": parts_of(step["message"]) or _text_parts(step["message"]),
        "reasoning": step.get("reasoning_content"),
        "model": step.get("model_name"),
        "timestamp": step.get("timestamp"),
        "is_copied": bool(step.get("is_copied_context")),
        **metrics,
        **own,
    }
    results = (step.get("observation") or {}).get("results") or ()
    return Step(
        tool_calls=tuple(map(_call, step.get("tool_calls") or ()))
        if calls is None
        else tuple(ToolCall(**c) for c in calls),
        observations=tuple(map(_observation, results)),
        **_typed(said, TABLES["steps"]),
    )


def _text_parts(content: Any) -> str | None:
    """Parts of text only, which the run had as parts; ``parts_of`` takes them for text."""
    return json_text_or_none(content) if isinstance(content, list) else None


def _call(call: Mapping[str, Any]) -> ToolCall:
    read = ToolCall.of(call["function_name"], call["arguments"], call["tool_call_id"])
    said = {**{name: getattr(read, name) for name in _CALL}, **_own(call)}
    return ToolCall(name=read.name, **{name: _text(said[name]) for name in _CALL})


def _observation(result: Mapping[str, Any]) -> Observation:
    content = result.get("content")
    said = {
        "text": text_of(content),
        "content": parts_of(content) or _text_parts(content),
        "call_id": result.get("source_call_id"),
        **_own(result),
    }
    flag = (result.get("extra") or {}).get("is_error")
    return Observation(
        is_error=flag if isinstance(flag, bool) else None, **{k: _text(v) for k, v in said.items()}
    )


def _typed(values: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    """Fields by column, each in its Python type; raises where a value is of another."""
    types = {c.name: c for c in columns}
    made = {}
    for name, value in values.items():
        column = types[name]
        made[name] = None if value is None else _value(column.type, value)
        if column.allowed and value is not None and value not in column.allowed:
            raise ValueError(name)
    return {n: v for n, v in made.items() if v is not None}


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(value)
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value


def _value(type_: pa.DataType, value: Any) -> Any:
    if type_ == pa.list_(pa.string()):
        return tuple(map(_text, value))
    if pa.types.is_list(type_):
        return tuple(map(_READ[type_.value_type], value))
    if pa.types.is_map(type_):
        return {str(k): float(v) for k, v in value.items()}
    return _READ[type_](value)


_READ: Mapping[pa.DataType, Callable[[Any], Any]] = {
    pa.string(): _text,
    pa.int32(): _whole,
    pa.int64(): _whole,
    pa.float32(): float,
    pa.float64(): float,
    pa.bool_(): _flag,
    pa.timestamp("us", tz="UTC"): moment,
}
