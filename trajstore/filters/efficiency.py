"""Efficiency: how near a run came to the cheapest success at its task, and the order that gives.

Success weighted by path length (Anderson et al. 2018, arXiv 1807.06757): a success scores
``L* / max(L, L*)``, where ``L`` is its cost and ``L*`` the cost of the cheapest success at the
task; a failure scores 0. So a short failure is never efficient. What is unknown stays unknown.
Counts (steps, tool calls) count from 1, other costs from 0, where two runs that cost nothing are
equally efficient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.outcome import UNKNOWN_OUTCOME
from trajstore.filters.relations import numbered, relation
from trajstore.filters.row_columns import NO_REASON, column_named, with_column
from trajstore.filters.selection import Frame, NamedStage, StageResult

Cost = Literal["steps", "tool-calls", "tokens", "cost", "seconds", "weighted"]
"""What a run is charged for: its agent's steps, its tool calls, tokens read and written, US
dollars, seconds, or a weighted sum of those."""

COSTS: dict[str, str] = {
    "steps": "n_agent_steps",
    "tool-calls": "n_tool_calls",
    "tokens": "prompt_tokens + completion_tokens",
    "cost": "cost_usd",
    "seconds": "duration_s",
}
"""Name of a cost -> SQL over the summary columns."""

COUNTED = ("steps", "tool-calls")
"""Costs that are counts; in an efficiency they count from 1, as in the reward ``spl``."""

_UNITS = {"tokens": 1000}
PRICED_COLUMNS = (
    "trajectory_id",
    "task_id",
    "success",
    "reward",
    "n_agent_steps",
    "n_tool_calls",
    "prompt_tokens",
    "completion_tokens",
    "cost_usd",
    "duration_s",
)
"""Summary columns that a rank needs."""


def cost_sql(cost: str, weights: Mapping[str, float] | None = None) -> str:
    """SQL for the cost of a run, a double; null where a part of it is unknown.

    >>> cost_sql("weighted", {"tool-calls": 1, "tokens": 0.5})
    '(1.0 * (n_tool_calls) / 1 + 0.5 * (prompt_tokens + completion_tokens) / 1000)'

    Args:
        cost: a key of :data:`COSTS`, or ``weighted``.
        weights: for ``weighted``: name of a cost -> weight above 0; tokens count in thousands.

    Raises:
        SelectionError: an unknown cost, or weights that are missing, needless or below 0.
    """
    if cost != "weighted":
        if cost not in COSTS:
            raise SelectionError(f"There is no cost '{cost}'. Costs: {', '.join(COSTS)}, weighted")
        if weights:
            raise SelectionError(f"Weights belong to the cost 'weighted', not to '{cost}'.")
        return f"CAST({COSTS[cost]} AS DOUBLE)"
    used = {n: float(w) for n, w in (weights or {}).items() if w != 0}
    unknown = [n for n in used if n not in COSTS]
    if unknown or not used or any(not w > 0 for w in used.values()):
        message = (
            "The cost 'weighted' needs weights above 0 for some of "
            f"{', '.join(COSTS)}, such as {{'tool-calls': 1, 'tokens': 0.5}}, not {weights}."
        )
        raise SelectionError(message)
    terms = [f"{w!r} * ({COSTS[n]}) / {_UNITS.get(n, 1)}" for n, w in sorted(used.items())]
    return f"({' + '.join(reversed(terms))})"


RANK_ORDER = """
    CASE WHEN success THEN 0 WHEN success IS NULL THEN 1 ELSE 2 END,
    CASE WHEN isnan(reward) THEN NULL ELSE reward END DESC NULLS LAST,
    cost NULLS LAST, prompt_tokens + completion_tokens NULLS LAST, trajectory_id"""
"""SQL of the order of runs, the best first: success before unknown before failure, then the higher
reward, the lower ``cost``, fewer tokens, the smaller id; what is unknown comes last."""


def ranked(
    rows: pa.Table,
    cost: Cost = "tool-calls",
    weights: Mapping[str, float] | None = None,
    *,
    shortest: str | None = None,
    per: Literal["task", "pool"] = "task",
) -> pa.Table:
    """The rows with what they cost, how efficient they are, and their place in the order.

    Args:
        rows: summary rows, one a trajectory.
        cost: what to charge for.
        weights: see :func:`cost_sql`.
        shortest: a column with the lowest possible cost of the row's task, where one knows it (an
            oracle's path length). Where it is null the cheapest success of the rows counts.
        per: number the rows of each task, or all rows together.

    Returns:
        The rows in their order with three columns: ``cost`` (double), ``efficiency`` (double, 0 to
        1; null where the outcome, or the cost of a success, is unknown) and ``rank`` (int32, 1 is
        the best run by :data:`RANK_ORDER`).
    """
    # A success without any call must not make every other one worth nothing.
    least = 1 if cost in COUNTED else 0
    given = "NULL" if shortest is None else "shortest"
    price = cost_sql(cost, weights)
    part = "PARTITION BY task_id" if per == "task" else ""
    query = f"""
        SELECT cost,
            CASE WHEN success IS NULL OR success AND cost IS NULL THEN NULL
                WHEN NOT success THEN 0.0
                WHEN greatest(cost, best, {least}) = 0 THEN 1.0
                ELSE greatest(best, {least}) / greatest(cost, best, {least}) END AS efficiency,
            CAST(row_number() OVER ({part} ORDER BY {RANK_ORDER}) AS INTEGER) AS rank
        FROM (SELECT *, coalesce(CAST({given} AS DOUBLE),
                min(cost) FILTER (success) OVER (PARTITION BY task_id)) AS best
            FROM (SELECT *, CASE WHEN NOT isnan({price}) THEN {price} END AS cost FROM runs))
        ORDER BY place"""
    runs = numbered(rows, *PRICED_COLUMNS)
    if shortest is not None:
        runs = runs.append_column("shortest", column_named(rows, shortest))
    found = relation(query, tables={"runs": runs})
    for name in found.column_names:
        rows = with_column(rows, name, found.column(name))
    return rows


def spl(
    rows: pa.Table, cost: Cost = "tool-calls", weights: Mapping[str, float] | None = None
) -> float | None:
    """Success weighted by path length: the mean efficiency of the runs, 0 to 1.

    Runs of unknown outcome or unknown cost are left out, failures too, as else the mean would count
    every failure and only some successes; None where all are.
    """
    found = ranked(rows, cost, weights)
    priced = found.filter(pc.is_valid(found.column("cost")))
    mean = pc.mean(priced.column("efficiency")).as_py()
    return None if mean is None else float(mean)


@dataclass(frozen=True, slots=True)
class Rank(NamedStage):
    """Add ``cost``, ``efficiency`` and ``rank`` inside the task (see :func:`ranked`); drop none."""

    name: ClassVar[str] = "rank"

    cost: Cost = "tool-calls"
    """What a run is charged for."""
    weights: Mapping[str, float] | None = None
    """For the cost ``weighted``: name of a cost -> weight; tokens count in thousands."""
    shortest: str | None = None
    """Column with the lowest possible cost of each row's task; the cheapest success else."""

    def __post_init__(self) -> None:
        """Check the cost."""
        cost_sql(self.cost, self.weights)

    def apply(self, frame: Frame) -> StageResult:
        """Keep every row."""
        rows = ranked(frame.rows, self.cost, self.weights, shortest=self.shortest)
        return StageResult.keep(rows, pa.repeat(pa.scalar(True), rows.num_rows), self.name)


@dataclass(frozen=True, slots=True)
class Efficient(NamedStage):
    """Keep successes that cost little more than the cheapest success at their task.

    Adds the columns of :func:`ranked`.
    """

    name: ClassVar[str] = "efficient"

    least: float = 0.8
    """Smallest efficiency kept, 0 to 1: 0.8 allows a cost of 1.25 times the cheapest."""
    cost: Cost = "tool-calls"
    """What a run is charged for."""
    weights: Mapping[str, float] | None = None
    """For the cost ``weighted``: name of a cost -> weight; tokens count in thousands."""
    shortest: str | None = None
    """Column with the lowest possible cost of each row's task; the cheapest success else."""

    def __post_init__(self) -> None:
        """Check the bound and the cost."""
        cost_sql(self.cost, self.weights)
        if not 0 <= self.least <= 1:
            raise SelectionError(f"An efficiency is from 0 to 1, not {self.least}.")

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``inefficient``, ``failure``, ``unknown-outcome`` and ``unknown-cost``."""
        rows = ranked(frame.rows, self.cost, self.weights, shortest=self.shortest)
        success, efficiency = rows.column("success"), rows.column("efficiency")
        low = pc.if_else(pc.less(efficiency, self.least), "inefficient", NO_REASON)
        reasons = pc.if_else(pc.is_null(efficiency), "unknown-cost", low)
        reasons = pc.if_else(success, reasons, "failure")
        reasons = pc.if_else(pc.is_null(success), UNKNOWN_OUTCOME, reasons)
        details = pc.cast(pc.round(efficiency, 4), pa.string())
        return StageResult.split(rows, reasons, pc.if_else(success, details, NO_REASON))


STAGES = {s.name: s for s in (Rank, Efficient)}
"""Stages of this module by name."""
