"""trajstore itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import trajstore
from benchmarks.peers.peer import Peer
from benchmarks.workload import NEEDLE, SHORTEST, Record, Whole, whole
from trajstore.schema import trajectories_from_arrow

_SQL = {
    "rates": """
        SELECT agent, model, count(success), avg(success::INTEGER)
        FROM trajectories GROUP BY ALL HAVING count(success) > 0""",
    "histogram": "SELECT name, count(*) FROM tool_calls GROUP BY name",
    "errors": """
        SELECT name, count(*), avg(is_error::INTEGER)
        FROM tool_calls WHERE is_error IS NOT NULL GROUP BY name""",
    "search": f"""
        SELECT count(*) FROM tool_calls
        WHERE observation LIKE '%{NEEDLE.replace("'", "''")}%'""",
    "shortest": f"""
        SELECT task_id, trajectory_id, n_tool_calls FROM trajectories WHERE success
        QUALIFY row_number() OVER (
            PARTITION BY task_id ORDER BY n_tool_calls, trajectory_id) <= {SHORTEST}""",
}


class TrajstorePool(Peer):
    """A pool that fsyncs every commit; compacted and vacuumed before it is read."""

    name: ClassVar[str] = "trajstore"
    about: ClassVar[str] = "fsync of files, folders and log"
    commits: ClassVar[int | None] = None

    def __init__(self, folder: Path) -> None:
        """Make the store."""
        super().__init__(folder)
        self._pool = trajstore.open(folder / "pool")

    def ingest(self, records: Sequence[Record]) -> None:
        """One commit."""
        self._pool.append(records)

    def ingest_arrow(self, trajectories: pa.Table, steps: pa.Table) -> None:
        """One commit."""
        self._pool.append(trajstore.Batch(trajectories=trajectories, steps=steps))

    def settle(self) -> None:
        """Compact, and remove the files that this leaves behind."""
        self._pool.compact()
        self._pool.vacuum(retention=timedelta(0))

    def open(self) -> None:
        """A new handle."""
        self._pool = trajstore.open(self.folder / "pool", create=False)

    def answer(self, question: str) -> Sequence[Sequence[Any]]:
        """Through the SQL views."""
        return self._pool.sql(_SQL[question]).fetchall()

    def fetch(self, ids: Sequence[str]) -> list[trajstore.Trajectory]:
        """Trajectory values."""
        return self._pool.get_many(ids)

    def fetched(self, found: Any) -> list[Whole]:
        """Comparable."""
        return [whole(run) for run in found]

    def fetch_arrow(self, ids: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """Both tables."""
        return self._pool.reader().tables(ids)

    def fetched_arrow(self, found: tuple[pa.Table, pa.Table]) -> list[Whole]:
        """Comparable."""
        return self.fetched(trajectories_from_arrow(*found))
