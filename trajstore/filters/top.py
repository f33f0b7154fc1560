"""Stages that keep the best few: top n, best of N attempts, a cap per task.

The order is that of :data:`~trajstore.filters.efficiency.RANK_ORDER`, so among successes of equal
reward the cheaper wins, and a failure never stands before a success.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.draws import DIGEST
from trajstore.filters.efficiency import Cost, cost_sql, ranked
from trajstore.filters.outcome import UNKNOWN_OUTCOME
from trajstore.filters.relations import numbered, relation
from trajstore.filters.row_columns import NO_REASON
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.filters.sequence_kernels import Bigrams
from trajstore.filters.strategies import Words, strategies


def _outcome_reasons(rows: pa.Table) -> pa.ChunkedArray:
    success = rows.column("success")
    return pc.if_else(
        pc.is_null(success), UNKNOWN_OUTCOME, pc.if_else(success, NO_REASON, "failure")
    )


def _at_least_one(stage: str, number: int) -> None:
    if number < 1:
        raise SelectionError(f"The stage '{stage}' keeps at least 1 run, not {number}.")


@dataclass(frozen=True, slots=True)
class TopN(NamedStage):
    """Keep the best successes of each task: by reward, then by cost.

    Adds ``cost``, ``efficiency`` and ``rank``.
    """

    name: ClassVar[str] = "top-n"

    n: int
    """Runs to keep of each task, or in all."""
    cost: Cost = "tool-calls"
    """What a run is charged for."""
    weights: Mapping[str, float] | None = None
    """For the cost ``weighted``: name of a cost -> weight; tokens count in thousands."""
    per: Literal["task", "pool"] = "task"
    """Keep ``n`` of each task, or ``n`` of all rows."""
    failures: bool = False
    """Fill up with unknown outcomes and then with failures where there are too few successes."""

    def __post_init__(self) -> None:
        """Check size and cost."""
        _at_least_one(self.name, self.n)
        cost_sql(self.cost, self.weights)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``not-in-top-n`` and, unless kept, ``failure`` and ``unknown-outcome``."""
        rows = ranked(frame.rows, self.cost, self.weights, per=self.per)
        rank = rows.column("rank")
        reasons = pc.if_else(pc.greater(rank, self.n), "not-in-top-n", NO_REASON)
        if not self.failures:
            reasons = pc.coalesce(_outcome_reasons(rows), reasons)
        details = pc.binary_join_element_wise("rank", pc.cast(rank, pa.string()), " ")
        return StageResult.split(rows, reasons, details)


@dataclass(frozen=True, slots=True)
class BestOfN(NamedStage):
    """Rejection sampling: of the first N attempts at each task keep the best few that differ.

    Attempts count by ``attempt``, then by start, then by id. Adds ``cost``, ``efficiency`` and
    ``rank``. Needs NumPy to tell strategies apart.
    """

    name: ClassVar[str] = "best-of-n"

    attempts: int = 16
    """N: attempts of each task that are looked at."""
    keep: int = 2
    """Runs to keep of each task."""
    distinct: bool = True
    """Of runs with one strategy (the same bigrams of words) keep the best only."""
    words: Words = "programs"
    """What stands for a call in a strategy."""
    cost: Cost = "tool-calls"
    """What a run is charged for, where rewards are equal."""
    weights: Mapping[str, float] | None = None
    """For the cost ``weighted``: name of a cost -> weight; tokens count in thousands."""
    failures: bool = False
    """Take unknown outcomes and failures too, where they are the best there is."""

    def __post_init__(self) -> None:
        """Check sizes and cost."""
        _at_least_one(self.name, self.attempts)
        _at_least_one(self.name, self.keep)
        cost_sql(self.cost, self.weights)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``beyond-n-attempts``, ``same-strategy`` (of the run in the detail), ``not-in-top``.

        Unless kept, also ``failure`` and ``unknown-outcome``.
        """
        rows = ranked(frame.rows, self.cost, self.weights)
        late = self._late(rows)
        reasons = pc.if_else(late, "beyond-n-attempts", NO_REASON)
        if not self.failures:
            reasons = pc.coalesce(reasons, _outcome_reasons(rows))
        chosen = self._chosen(Frame(rows, frame.steps), pc.is_null(reasons))
        place, same = chosen.column("place"), chosen.column("same")
        at = pc.index_in(pa.arange(0, rows.num_rows), value_set=place)
        reasons = pc.coalesce(reasons, chosen.column("reason").take(at))
        details = rows.column("trajectory_id").take(same.take(at))
        return StageResult.split(rows, reasons, details)

    def _late(self, rows: pa.Table) -> pa.ChunkedArray:
        query = """
            SELECT row_number() OVER (PARTITION BY task_id
                ORDER BY attempt NULLS LAST, started_at NULLS LAST, trajectory_id) > $most AS late
            FROM runs ORDER BY place"""
        runs = numbered(rows, "trajectory_id", "task_id", "attempt", "started_at")
        return relation(query, tables={"runs": runs}, most=self.attempts).column("late")

    def _chosen(self, frame: Frame, able: pa.ChunkedArray) -> pa.Table:
        """For each row that may be kept its place, the reason to drop it, and whom it repeats."""
        runs = numbered(frame.rows, "trajectory_id", "task_id", "rank").filter(able)
        part = Frame(frame.rows.filter(able), frame.steps)
        keys = Bigrams(strategies(part, self.words)).keys() if self.distinct else runs["place"]
        query = """
            WITH first AS (SELECT *, first_value(place) OVER (
                PARTITION BY task_id, key ORDER BY rank) AS leader FROM runs),
            counted AS (SELECT *, count(*) FILTER (leader = place) OVER (
                PARTITION BY task_id ORDER BY rank) AS number FROM first)
            SELECT place, CASE WHEN leader <> place THEN 'same-strategy'
                    WHEN number > $keep THEN 'not-in-top' END AS reason,
                CASE WHEN leader <> place THEN leader END AS same
            FROM counted"""
        tables = {"runs": runs.append_column("key", pa.array(keys))}
        return relation(query, tables=tables, keep=self.keep)


@dataclass(frozen=True, slots=True)
class PerTaskCap(NamedStage):
    """Keep at most some runs of each task, so that no task outweighs the others."""

    name: ClassVar[str] = "per-task-cap"

    most: int
    """Most runs of a task."""
    by: Literal["random", "rank"] = "random"
    """Which ones: drawn at random, or the best (by reward, then by tool calls)."""
    seed: int = 0
    """Another seed draws other runs."""

    def __post_init__(self) -> None:
        """Check the cap."""
        _at_least_one(self.name, self.most)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``over-task-cap``."""
        rows = frame.rows
        if self.by == "rank":
            numbers = ranked(rows).column("rank")
        else:
            query = f"""
                SELECT row_number() OVER (
                    PARTITION BY task_id ORDER BY {DIGEST}, trajectory_id) AS number
                FROM runs ORDER BY place"""
            tables = {"runs": numbered(rows, "trajectory_id", "task_id")}
            numbers = relation(query, tables=tables, seed=self.seed).column("number")
        return StageResult.keep(rows, pc.less_equal(numbers, self.most), "over-task-cap")


STAGES = {s.name: s for s in (TopN, BestOfN, PerTaskCap)}
"""Stages of this module by name."""
