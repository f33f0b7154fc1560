"""The Pareto front of a task: the successes that no other success beats on every count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.efficiency import COSTS, PRICED_COLUMNS, cost_sql
from trajstore.filters.outcome import UNKNOWN_OUTCOME
from trajstore.filters.relations import numbered, relation
from trajstore.filters.row_columns import NO_REASON
from trajstore.filters.selection import Frame, NamedStage, StageResult

_DEFAULT = ("tool-calls", "tokens", "seconds")


def pareto_front(rows: pa.Table, over: Sequence[str] = _DEFAULT) -> pa.Array:
    """For each row the place of a success on the front of its task that stands above it.

    Reward is to be high, costs low. A success is off the front if another one at the task is
    nowhere worse and somewhere better; equal ones are on it together. An unknown reward counts as
    the lowest, an unknown cost as the highest. Only successes can be on a front.

    Args:
        rows: summary rows.
        over: names of costs (:data:`~trajstore.filters.efficiency.COSTS`), at least one.

    Returns:
        Places (int64): a row's own where it is on the front; null where it is no success.

    Raises:
        SelectionError: there is no such cost.
    """
    points = _points(rows, over)
    names = [n for n in points.column_names if n.startswith("v")]
    found = [pa.table({"place": pa.array([], pa.int64()), "leader": pa.array([], pa.int64())})]
    while points.num_rows:
        at = pa.arange(0, points.num_rows)
        tasks = pa.table({"task": points.column("task"), "at": at})
        first = tasks.group_by("task").aggregate([("at", "min")])
        which = pc.index_in(points.column("task"), value_set=first.column("task"))
        leader = points.take(first.column("at_min").take(which))
        dominated, equal = _compare(points, leader, names)
        found.append(_decided(points, points, equal))
        found.append(_decided(points, leader, dominated))
        points = points.filter(pc.invert(pc.or_(dominated, equal)))
    decided = pa.concat_tables(found)
    place = pc.index_in(pa.arange(0, rows.num_rows), value_set=decided.column("place"))
    return decided.column("leader").combine_chunks().take(place)


def _points(rows: pa.Table, over: Sequence[str]) -> pa.Table:
    """The successes of each task in lexicographic order; all values are to be made small.

    In that order only an earlier point can dominate a later one, so the first point of a task that
    is not decided yet is on the front.
    """
    if not over:
        raise SelectionError(f"A Pareto front needs costs, some of {', '.join(COSTS)}.")
    values = ["-reward", *(cost_sql(c) for c in over)]
    listed = ", ".join(
        f"CASE WHEN {v} IS NULL OR isnan({v}) THEN 'inf'::DOUBLE ELSE {v} END AS v{i}"
        for i, v in enumerate(values)
    )
    order = ", ".join(f"v{i}" for i in range(len(values)))
    query = f"""
        SELECT dense_rank() OVER (ORDER BY task_id) AS task, place, {listed}
        FROM runs WHERE success
        ORDER BY task, {order}, trajectory_id"""
    return relation(query, tables={"runs": numbered(rows, *PRICED_COLUMNS)})


def _compare(
    points: pa.Table, leader: pa.Table, names: Sequence[str]
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Whether each point is dominated by its leader, and whether the two are equal."""
    behind = equal = pa.repeat(pa.scalar(True), points.num_rows)
    for name in names:
        mine, theirs = points.column(name), leader.column(name)
        behind = pc.and_(behind, pc.greater_equal(mine, theirs))
        equal = pc.and_(equal, pc.equal(mine, theirs))
    return pc.and_not(behind, equal), equal


def _decided(points: pa.Table, leader: pa.Table, which: pa.ChunkedArray) -> pa.Table:
    table = pa.table({"place": points.column("place"), "leader": leader.column("place")})
    return table.filter(which)


@dataclass(frozen=True, slots=True)
class Pareto(NamedStage):
    """Keep the successes on the Pareto front of their task: reward up, costs down."""

    name: ClassVar[str] = "pareto"

    over: tuple[str, ...] = _DEFAULT
    """The costs beside the reward: steps, tool-calls, tokens, cost, seconds."""

    def __post_init__(self) -> None:
        """Check the costs."""
        for cost in self.over:
            cost_sql(cost)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``dominated`` (by the run in the detail), ``failure``, ``unknown-outcome``."""
        rows = frame.rows
        leaders = pareto_front(rows, self.over)
        on = pc.equal(leaders, pa.arange(0, rows.num_rows))
        reasons = pc.if_else(on, NO_REASON, "dominated")
        reasons = pc.if_else(pc.is_null(leaders), "failure", reasons)
        reasons = pc.if_else(pc.is_null(rows.column("success")), UNKNOWN_OUTCOME, reasons)
        return StageResult.split(rows, reasons, rows.column("trajectory_id").take(leaders))


STAGES = {Pareto.name: Pareto}
"""Stages of this module by name."""
