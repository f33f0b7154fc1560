"""Plain Parquet files: what encoding costs without a table format around it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers.peer import Peer


class ParquetFiles(Peer):
    """pyarrow's writer with zstd level 1 and its defaults otherwise, one file after the other."""

    name: ClassVar[str] = "parquet"
    about: ClassVar[str] = "fsync of the files; no transaction"

    def ingest_arrow(self, trajectories: pa.Table, steps: pa.Table) -> None:
        """Two files."""
        _write(trajectories, self.folder / "trajectories.parquet")
        _write(steps, self.folder / "steps.parquet")


def _write(rows: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        pq.write_table(rows, file, compression="zstd", compression_level=1)
        file.flush()
        os.fsync(file.fileno())
