"""Which ids a store already holds, found without reading the store whole."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from trajstore.store.connection import internal_connection, quoted
from trajstore.store.layout import Location
from trajstore.store.snapshot import DataFile, Snapshot, read_files

_CACHED_FILE_ROWS = 20_000
_CACHED_ROWS = 400_000
_LISTED_IDS = 200

RANK_COLUMNS = [
    "trajectory_id",
    "n_agent_steps",
    "n_steps",
    "n_tool_calls",
    "size_bytes",
    "status",
    "success",
    "reward",
]
"""The id, the columns that :func:`rank` reads, and the outcome."""

_LABEL_COLUMNS = ("label_id", "revision")

Rank = tuple[bool, int, int, int, int, bool]
"""How whole a version is: judged; agent steps, steps, calls, bytes; ended. The higher stays."""


def rank(row: dict[str, Any]) -> Rank:
    """Rank of a trajectory row (see :data:`Rank`)."""
    counts = (row["n_agent_steps"], row["n_steps"], row["n_tool_calls"], row["size_bytes"])
    ended, judged = row["status"] != "running", row["success"] is not None
    agent_steps, steps, calls, size = (int(c or 0) for c in counts)
    return (judged, agent_steps, steps, calls, size, ended)


@dataclass(frozen=True, slots=True)
class Existing:
    """A version of a trajectory that is in the store."""

    revision: int
    rank: Rank
    success: bool | None
    reward: float | None


def is_as_long(one: Rank, other: Rank) -> bool:
    """Whether two versions have as many agent steps, steps and calls."""
    return one[1:4] == other[1:4]


class KnownIds:
    """Looks ids up in a snapshot's files; memory is bounded whatever the store's size.

    Small files (recent appends) are kept as id columns in a cache; large ones are asked through
    DuckDB, which reads only the pages that can hold an id, since files are sorted by it.
    """

    def __init__(self, location: Location) -> None:
        """Make an empty cache over the Delta table at ``location``."""
        self._location = location
        self._cache: OrderedDict[str, pa.Table] = OrderedDict()
        self._cached_rows = 0
        self._connection: duckdb.DuckDBPyConnection | None = None

    def trajectories(
        self, ids: Sequence[str], snapshot: Snapshot, *, seen: frozenset[str] = frozenset()
    ) -> dict[str, Existing]:
        """Live versions of those trajectories, by id.

        Args:
            ids: trajectory ids.
            snapshot: where to look.
            seen: paths of files that need no look.
        """
        low, high = (min(ids), max(ids)) if ids else ("", "")
        files = [
            f
            for f in snapshot.of_record("trajectory")
            if f.path not in seen and _may_hold(f, low, high)
        ]
        found: dict[str, Existing] = {}
        for row in self._rows(ids, files, (*RANK_COLUMNS, "revision"), snapshot):
            existing = Existing(row["revision"], rank(row), row["success"], row["reward"])
            key = row["trajectory_id"]
            if key not in found or found[key].rank < existing.rank:
                found[key] = existing
        return found

    def labels(
        self, ids: Sequence[str], snapshot: Snapshot, *, seen: frozenset[str] = frozenset()
    ) -> set[str]:
        """Those of the label ids that the snapshot already has."""
        files = [f for f in snapshot.of_record("label") if f.path not in seen]
        return {row["label_id"] for row in self._rows(ids, files, _LABEL_COLUMNS, snapshot)}

    def _rows(
        self,
        ids: Sequence[str],
        files: Iterable[DataFile],
        columns: tuple[str, ...],
        snapshot: Snapshot,
    ) -> list[dict[str, Any]]:
        wanted = pa.array(ids, pa.string())
        small = [f for f in files if f.rows <= _CACHED_FILE_ROWS]
        large = [f for f in files if f.rows > _CACHED_FILE_ROWS]
        tables = [self._small(f, columns) for f in small]
        hits = [t.filter(pc.is_in(t.column(columns[0]), value_set=wanted)) for t in tables]
        hits += self._large(ids, large, columns)
        hits = [t for t in hits if t.num_rows]
        if not hits:
            return []
        rows = pa.concat_tables(hits, promote_options="default")
        alive = pc.invert(pc.is_in(rows.column("revision"), value_set=snapshot.dead))
        result: list[dict[str, Any]] = rows.filter(alive).to_pylist()
        return result

    def _small(self, file: DataFile, columns: tuple[str, ...]) -> pa.Table:
        if file.path in self._cache:
            self._cache.move_to_end(file.path)
            return self._cache[file.path]
        table = read_files(self._location, [file], list(columns))
        self._cache[file.path] = table
        self._cached_rows += file.rows
        while self._cached_rows > _CACHED_ROWS and len(self._cache) > 1:
            _, dropped = self._cache.popitem(last=False)
            self._cached_rows -= dropped.num_rows
        return table

    def _large(
        self, ids: Sequence[str], files: list[DataFile], columns: tuple[str, ...]
    ) -> list[pa.Table]:
        if not files or not ids:
            return []
        if self._connection is None:
            self._connection = internal_connection(self._location)
        paths = ", ".join(quoted(self._location.path(f.path)) for f in files)
        query = (
            f"SELECT {', '.join(columns)} FROM read_parquet([{paths}], hive_partitioning=false) "
            f"WHERE {columns[0]} IN "
        )
        if len(ids) <= _LISTED_IDS:  # constants let DuckDB skip pages
            listed = ", ".join(quoted(i) for i in ids)
            return [self._connection.sql(f"{query} ({listed})").to_arrow_table()]
        self._connection.register("wanted", pa.table({"id": pa.array(ids, pa.string())}))
        try:
            return [self._connection.sql(f"{query} (SELECT id FROM wanted)").to_arrow_table()]
        finally:
            self._connection.unregister("wanted")


def _may_hold(file: DataFile, low: str, high: str) -> bool:
    if file.low is None or file.high is None:
        return True
    return file.low <= high and file.high >= low
