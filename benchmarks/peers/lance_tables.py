"""Lance datasets with a BTREE index on the id, questions through DuckDB."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa

from benchmarks import flat
from benchmarks.peers.peer import Peer
from benchmarks.workload import Record, Whole

_TABLES = ("trajectories", "steps")


class LanceTables(Peer):
    """Two datasets, so two commits; Lance does not sync to disk."""

    name: ClassVar[str] = "lance"
    about: ClassVar[str] = "no fsync; two datasets, two commits"
    packages: ClassVar[dict[str, str]] = {"lance": "pylance"}
    commits: ClassVar[int | None] = None

    def __init__(self, folder: Path) -> None:
        """Load Lance."""
        super().__init__(folder)
        self._lance: Any = importlib.import_module("lance")
        self._sets: dict[str, Any] = {}
        self._connection = duckdb.connect()

    def _uri(self, table: str) -> str:
        return str(self.folder / f"{table}.lance")

    def ingest(self, records: Sequence[Record]) -> None:
        """One commit a dataset."""
        self.ingest_arrow(*flat.tables(records))

    def ingest_arrow(self, trajectories: pa.Table, steps: pa.Table) -> None:
        """One commit a dataset."""
        for table, rows in zip(_TABLES, (trajectories, steps), strict=True):
            mode = "append" if Path(self._uri(table)).exists() else "create"
            self._lance.write_dataset(rows, self._uri(table), mode=mode)

    def settle(self) -> None:
        """Compact, index the id, drop old versions."""
        for table in _TABLES:
            dataset = self._lance.dataset(self._uri(table))
            dataset.optimize.compact_files()
            dataset.create_scalar_index("trajectory_id", "BTREE")
            dataset.cleanup_old_versions(older_than=timedelta(0))

    def open(self) -> None:
        """Open both datasets."""
        self._sets = {t: self._lance.dataset(self._uri(t)) for t in _TABLES}
        self._connection = duckdb.connect()
        for table, dataset in self._sets.items():
            self._connection.register(table, dataset)

    def close(self) -> None:
        """Let go of both."""
        self._sets = {}
        self._connection.close()

    def answer(self, question: str) -> Sequence[Sequence[Any]]:
        """DuckDB reads the columns that it needs."""
        return self._connection.sql(flat.SQL[question]).fetchall()

    def fetch(self, ids: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """Rows of both tables as dicts."""
        runs, steps = self.fetch_arrow(ids)
        return runs.to_pylist(), steps.to_pylist()

    def fetched(self, found: Any) -> list[Whole]:
        """Comparable."""
        runs, steps = found
        return flat.wholes(
            ([r[n] for n in flat.TRAJECTORIES.names] for r in runs),
            ([s[n] for n in flat.STEPS.names] for s in steps),
        )

    def fetch_arrow(self, ids: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """Both tables, through the index."""
        wanted = f"trajectory_id IN ({', '.join(repr(i) for i in ids)})"
        runs, steps = (self._sets[t].to_table(filter=wanted) for t in _TABLES)
        return runs, steps

    def fetched_arrow(self, found: tuple[pa.Table, pa.Table]) -> list[Whole]:
        """Comparable."""
        return flat.wholes_of_tables(*found)
