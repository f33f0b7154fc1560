"""Iceberg tables through pyiceberg, with its SQLite catalog."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from benchmarks import flat
from benchmarks.peers.peer import Peer
from benchmarks.workload import Record

_TABLES = ("trajectories", "steps")


class IcebergTables(Peer):
    """Two tables, so two commits; the files are not synced to disk, the catalog is."""

    name: ClassVar[str] = "iceberg"
    about: ClassVar[str] = "no fsync of the files; two tables, two commits"
    packages: ClassVar[dict[str, str]] = {
        "pyiceberg": "pyiceberg[sql-sqlite,pyarrow]",
        "sqlalchemy": "pyiceberg[sql-sqlite,pyarrow]",
    }
    commits: ClassVar[int | None] = 100

    def __init__(self, folder: Path) -> None:
        """Make the catalog; the tables come with the first rows."""
        super().__init__(folder)
        catalog: Any = importlib.import_module("pyiceberg.catalog.sql")
        self._catalog = catalog.SqlCatalog(
            "runs", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder}"
        )
        self._catalog.create_namespace("runs")
        self._tables: dict[str, Any] = {}

    def ingest(self, records: Sequence[Record]) -> None:
        """One commit a table."""
        self.ingest_arrow(*flat.tables(records))

    def ingest_arrow(self, trajectories: pa.Table, steps: pa.Table) -> None:
        """One commit a table."""
        for name, rows in zip(_TABLES, (trajectories, steps), strict=True):
            if name not in self._tables:
                self._tables[name] = self._catalog.create_table(
                    f"runs.{name}",
                    schema=rows.schema,
                    properties={
                        "write.parquet.compression-codec": "zstd",
                        "write.parquet.compression-level": "1",
                    },
                )
            self._tables[name].append(rows)
