"""SQLite with a table of trajectories and a table of steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks import flat
from benchmarks.peers.peer import Peer
from benchmarks.workload import Record, Whole


def connect(path: Path) -> sqlite3.Connection:
    """A database that writes ahead and syncs every commit."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA case_sensitive_like=ON")
    return connection


class SqliteSteps(Peer):
    """Primary keys (trajectory_id) and (trajectory_id, step_index)."""

    name: ClassVar[str] = "sqlite-steps"
    about: ClassVar[str] = "WAL, synchronous=FULL"
    commits: ClassVar[int | None] = None

    def __init__(self, folder: Path) -> None:
        """Make the tables."""
        super().__init__(folder)
        self.open()
        self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS trajectories ({', '.join(flat.TRAJECTORIES.names)}, "
            "PRIMARY KEY (trajectory_id))"
        )
        self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS steps ({', '.join(flat.STEPS.names)}, "
            "PRIMARY KEY (trajectory_id, step_index))"
        )
        self._connection.commit()

    def open(self) -> None:
        """Connect."""
        self._connection = connect(self.folder / "runs.db")

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def settle(self) -> None:
        """Move the write-ahead log into the file."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def ingest(self, records: Sequence[Record]) -> None:
        """One transaction."""
        runs = [flat.trajectory_row(r) for r in records]
        steps = [row for r in records for row in flat.step_rows(r)]
        with self._connection as connection:
            connection.executemany(_insert("trajectories", len(flat.TRAJECTORIES)), runs)
            connection.executemany(_insert("steps", len(flat.STEPS)), steps)

    def answer(self, question: str) -> Sequence[Sequence[Any]]:
        """In SQL."""
        return self._connection.execute(flat.SQL[question]).fetchall()

    def fetch(self, ids: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """Rows of both tables as tuples."""
        marks = ", ".join("?" * len(ids))
        both = (
            f"SELECT * FROM trajectories WHERE trajectory_id IN ({marks})",
            f"SELECT * FROM steps WHERE trajectory_id IN ({marks})",
        )
        runs, steps = (self._connection.execute(q, list(ids)).fetchall() for q in both)
        return runs, steps

    def fetched(self, found: Any) -> list[Whole]:
        """Comparable."""
        return flat.wholes(*found)


def _insert(table: str, columns: int) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})"
