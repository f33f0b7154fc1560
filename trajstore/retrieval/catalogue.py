"""What the store says now of its runs or of a kind of memory: all that filters and scores need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.filters.efficiency import PRICED_COLUMNS, ranked
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.hits import Level
from trajstore.retrieval.items import memory_rows
from trajstore.retrieval.levels import MEMORIES, drawn_sql
from trajstore.store import Reader

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Bools, Doubles, Ints

_MASKS_KEPT = 64


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """One row a run, or an item of memory, of one snapshot."""

    reader: Reader
    """The snapshot."""
    view: str
    """The view that conditions speak of."""
    key: str
    """Its column with the id."""
    table: pa.Table
    """``item_id``, ``revision``, ``task_id``, ``environment``, ``environment_version``, ``source``,
    ``success``, ``reward``."""
    at: Doubles
    """When it happened, in seconds since 1970; not a number where unknown."""
    expires: Doubles
    """When it expires, in seconds since 1970; infinite where never."""
    success: Doubles
    """1 for a success; for an item of memory the share of its uses that succeeded."""
    efficiency: Doubles
    """0 to 1."""
    utility: Doubles
    """Successes by uses of an item of memory, 0 where it was never used; that of runs and steps is
    in :meth:`trajstore.retrieval.view.View.utility`."""
    drawn: str | None = None
    """Query for the tasks whose runs each item is drawn from; None where the rows are runs."""
    masks: dict[object, Bools] = field(default_factory=dict)
    """Conditions that were asked before."""

    @cached_property
    def first_expiry(self) -> float:
        """When the first of them expires."""
        return float(self.expires.min(initial=numpy().inf))

    @cached_property
    def shown(self) -> pa.Table:
        """The columns that a hit shows."""
        return self.table.select(["task_id", "environment", "source", "success", "reward"])

    @cached_property
    def _tasks(self) -> tuple[pa.Array, Ints]:
        """The tasks, and the number of that of each row; -1 where it has none."""
        coded = self.table.column("task_id").combine_chunks().dictionary_encode()
        codes: Ints = pc.fill_null(coded.indices, -1).to_numpy().astype(numpy().int64)
        return coded.dictionary, codes

    @property
    def task_codes(self) -> Ints:
        """A number for the task of each row; -1 where it has none."""
        return self._tasks[1]

    @cached_property
    def _by_task(self) -> tuple[Ints, Ints]:
        """Rows in order of their task, and where each task begins."""
        np = numpy()
        order = np.argsort(self.task_codes, kind="stable")
        tasks = np.arange(len(self._tasks[0]) + 1)
        return order, np.searchsorted(self.task_codes[order], tasks)

    @cached_property
    def _drawn(self) -> tuple[Ints, pa.Array]:
        """Rows of memory, and for each a task that it is drawn from; a row may come again."""
        assert self.drawn is not None
        found = self.reader.query(self.drawn).read_all()
        ids = self.table.column("item_id").combine_chunks()
        place = pc.index_in(found.column("item_id"), value_set=ids)
        served = found.filter(pc.is_valid(place))
        rows: Ints = place.drop_null().to_numpy()
        return rows, served.column("task_id").combine_chunks()

    def of_tasks(self, tasks: Sequence[str]) -> Bools:
        """Rows of some tasks, and of memory those that are drawn from a run at one of them."""
        order, starts = self._by_task
        found: Bools = numpy().zeros(len(order), bool)
        known = pc.is_in(self._tasks[0], value_set=pa.array(tasks, pa.string()))
        for code in pc.indices_nonzero(known).to_numpy():
            found[order[starts[code] : starts[code + 1]]] = True
        if self.drawn is not None:
            rows, of = self._drawn
            same = pc.is_in(of, value_set=pa.array(tasks, pa.string()))
            found[rows[same.to_numpy(zero_copy_only=False)]] = True
        return found

    def fits(self, where: str) -> Bools:
        """Rows for which an SQL condition over the view is true.

        Raises:
            QueryError: it does not parse, is not allowed, or fails.
        """
        query = f"SELECT {self.key} FROM {self.view} WHERE ({where}\n)"
        return self._kept(("where", where), lambda: self.reader.query(query).read_all().column(0))

    def equal(self, column: str, value: str) -> Bools:
        """Rows whose column has a value; a null has none for a run, and any for an item of memory.

        What was learnt without a word of where holds everywhere.
        """
        key = (column, value)
        if key not in self.masks:
            same = pc.equal(self.table.column(column), value)
            self._keep(key, pc.fill_null(same, self.drawn is not None))
        return self.masks[key]

    def _kept(self, key: object, ids: object) -> Bools:
        if key not in self.masks:
            found = ids().combine_chunks()  # type: ignore[operator]
            self._keep(key, pc.is_in(self.table.column("item_id"), value_set=found))
        return self.masks[key]

    def _keep(self, key: object, mask: pa.ChunkedArray) -> None:
        while len(self.masks) >= _MASKS_KEPT:
            self.masks.pop(next(iter(self.masks)), None)
        self.masks[key] = mask.to_numpy()


def catalogue(reader: Reader, level: Level) -> Catalogue:
    """The catalogue of runs (for trajectories and steps) or of a kind of memory."""
    return _memories(reader, level) if level in MEMORIES else _runs(reader)


def _runs(reader: Reader) -> Catalogue:
    np = numpy()
    columns = ", ".join(dict.fromkeys((
        *PRICED_COLUMNS, "environment", "environment_version", "source", "expires_at",
    )))  # fmt: skip
    rows = reader.query(
        f"SELECT {columns}, coalesce(ended_at, started_at, imported_at) AS happened "
        "FROM trajectories ORDER BY trajectory_id"
    ).read_all()
    revisions = reader.revisions()
    place = pc.index_in(
        rows.column("trajectory_id"), value_set=revisions.column("trajectory_id").combine_chunks()
    )
    rows = rows.append_column("revision", revisions.column("revision").take(place))
    rows = rows.append_column("item_id", rows.column("trajectory_id"))
    happened = _seconds(rows.column("happened"))
    expires = _seconds(rows.column("expires_at"))
    success = pc.cast(pc.fill_null(rows.column("success"), False), pa.float64()).to_numpy()
    efficiency = pc.fill_null(ranked(rows).column("efficiency"), 0.0).to_numpy()
    return Catalogue(
        reader=reader,
        view="trajectories",
        key="trajectory_id",
        table=rows.select(_COMMON).combine_chunks(),
        at=happened,
        expires=np.where(np.isnan(expires), np.inf, expires),
        success=success,
        efficiency=efficiency,
        utility=np.zeros(rows.num_rows),
    )


_COMMON = [
    "item_id",
    "revision",
    "task_id",
    "environment",
    "environment_version",
    "source",
    "success",
    "reward",
]


def _memories(reader: Reader, level: Level) -> Catalogue:
    np = numpy()
    rows = reader.query(memory_rows(level)).read_all()
    count = rows.num_rows
    uses = pc.fill_null(rows.column("uses"), 0).to_numpy().astype(np.float64)
    wins = pc.fill_null(rows.column("successes"), 0).to_numpy().astype(np.float64)
    share = np.clip(np.divide(wins, uses, out=np.zeros(count), where=uses > 0), 0.0, 1.0)
    rows = rows.append_column("success", pa.nulls(count, pa.bool_()))
    rows = rows.append_column("reward", pa.nulls(count, pa.float64()))
    at = pc.coalesce(rows.column("verified_at"), rows.column("created_at"))
    return Catalogue(
        reader=reader,
        view=MEMORIES[level].view,
        key=MEMORIES[level].key,
        table=rows.select(_COMMON).combine_chunks(),
        at=_seconds(at),
        expires=np.full(count, np.inf),
        success=share,
        efficiency=np.zeros(count),
        utility=share,
        drawn=drawn_sql(level),
    )


def _seconds(column: pa.ChunkedArray) -> Doubles:
    micros = pc.cast(pc.cast(column, pa.timestamp("us", tz="UTC")), pa.int64())
    found: Doubles = pc.divide(pc.cast(micros, pa.float64()), 1e6).to_numpy()
    return found
