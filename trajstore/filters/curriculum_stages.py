"""Stages that choose tasks by how often they are passed; all rows of a chosen task stay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.curriculum import (
    LEVELS,
    level_of,
    mix_of,
    target_weights,
    variance_weights,
)
from trajstore.filters.draws import draws
from trajstore.filters.profiles import PASS_THRESHOLD, Passed, check_threshold, profile
from trajstore.filters.quotas import apportioned
from trajstore.filters.relations import relation
from trajstore.filters.row_columns import NO_REASON, column_named, with_column
from trajstore.filters.selection import Frame, NamedStage, StageResult


def _no_rate(tasks: pa.Table) -> pa.ChunkedArray:
    """Why a task has no pass rate, null where it has one."""
    expired = pc.greater(tasks.column("expired"), 0)
    missing = pc.if_else(expired, "expired-profile", "unknown-pass-rate")
    return pc.if_else(pc.is_null(tasks.column("rate")), missing, NO_REASON)


def _by_task(rows: pa.Table, tasks: pa.Table, reasons: pa.ChunkedArray) -> StageResult:
    """Give each row what was decided of its task."""
    place = pc.index_in(rows.column("task_id"), value_set=tasks.column("task_id"))
    counted = pc.binary_join_element_wise(
        pc.cast(tasks.column("passes"), pa.string()),
        pc.cast(tasks.column("attempts"), pa.string()),
        " of ",
    )
    return StageResult.split(rows, reasons.take(place), counted.take(place))


@dataclass(frozen=True, slots=True)
class PassRate(NamedStage):
    """Keep tasks whose pass rate lies strictly between two bounds.

    With 0 and 1 this is DAPO's filter (Yu et al. 2025, arXiv 2503.14476): a task that is always or
    never passed gives a group without a signal. Adds ``pass_rate`` (double, 0 to 1).
    """

    name: ClassVar[str] = "pass-rate"

    above: float = 0.0
    """The rate must be above this."""
    below: float = 1.0
    """The rate must be below this."""
    passed: Passed = "success"
    """What a pass is."""
    pass_threshold: float = PASS_THRESHOLD
    """Smallest reward of a pass, where ``passed`` is ``reward``."""
    policies: tuple[str, ...] = ()
    """Policy versions whose attempts count; all where empty."""

    def __post_init__(self) -> None:
        """Check the bounds."""
        check_threshold(self.pass_threshold)
        if not 0 <= self.above < self.below <= 1:
            message = f"above and below are 0 to 1 and in order, not {self.above}, {self.below}."
            raise SelectionError(message)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``all-pass``, ``all-fail``, ``pass-rate-too-high``, ``pass-rate-too-low``.

        Without a rate: ``unknown-pass-rate``, or ``expired-profile`` where only other policies
        tried.
        """
        tasks = profile(
            frame.rows,
            passed=self.passed,
            pass_threshold=self.pass_threshold,
            policies=self.policies,
        )
        rate = tasks.column("rate")
        high = pc.if_else(pc.equal(rate, 1.0), "all-pass", "pass-rate-too-high")
        low = pc.if_else(pc.equal(rate, 0.0), "all-fail", "pass-rate-too-low")
        reasons = pc.if_else(pc.less_equal(rate, self.above), low, NO_REASON)
        reasons = pc.if_else(pc.greater_equal(rate, self.below), high, reasons)
        place = pc.index_in(frame.rows.column("task_id"), value_set=tasks.column("task_id"))
        rows = with_column(frame.rows, "pass_rate", rate.take(place))
        return _by_task(rows, tasks, pc.coalesce(_no_rate(tasks), reasons))


@dataclass(frozen=True, slots=True)
class _Task:
    """A task that can be drawn."""

    name: str
    rate: float
    level: int
    key: float
    """A number from 0 to 1 that belongs to the seed and the task."""


@dataclass(frozen=True, slots=True)
class Curriculum(NamedStage):
    """Keep some tasks that fit what the policy can do now.

    Adds ``pass_rate`` (smoothed by a Beta(1, 1) prior, so that few attempts prove little),
    ``level`` (int32, 1 the easiest) and ``weight`` (double: the task's share of the draw in its
    domain).
    """

    name: ClassVar[str] = "curriculum"

    n: int | None = None
    """Tasks to keep; None keeps all that have a weight."""
    by: Literal["levels", "variance", "target"] = "levels"
    """``levels`` mixes L1 to L5 (:data:`~trajstore.filters.curriculum.LEVEL_MIXES`), ``variance``
    draws in proportion to p(1-p), ``target`` around a pass rate."""
    level: int = 2
    """Level that is being learned, 2 to 5, for ``levels``."""
    target: float = 0.5
    """Pass rate to train at, for ``target``; :func:`~trajstore.filters.curriculum.target_at`."""
    width: float = 0.15
    """Standard deviation around ``target``."""
    difficulty: str = "rate"
    """Where the level comes from: ``rate``, ``steps`` (fifths of the tasks by mean agent steps), or
    the name of a column with 1 to 5."""
    domain: str | None = None
    """Column that parts tasks into domains, such as environment; None for one domain."""
    shares: Mapping[str, float] | None = None
    """Domain -> its part of ``n``; as many of each where None."""
    passed: Passed = "success"
    """What a pass is."""
    pass_threshold: float = PASS_THRESHOLD
    """Smallest reward of a pass, where ``passed`` is ``reward``."""
    policies: tuple[str, ...] = ()
    """Policy versions whose attempts count: profiles of others have expired; all where empty."""
    seed: int = 0
    """Another seed draws other tasks."""

    def __post_init__(self) -> None:
        """Check numbers, level and shares."""
        check_threshold(self.pass_threshold)
        mix_of(self.level)
        target_weights([0.5], self.target, self.width)
        if self.n is not None and self.n < 0:
            raise SelectionError(f"The stage 'curriculum' keeps 0 tasks or more, not {self.n}.")
        if self.shares is not None and self.domain is None:
            raise SelectionError("Shares need a domain: the column that names it.")

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``not-in-curriculum``, and tasks that cannot be placed.

        Those are ``unknown-pass-rate``, ``expired-profile``, ``unknown-level`` and ``no-share``.
        """
        tasks = self._tasks(frame.rows)
        reasons = pc.coalesce(_no_rate(tasks), self._no_place(tasks))
        drawn = self._drawn(tasks.filter(pc.is_null(reasons)))
        place = pc.index_in(tasks.column("task_id"), value_set=drawn.column("task_id"))
        outside = pc.if_else(drawn.column("kept").take(place), NO_REASON, "not-in-curriculum")
        at = pc.index_in(frame.rows.column("task_id"), value_set=tasks.column("task_id"))
        rows = with_column(frame.rows, "pass_rate", tasks.column("smoothed").take(at))
        rows = with_column(rows, "level", tasks.column("level").take(at))
        rows = with_column(rows, "weight", drawn.column("weight").take(place).take(at))
        return _by_task(rows, tasks, pc.coalesce(reasons, outside))

    def _tasks(self, rows: pa.Table) -> pa.Table:
        """The profile of each task with its level and its domain."""
        tasks = profile(
            rows, passed=self.passed, pass_threshold=self.pass_threshold, policies=self.policies
        )
        domain = pa.nulls(rows.num_rows, pa.string())
        if self.domain is not None:
            domain = pc.cast(column_named(rows, self.domain), pa.string())
        given = pa.nulls(rows.num_rows, pa.int32())
        if self.difficulty not in {"rate", "steps"}:
            given = pc.cast(column_named(rows, self.difficulty), pa.int32())
        query = """
            SELECT task_id, min(domain) AS domain, min(given) AS given FROM runs
            GROUP BY task_id ORDER BY task_id"""
        runs = pa.table({"task_id": rows.column("task_id"), "domain": domain, "given": given})
        found = relation(query, tables={"runs": runs})
        tasks = tasks.append_column("domain", found.column("domain"))
        return tasks.append_column("level", self._levels(tasks, found.column("given")))

    def _levels(self, tasks: pa.Table, given: pa.ChunkedArray) -> pa.ChunkedArray:
        if self.difficulty == "rate":
            rates = tasks.column("smoothed").to_pylist()
            levels = [None if rate is None else level_of(rate) for rate in rates]
            return pa.chunked_array([pa.array(levels, pa.int32())])
        if self.difficulty == "steps":
            query = """
                SELECT CASE WHEN steps IS NOT NULL THEN CAST(ntile(5) OVER (
                    PARTITION BY steps IS NULL ORDER BY steps, task_id) AS INTEGER) END AS level
                FROM tasks ORDER BY task_id"""
            return relation(query, tables={"tasks": tasks}).column("level")
        known = pc.is_in(given, value_set=pa.array(LEVELS, pa.int32()))
        return pc.if_else(known, given, pa.scalar(None, pa.int32()))

    def _no_place(self, tasks: pa.Table) -> pa.ChunkedArray:
        reasons = pa.chunked_array([pa.nulls(tasks.num_rows, pa.string())])
        if self.by == "levels":
            unknown = pc.is_null(tasks.column("level"))
            reasons = pc.if_else(unknown, "unknown-level", reasons)
        if self.shares is not None:
            named = pa.array(list(self.shares), pa.string())
            shared = pc.is_in(tasks.column("domain"), value_set=named)
            reasons = pc.coalesce(reasons, pc.if_else(shared, NO_REASON, "no-share"))
        return reasons

    def _drawn(self, tasks: pa.Table) -> pa.Table:
        """``task_id``, ``weight`` and ``kept`` of the tasks that can be drawn."""
        keys = draws(tasks.column("task_id"), self.seed)
        found = tasks.select(["task_id", "domain", "smoothed", "level"]).append_column("key", keys)
        domains: dict[str, list[_Task]] = {}
        for name, domain, rate, level, key in zip(
            *(column.to_pylist() for column in found.columns), strict=True
        ):
            domains.setdefault(domain or "", []).append(_Task(name, rate, level, key))
        names = sorted(domains)
        sizes = [len(domains[n]) for n in names]
        parts = [1.0 if self.shares is None else float(self.shares[n]) for n in names]
        budget = len(keys) if self.n is None else self.n
        drawn: list[tuple[str, float, bool]] = []
        for name, size in zip(names, apportioned(sizes, parts, budget), strict=True):
            members = sorted(domains[name], key=lambda t: (t.key, t.name))
            weights = self._weights(members)
            chosen = self._chosen(members, weights, size)
            drawn += [(t.name, weights[i], i in chosen) for i, t in enumerate(members)]
        columns = zip(*drawn, strict=True) if drawn else ((), (), ())
        types = (pa.string(), pa.float64(), pa.bool_())
        arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
        return pa.table(arrays, ["task_id", "weight", "kept"])

    def _weights(self, tasks: Sequence[_Task]) -> list[float]:
        if self.by == "variance":
            return variance_weights([t.rate for t in tasks])
        if self.by == "target":
            return target_weights([t.rate for t in tasks], self.target, self.width)
        mix = dict(zip(LEVELS, mix_of(self.level), strict=True))
        counts = Counter(t.level for t in tasks)
        whole = math.fsum(mix[level] for level in counts)
        return [mix[t.level] / counts[t.level] / whole if whole else 0.0 for t in tasks]

    def _chosen(self, tasks: Sequence[_Task], weights: Sequence[float], size: int) -> set[int]:
        """Which tasks of one domain are kept; the tasks come in random order."""
        if self.by != "levels":
            keys = {
                i: -math.log(tasks[i].key + 2.0**-53) / w for i, w in enumerate(weights) if w > 0
            }
            return set(sorted(keys, key=keys.__getitem__)[:size])
        places = {k: [i for i, t in enumerate(tasks) if t.level == k] for k in LEVELS}
        quotas = apportioned([len(places[k]) for k in LEVELS], mix_of(self.level), size)
        return {i for k, quota in zip(LEVELS, quotas, strict=True) for i in places[k][:quota]}


STAGES = {s.name: s for s in (PassRate, Curriculum)}
"""Stages of this module by name."""
