"""The last look at a trajectory: a value of the wrong kind costs its record, not the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import datetime
from typing import Any

import pyarrow as pa

from trajstore.schema import STEP_SCHEMA, TRAJECTORY_SCHEMA, Observation, Step, ToolCall, Trajectory

_KINDS: tuple[tuple[Callable[[Any], bool], type | tuple[type, ...], str], ...] = (
    (pa.types.is_string, str, "text"),
    (pa.types.is_boolean, bool, "true or false"),
    (pa.types.is_integer, int, "a whole number"),
    (pa.types.is_floating, (int, float), "a number"),
    (pa.types.is_timestamp, datetime, "a point in time"),
)
_Field = tuple[str, type | tuple[type, ...], str, int]


def _plain(columns: Iterable[pa.Field], holder: type[Any]) -> tuple[_Field, ...]:
    """Name, Python type, its words and its bits, of the columns that hold no lists."""
    held = {field.name for field in fields(holder)}
    return tuple(
        (column.name, kind, words, column.type.bit_width if kind is int else 0)
        for column in columns
        for fits, kind, words in _KINDS
        if column.name in held and fits(column.type)
    )


_TRAJECTORY = _plain(TRAJECTORY_SCHEMA, Trajectory)
_STEP = _plain(STEP_SCHEMA, Step)
_CALL = _plain(STEP_SCHEMA.field("tool_calls").type.value_type, ToolCall)
_OBSERVATION = _plain(STEP_SCHEMA.field("observations").type.value_type, Observation)


def sound(trajectory: Trajectory) -> Trajectory:
    """The trajectory itself, once every value in it fits its column.

    Raises:
        TypeError: a value is of another kind, or a number too large; the message names the field
            and the step.
    """
    _check(trajectory, _TRAJECTORY, "")
    for index, step in enumerate(trajectory.steps):
        where = f" of step {index}"
        _check(step, _STEP, where)
        for call in step.tool_calls:
            _check(call, _CALL, f" of a call{where}")
        for observation in step.observations:
            _check(observation, _OBSERVATION, f" of a result{where}")
    return trajectory


def _check(holder: Any, known: Iterable[_Field], where: str) -> None:
    for name, kind, words, bits in known:
        value = getattr(holder, name)
        if value is None:
            continue
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            message = f"'{name}'{where} is {type(value).__name__} where {words} belongs"
            raise TypeError(message)
        if bits and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            message = f"'{name}'{where} is too large: {value}"
            raise TypeError(message)
