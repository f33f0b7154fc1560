"""Runs of tool calls that many runs share, counted over whole columns.

A gram is a contiguous sequence of tool names inside one run. Level by level, one call longer each
time: a gram is looked at only where the two that are one call shorter are frequent, so what is
rare costs nothing (Agrawal & Srikant 1994). No row becomes a Python value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The tool calls of judged runs, in order, as numbers."""

    run: pa.Array
    """Row of ``success`` and ``task`` for each call; calls of a run are contiguous."""
    tool: pa.Array
    """Number of the tool of each call."""
    names: pa.Array
    """Name of each tool."""
    success: pa.Array
    """Whether each run succeeded."""
    task: pa.Array
    """Number of the task of each run."""
    ids: pa.Array
    """Id of each run."""
    start: pa.Array
    """Place of the first call of each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grams:
    """All frequent grams of one length."""

    length: int
    """Calls in a gram."""
    at: pa.Array
    """Places where a frequent gram begins, ascending."""
    code: pa.Array
    """Which gram begins at each of those places: a row of ``table``."""
    table: pa.Table
    """``successes``, ``failures`` (runs that have it), ``tasks`` (distinct, of the successes),
    ``prefix``, ``suffix`` (rows of the level below)."""

    def closed(self, longer: Grams | None) -> pa.Array:
        """Which grams have no longer one in just as many successes."""
        own = self.table.column("successes").combine_chunks()
        most = pc.multiply(own, 0)
        for side in ("prefix", "suffix") if longer is not None else ():
            assert longer is not None
            best = longer.table.group_by(side).aggregate([("successes", "max")])
            place = pc.index_in(_range(len(own)), value_set=best.column(side).combine_chunks())
            found = best.column("successes_max").combine_chunks().take(place)
            most = pc.max_element_wise(most, found)
        return pc.greater(own, most)


def frequent_grams(calls: Calls, *, longest: int, support: int) -> Iterator[Grams]:
    """Frequent grams of length 1, 2, ... as long as there are any.

    Args:
        calls: of runs whose outcome is known.
        longest: calls in the longest gram.
        support: distinct tasks whose successes must have a gram.
    """
    every = _range(len(calls.tool))
    nothing = pa.nulls(len(calls.names), pa.int64())
    level = _frequent(calls, 1, every, calls.tool, nothing, nothing, support)
    while level.table.num_rows:
        yield level
        if level.length == longest:
            return
        level = _longer(calls, level, support)


def _longer(calls: Calls, level: Grams, support: int) -> Grams:
    """Join each gram with the one that begins a call later in the same run."""
    after = pc.index_in(pc.add(level.at, 1), value_set=level.at)
    same_run = pc.equal(calls.run.take(level.at), _next_run(calls, level.at))
    joins = pc.and_(pc.is_valid(after), same_run)
    at, first = level.at.filter(joins), level.code.filter(joins)
    second = level.code.take(after.filter(joins))
    pair = pc.add(pc.multiply(first, level.table.num_rows), second).dictionary_encode()
    code = pc.cast(pair.indices, pa.int64())
    prefix = pc.divide(pair.dictionary, level.table.num_rows)
    suffix = pc.subtract(pair.dictionary, pc.multiply(prefix, level.table.num_rows))
    return _frequent(calls, level.length + 1, at, code, prefix, suffix, support)


def _next_run(calls: Calls, at: pa.Array) -> pa.Array:
    """Run of the call behind each place; that of the last one where there is none."""
    last = max(len(calls.run) - 1, 0)
    return calls.run.take(pc.min_element_wise(pc.add(at, 1), pa.scalar(last, pa.int64())))


def _frequent(
    calls: Calls,
    length: int,
    at: pa.Array,
    code: pa.Array,
    prefix: pa.Array,
    suffix: pa.Array,
    support: int,
) -> Grams:
    """Count grams by run, and keep the frequent ones under new numbers."""
    run = calls.run.take(at)
    held = pa.table({"code": code, "run": run}).group_by(["code", "run"]).aggregate([])
    won = calls.success.take(held.column("run").combine_chunks())
    task = calls.task.take(held.column("run").combine_chunks())
    held = held.append_column("won", pc.cast(won, pa.int64())).append_column("task", task)
    counted = held.group_by("code").aggregate([("won", "sum"), ("won", "count")])
    tasks = (
        held.filter(pc.equal(held.column("won"), 1))
        .group_by("code")
        .aggregate([("task", "count_distinct")])
    )
    joined = counted.join(tasks, "code", join_type="inner").sort_by("code")
    joined = joined.filter(pc.greater_equal(joined.column("task_count_distinct"), support))
    kept = joined.column("code").combine_chunks()
    new = pc.index_in(code, value_set=kept)
    stays = pc.is_valid(new)
    won_in = joined.column("won_sum").combine_chunks()
    table = pa.table(
        {
            "successes": won_in,
            "failures": pc.subtract(joined.column("won_count").combine_chunks(), won_in),
            "tasks": joined.column("task_count_distinct").combine_chunks(),
            "prefix": prefix.take(kept),
            "suffix": suffix.take(kept),
        }
    )
    return Grams(
        length=length,
        at=at.filter(stays),
        code=pc.cast(new.filter(stays), pa.int64()),
        table=table,
    )


def _range(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())
