"""Trajectory values straight from the columns that a lookup read, without tables in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from trajstore.schema import Observation, Step, ToolCall, Trajectory
from trajstore.store.flat import CALL, RESULT, SAME_ARGUMENTS, SAME_ID

_TRAJECTORY_FIELDS = [f.name for f in fields(Trajectory) if f.name != "steps"]
_LISTS = ("tool_calls", "observations")
_STEP_FIELDS = [f.name for f in fields(Step) if f.name not in _LISTS]
_TOKENS = ("prompt_token_ids", "completion_token_ids", "logprobs")

Columns = Mapping[str, pa.ChunkedArray | pa.Array]


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a run tells whoever reads it, without numbers, tokens, states and metadata."""

    goal: str | None
    """What was asked."""
    steps: tuple[Step, ...]
    """Its steps: who, whether copied, reasoning, text, calls and observations; all else is as if
    unknown, ids of calls included."""


def trajectory_values(
    runs: Iterable[tuple[int, Columns]], steps: Iterable[tuple[int, Columns]]
) -> list[Trajectory]:
    """Trajectories with their steps, in the order of ``runs``.

    Args:
        runs: number of rows, and columns of the stored schema; a missing one is null throughout.
        steps: likewise; the steps of a trajectory in any order.
    """
    own = _steps_by_id(steps)
    found = []
    for count, columns in runs:
        names, rows = _rows(columns, _TRAJECTORY_FIELDS, count)
        for row in rows:
            values = dict(zip(names, row, strict=True))
            values["rewards"] = dict(values.get("rewards") or ())
            values["tags"] = tuple(values.get("tags") or ())
            found.append(Trajectory(**values, steps=own.get(values["trajectory_id"], ())))
    return found


def transcript_values(
    runs: Iterable[tuple[int, Columns]], steps: Iterable[tuple[int, Columns]]
) -> dict[str, Transcript]:
    """Transcripts by id of the run; arguments as for :func:`trajectory_values`."""
    own = _steps_by_id(steps)
    goals = (
        row for count, columns in runs for row in _lists(count, columns, ("trajectory_id", "goal"))
    )
    return {key: Transcript(goal, own.get(key, ())) for key, goal in goals}


def _rows(
    columns: Columns, known: Sequence[str], count: int
) -> tuple[list[str], Iterable[tuple[Any, ...]]]:
    names = [n for n in known if n in columns]
    lists = [columns[n].to_pylist() for n in names]
    return names, zip(*lists, strict=True) if lists else [()] * count


def _steps_by_id(parts: Iterable[tuple[int, Columns]]) -> dict[str, tuple[Step, ...]]:
    numbered: dict[str, list[tuple[int, Step]]] = {}
    for count, columns in parts:
        ids, places = (columns[n].to_pylist() for n in ("trajectory_id", "step_index"))
        for key, place, step in zip(ids, places, _steps(count, columns), strict=True):
            numbered.setdefault(key, []).append((place, step))
    for listed in numbered.values():
        listed.sort(key=_place)
    return {key: tuple([step for _, step in listed]) for key, listed in numbered.items()}


def _place(numbered: tuple[int, Step]) -> int:
    return numbered[0]


def _steps(count: int, columns: Columns) -> Iterator[Step]:
    names, rows = _rows(columns, _STEP_FIELDS, count)
    tokens = [n for n in _TOKENS if n in columns]
    calls, results = _calls(count, columns), _results(count, columns)
    for row, asked, found in zip(rows, calls, results, strict=True):
        values = dict(zip(names, row, strict=True))
        for name in tokens:
            if values[name] is not None:
                values[name] = tuple(values[name])
        yield Step(**values, tool_calls=asked, observations=found)


def _lists(count: int, columns: Columns, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Values of some columns row by row; None where a column is missing."""
    empty = [None] * count
    return zip(*(columns[n].to_pylist() if n in columns else empty for n in names), strict=True)


def _calls(count: int, columns: Columns) -> Iterator[tuple[ToolCall, ...]]:
    names = ("shape", "tool_calls", "call_id", "tool_name", "arguments", "arguments_raw")
    for shape, nested, call_id, name, arguments, raw in _lists(count, columns, names):
        if shape is None:
            yield tuple([ToolCall(**c) for c in nested or ()])
        elif shape & CALL:
            said = arguments if shape & SAME_ARGUMENTS else raw
            yield (ToolCall(name=name, arguments=arguments, arguments_raw=said, call_id=call_id),)
        else:
            yield ()


def _results(count: int, columns: Columns) -> Iterator[tuple[Observation, ...]]:
    flat = ("call_id", "result_call_id", "observation", "is_error", "observation_content")
    names = ("shape", "observations", *flat)
    for shape, nested, asked, own, text, is_error, content in _lists(count, columns, names):
        if shape is None:
            yield tuple([Observation(**o) for o in nested or ()])
        elif shape & RESULT:
            call_id = asked if shape & SAME_ID else own
            yield (Observation(text=text, call_id=call_id, is_error=is_error, content=content),)
        else:
            yield ()
