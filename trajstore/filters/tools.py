"""How tools were used: failed, repeated and looping calls, format errors, tools that must be used.

A call is its tool and its canonical arguments, with volatile values (UUIDs, times, temporary paths,
addresses) masked. Calls in copied context do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.row_columns import NO_REASON
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.filters.sequences import masked
from trajstore.filters.step_rows import OWN_CALLS, by_blocks


@dataclass(frozen=True, slots=True)
class ToolErrors(NamedStage):
    """Keep runs with few failed calls."""

    name: ClassVar[str] = "tool-errors"

    most: int | None = None
    """Most failed calls; None for no bound."""
    most_share: float | None = None
    """Most failed calls as a share of all calls, 0 to 1; None for no bound."""

    def __post_init__(self) -> None:
        """Check the bounds."""
        if self.most is None and self.most_share is None:
            raise SelectionError("The stage 'tool-errors' needs most, most_share or both.")
        if self.most_share is not None and not 0 <= self.most_share <= 1:
            raise SelectionError(f"most_share is from 0 to 1, not {self.most_share}.")

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``too-many-failed-calls``; a run without calls has none that failed."""
        failed, calls = frame.rows.column("n_tool_errors"), frame.rows.column("n_tool_calls")
        bad = pa.chunked_array([pa.repeat(pa.scalar(False), len(failed))])
        if self.most is not None:
            bad = pc.or_(bad, pc.greater(failed, self.most))
        if self.most_share is not None:
            allowed = pc.multiply(pc.cast(calls, pa.float64()), self.most_share)
            bad = pc.or_(bad, pc.greater(pc.cast(failed, pa.float64()), allowed))
        return StageResult.split(
            frame.rows,
            pc.if_else(bad, "too-many-failed-calls", NO_REASON),
            pc.binary_join_element_wise(
                pc.cast(failed, pa.string()), pc.cast(calls, pa.string()), " of "
            ),
        )


@dataclass(frozen=True, slots=True)
class FormatErrors(NamedStage):
    """Keep runs in which few model outputs could not be parsed into an action."""

    name: ClassVar[str] = "format-errors"

    most: int = 0
    """Most format errors."""

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``format-errors``."""
        count = frame.rows.column("n_format_errors")
        reasons = pc.if_else(pc.greater(count, self.most), "format-errors", NO_REASON)
        return StageResult.split(frame.rows, reasons, pc.cast(count, pa.string()))


@dataclass(frozen=True, slots=True)
class Repeats(NamedStage):
    """Keep runs that do not make the same call again and again."""

    name: ClassVar[str] = "repeats"

    most: int = 2
    """Most identical calls one right after the other."""
    same_result: bool = False
    """Count a call as the same only if its result is the same too, so that paging through a file
    or waiting for something is no repeat."""

    def __post_init__(self) -> None:
        """Check the bound."""
        if self.most < 1:
            raise SelectionError(f"The stage 'repeats' allows 1 call or more, not {self.most}.")

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``repeated-call``."""
        return _looped(frame, "repeated-call", 1, self.most + 1, same_result=self.same_result)


@dataclass(frozen=True, slots=True)
class Loops(NamedStage):
    """Keep runs that do not go round in circles: a sequence of calls, repeated in a row."""

    name: ClassVar[str] = "loops"

    times: int = 3
    """A sequence made so many times in a row is a loop."""
    longest: int = 8
    """Longest sequence looked for, in calls; shorter ones down to a single call count too."""
    same_result: bool = False
    """Count a call as the same only if its result is the same too."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.times < 2 or self.longest < 1:
            message = (
                "The stage 'loops' needs times of at least 2 and longest of at least 1, not "
                f"{self.times} and {self.longest}."
            )
            raise SelectionError(message)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``loop``; the detail tells the shortest sequence that repeats, and where."""
        return _looped(frame, "loop", self.longest, self.times, same_result=self.same_result)


def _looped(
    frame: Frame, reason: str, longest: int, times: int, *, same_result: bool
) -> StageResult:
    found = [
        _cycles(calls, period, times)
        for _, calls in by_blocks(frame, lambda ids: _calls_query(ids, same_result=same_result))
        for period in range(1, longest + 1)
    ]
    loops = pa.concat_tables([_LOOPS.empty_table(), *found])
    place = pc.index_in(frame.rows.column("trajectory_id"), value_set=loops.column("trajectory_id"))
    reasons = pc.if_else(pc.is_null(place), NO_REASON, reason)
    return StageResult.split(frame.rows, reasons, loops.column("detail").take(place))


_LOOPS = pa.schema([("trajectory_id", pa.string()), ("detail", pa.string())])


def _calls_query(ids: str, *, same_result: bool) -> str:
    """Calls in order, and what a user says between them as a call that equals no other."""
    arguments = masked("coalesce(arguments, arguments_raw, '')")
    result = f", {masked('observation')}" if same_result else ""
    return (
        "SELECT trajectory_id, step_index, name, action FROM ("
        f"SELECT trajectory_id, step_index, call_index, name, hash(name, {arguments}{result}) "
        f"AS action FROM tool_calls WHERE {ids} AND {OWN_CALLS} "
        "UNION ALL SELECT trajectory_id, step_index, -1, '', hash(step_index) FROM steps "
        f"WHERE {ids} AND actor = 'user' AND NOT is_copied"
        ") ORDER BY trajectory_id, step_index, call_index"
    )


def _cycles(calls: pa.Table, period: int, times: int) -> pa.Table:
    """Runs that make some sequence of ``period`` calls at least ``times`` times in a row.

    A call that equals the one ``period`` calls before it continues a cycle; a stretch of n such
    calls is a sequence made n // period + 1 times.
    """
    if calls.num_rows <= period:
        return _LOOPS.empty_table()
    run = pc.dictionary_encode(calls.column("trajectory_id")).combine_chunks().indices
    action = calls.column("action").combine_chunks()
    same = pc.and_(
        pc.equal(run[period:], run[:-period]), pc.equal(action[period:], action[:-period])
    )
    stretches = pc.run_end_encode(pc.if_else(same, run[period:], -1))
    ends = pc.cast(stretches.run_ends, pa.int64())
    starts = pa.concat_arrays([pa.array([0], pa.int64()), ends[:-1]])
    lengths = pc.subtract(ends, starts)
    long_enough = pc.and_(
        pc.greater_equal(stretches.values, 0), pc.greater_equal(lengths, period * (times - 1))
    )
    first = calls.take(starts.filter(long_enough))
    made = pc.add(pc.divide(lengths.filter(long_enough), period), 1)
    return pa.table([first.column("trajectory_id"), _described(first, period, made)], schema=_LOOPS)


def _described(first: pa.Table, period: int, made: pa.Array) -> pa.ChunkedArray:
    name, step = first.column("name"), pc.cast(first.column("step_index"), pa.string())
    times = pc.cast(made, pa.string())
    if period == 1:
        return pc.binary_join_element_wise(name, times, "times in a row from step", step, " ")
    start = f"{period} calls that begin with"
    return pc.binary_join_element_wise(
        start, name, "made", times, "times in a row from step", step, " "
    )


@dataclass(frozen=True, slots=True)
class Tools(NamedStage):
    """Keep runs by the tools that they called."""

    name: ClassVar[str] = "tools"

    required: tuple[str, ...] = ()
    """Tools that must each be called."""
    forbidden: tuple[str, ...] = ()
    """Tools that must not be called."""
    only: tuple[str, ...] = ()
    """If given, no other tool may be called."""

    def __post_init__(self) -> None:
        """Check that there is something to look for."""
        if not (self.required or self.forbidden or self.only):
            raise SelectionError("The stage 'tools' needs required, forbidden or only.")

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``missing-tool`` and ``forbidden-tool``; the detail names the tool."""
        rows = frame.rows
        used = pa.concat_tables(
            [
                pa.schema([("trajectory_id", pa.string()), ("name", pa.string())]).empty_table(),
                *(found for _, found in by_blocks(frame, _names_query)),
            ]
        )
        reasons, details = (
            pa.nulls(rows.num_rows, pa.string()),
            pa.nulls(rows.num_rows, pa.string()),
        )
        for reason, tool, mask in self._failing(rows.column("trajectory_id"), used):
            fresh = pc.and_(pc.is_null(reasons), mask)
            details = pc.if_else(fresh, tool, details)
            reasons = pc.if_else(fresh, reason, reasons)
        return StageResult.split(rows, reasons, details)

    def _failing(
        self, ids: pa.ChunkedArray, used: pa.Table
    ) -> Iterator[tuple[str, str | pa.ChunkedArray, pa.ChunkedArray]]:
        """Reason, name of the tool, and which runs fail for it."""
        name = used.column("name")
        callers = used.column("trajectory_id")
        for tool in self.forbidden:
            bad = callers.filter(pc.equal(name, tool))
            yield "forbidden-tool", tool, pc.is_in(ids, value_set=bad)
        if self.only:
            others = used.filter(pc.invert(pc.is_in(name, value_set=pa.array(self.only))))
            place = pc.index_in(ids, value_set=others.column("trajectory_id"))
            yield "forbidden-tool", others.column("name").take(place), pc.is_valid(place)
        for tool in self.required:
            good = callers.filter(pc.equal(name, tool))
            yield "missing-tool", tool, pc.invert(pc.is_in(ids, value_set=good))


def _names_query(ids: str) -> str:
    return (
        f"SELECT DISTINCT trajectory_id, name FROM tool_calls WHERE {ids} AND {OWN_CALLS} "
        "ORDER BY trajectory_id, name"
    )


STAGES = {s.name: s for s in (ToolErrors, FormatErrors, Repeats, Loops, Tools)}
"""Stages of this module by name."""
