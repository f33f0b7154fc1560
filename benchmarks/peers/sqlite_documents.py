"""SQLite with one JSON document a trajectory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.peer import Peer
from benchmarks.peers.sqlite_steps import connect
from benchmarks.workload import NEEDLE, SHORTEST, Record, Whole, whole_of_record

_STEPS = "runs, json_each(document, '$.steps') AS step"
_SQL = {
    "rates": """
        SELECT agent, model, count(success), avg(success) FROM (
            SELECT document ->> '$.agent' AS agent, document ->> '$.model' AS model,
                document ->> '$.success' AS success FROM runs)
        GROUP BY agent, model HAVING count(success) > 0""",
    "histogram": f"""
        SELECT tool, count(*) FROM (
            SELECT step.value ->> '$.tool_calls[0].name' AS tool FROM {_STEPS})
        WHERE tool IS NOT NULL GROUP BY tool""",
    "errors": f"""
        SELECT tool, count(*), avg(failed) FROM (
            SELECT step.value ->> '$.tool_calls[0].name' AS tool,
                step.value ->> '$.observations[0].is_error' AS failed FROM {_STEPS})
        WHERE failed IS NOT NULL GROUP BY tool""",
    "search": f"""
        SELECT count(*) FROM {_STEPS}
        WHERE step.value ->> '$.observations[0].text' LIKE '%{NEEDLE.replace("'", "''")}%'""",
    "shortest": f"""
        SELECT task, id, calls FROM (
            SELECT task, id, calls, row_number() OVER (PARTITION BY task ORDER BY calls, id)
                AS place
            FROM (
                SELECT document ->> '$.task_id' AS task, trajectory_id AS id,
                    document ->> '$.n_tool_calls' AS calls, document ->> '$.success' AS success
                FROM runs)
            WHERE success)
        WHERE place <= {SHORTEST}""",
}


class SqliteDocuments(Peer):
    """Primary key trajectory_id; the questions go through SQLite's JSON functions."""

    name: ClassVar[str] = "sqlite-documents"
    about: ClassVar[str] = "WAL, synchronous=FULL"
    commits: ClassVar[int | None] = None

    def __init__(self, folder: Path) -> None:
        """Make the table."""
        super().__init__(folder)
        self.open()
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS runs (trajectory_id TEXT PRIMARY KEY, document TEXT)"
        )
        self._connection.commit()

    def open(self) -> None:
        """Connect."""
        self._connection: sqlite3.Connection = connect(self.folder / "runs.db")

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def settle(self) -> None:
        """Move the write-ahead log into the file."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def ingest(self, records: Sequence[Record]) -> None:
        """One transaction."""
        rows = [(r["trajectory_id"], json.dumps(r)) for r in records]
        with self._connection as connection:
            connection.executemany("INSERT INTO runs VALUES (?, ?)", rows)

    def answer(self, question: str) -> Sequence[Sequence[Any]]:
        """In SQL."""
        return self._connection.execute(_SQL[question]).fetchall()

    def fetch(self, ids: Sequence[str]) -> list[Record]:
        """Parsed documents."""
        marks = ", ".join("?" * len(ids))
        query = f"SELECT document FROM runs WHERE trajectory_id IN ({marks})"
        return [json.loads(d) for (d,) in self._connection.execute(query, list(ids))]

    def fetched(self, found: Any) -> list[Whole]:
        """Comparable."""
        return [whole_of_record(record) for record in found]
