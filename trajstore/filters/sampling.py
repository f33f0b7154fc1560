"""Stages that take some of the rows at random: plain, weighted, balanced, stratified.

What is drawn depends on the seed and the ids alone (:mod:`.draws`), never on the order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.draws import DIGEST, draws
from trajstore.filters.quotas import Share, quotas
from trajstore.filters.relations import numbered, relation
from trajstore.filters.row_columns import NO_REASON, column_named, numbers_named
from trajstore.filters.selection import Frame, NamedStage, StageResult


@dataclass(frozen=True, slots=True)
class Sample(NamedStage):
    """Keep some rows, each with the same chance or in proportion to a weight."""

    name: ClassVar[str] = "sample"

    n: int | None = None
    """Rows to keep; all where there are fewer."""
    fraction: float | None = None
    """Share of the rows to keep instead of ``n``, 0 to 1, rounded to whole rows."""
    weight: str | None = None
    """Column of weights: without replacement, each draw in proportion to them (Efraimidis and
    Spirakis 2006). A row whose weight is 0, below 0 or unknown is never drawn."""
    seed: int = 0
    """Another seed draws other rows."""

    def __post_init__(self) -> None:
        """Check the size."""
        if (self.n is None) == (self.fraction is None):
            raise SelectionError("The stage 'sample' needs n or fraction, one of the two.")
        if self.n is not None and self.n < 0:
            raise SelectionError(f"The stage 'sample' keeps 0 rows or more, not {self.n}.")
        if self.fraction is not None and not 0 <= self.fraction <= 1:
            raise SelectionError(f"A fraction is from 0 to 1, not {self.fraction}.")

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``not-sampled`` and, with weights, ``no-weight``."""
        rows = frame.rows
        keys = draws(rows.column("trajectory_id"), self.seed)
        able = pa.repeat(pa.scalar(True), rows.num_rows)
        if self.weight is not None:
            weights = numbers_named(rows, self.weight)
            able = pc.fill_null(pc.greater(weights, 0.0), False)
            keys = pc.divide(pc.negate(pc.ln(pc.add(keys, 2.0**-53))), weights)
        size = self.n
        if self.fraction is not None:
            size = int(self.fraction * pc.sum(able.cast(pa.int64()), min_count=0).as_py() + 0.5)
        table = pa.table({"key": pc.if_else(able, keys, None), "id": rows.column("trajectory_id")})
        order = [("key", "ascending"), ("id", "ascending")]
        first = pc.sort_indices(table, sort_keys=order).slice(0, size)
        drawn = pc.is_in(pa.arange(0, rows.num_rows), value_set=first.cast(pa.int64()))
        kept = pc.and_(able, drawn)
        reasons = pc.if_else(kept, NO_REASON, pc.if_else(able, "not-sampled", "no-weight"))
        return StageResult.split(rows, reasons)


@dataclass(frozen=True, slots=True)
class Balanced(NamedStage):
    """Keep as many rows of each value of a column, drawn at random."""

    name: ClassVar[str] = "balanced"

    by: str = "success"
    """The column, such as success, agent or environment."""
    each: int | None = None
    """Rows of each value; as many as the rarest value has where None. A value with fewer rows is
    kept whole."""
    seed: int = 0
    """Another seed draws other rows."""

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``over-balance`` and the rows of unknown value as ``unknown-`` and the column."""
        rows = frame.rows
        unknown = pc.is_null(column_named(rows, self.by))
        strata = _Strata(rows, (self.by,))
        each = min(strata.known, default=0) if self.each is None else self.each
        if each < 0:
            raise SelectionError(f"The stage 'balanced' keeps 0 rows or more, not {each}.")
        kept, details = strata.take([each] * len(strata.counts), self.seed)
        reasons = pc.if_else(kept, NO_REASON, "over-balance")
        reasons = pc.if_else(unknown, f"unknown-{self.by}", reasons)
        return StageResult.split(rows, reasons, details)


@dataclass(frozen=True, slots=True)
class Stratified(NamedStage):
    """Keep a number of rows in all, shared among the values of some columns, drawn at random.

    Unknown is a value like any other. See :func:`~trajstore.filters.quotas.quotas`.
    """

    name: ClassVar[str] = "stratified"

    n: int
    """Rows to keep in all; all where there are fewer."""
    by: tuple[str, ...]
    """The columns; each combination of values that occurs is a stratum."""
    share: Share = "sqrt"
    """``sqrt`` lets large strata weigh less, ``proportional`` keeps the mix, ``equal`` evens it."""
    seed: int = 0
    """Another seed draws other rows."""

    def __post_init__(self) -> None:
        """Check size and columns."""
        if self.n < 0 or not self.by:
            message = (
                "The stage 'stratified' needs n of 0 or more, and columns to go by, "
                f"not n={self.n}, by={list(self.by)}."
            )
            raise SelectionError(message)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``over-quota``; the detail names the stratum, its quota and its size."""
        for name in self.by:
            column_named(frame.rows, name)
        strata = _Strata(frame.rows, self.by)
        kept, details = strata.take(quotas(strata.counts, self.n, self.share), self.seed)
        reasons = pc.if_else(kept, NO_REASON, "over-quota")
        return StageResult.split(frame.rows, reasons, details)


class _Strata:
    """Rows grouped by the values of some columns; strata are in order of those values."""

    def __init__(self, rows: pa.Table, by: tuple[str, ...]) -> None:
        self._rows = numbered(rows, "trajectory_id")
        for i, name in enumerate(by):
            self._rows = self._rows.append_column(f"k{i}", rows.column(name))
        self._keys = [f"k{i}" for i in range(len(by))]
        listed = ", ".join(self._keys)
        named = ", ".join(f"coalesce(CAST({k} AS VARCHAR), 'unknown')" for k in self._keys)
        query = f"""
            SELECT *, row_number() OVER (ORDER BY {listed}) - 1 AS stratum,
                concat_ws(', ', {named}) AS label
            FROM (SELECT {listed}, count(*) AS n FROM runs GROUP BY ALL) ORDER BY stratum"""
        self._strata = relation(query, tables={"runs": self._rows})
        self.counts: list[int] = self._strata.column("n").to_pylist()

    @property
    def known(self) -> list[int]:
        """Rows in each stratum whose first value is not null."""
        there = self._strata.filter(pc.is_valid(self._strata.column("k0")))
        return list(there.column("n").to_pylist())

    def take(self, sizes: list[int], seed: int) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """For each row whether it is drawn, and words on its stratum: label, quota and size."""
        same = " AND ".join(f"runs.{k} IS NOT DISTINCT FROM strata.{k}" for k in self._keys)
        query = f"""
            SELECT stratum, row_number() OVER (
                PARTITION BY stratum ORDER BY {DIGEST}, trajectory_id) AS number
            FROM runs JOIN strata ON {same} ORDER BY place"""
        tables = {"runs": self._rows, "strata": self._strata}
        found = relation(query, tables=tables, seed=seed)
        most = pa.array([min(s, n) for s, n in zip(sizes, self.counts, strict=True)], pa.int64())
        label, n = self._strata.column("label"), pc.cast(self._strata.column("n"), pa.string())
        sized = pc.binary_join_element_wise(pc.cast(most, pa.string()), n, " of ")
        details = pc.binary_join_element_wise(label, sized, ": ")
        stratum = found.column("stratum")
        return pc.less_equal(found.column("number"), most.take(stratum)), details.take(stratum)


STAGES = {s.name: s for s in (Sample, Balanced, Stratified)}
"""Stages of this module by name."""
