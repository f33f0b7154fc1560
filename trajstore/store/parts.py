"""Parquet files of a store: encode, make durable, describe for the log."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from trajstore.errors import WriteError
from trajstore.store.layout import ROW_GROUP_ROWS, Location, parquet_options

_STATISTICS = ("trajectory_id", "label_id")
_ENCODERS = 2
_SPLIT_BYTES = 24 << 20


def write_parts(
    location: Location,
    tables: Iterable[tuple[str | None, pa.Table]],
    *,
    durable: bool,
    data_change: bool = True,
) -> list[AddAction]:
    """Write one Parquet file a table and describe each for the Delta log.

    Args:
        location: the Delta table.
        tables: (value of the partition column ``record``, rows); None without partitions.
        durable: fsync files and folders before returning (local stores).
        data_change: False for files that only rearrange rows.

    Raises:
        WriteError: a file could not be written (disk full, read-only); nothing is left behind.
    """
    jobs = [(record, part) for record, rows in tables for part in _pieces(rows) if part.num_rows]
    names = [_name(record) for record, _ in jobs]
    try:
        with ThreadPoolExecutor(_ENCODERS) as pool:
            sizes = list(
                pool.map(
                    lambda job: _write(location, job[0], job[1][1], durable=durable),
                    zip(names, jobs, strict=True),
                )
            )
    except (OSError, pa.ArrowException) as error:
        discard(location, names)
        message = (
            f"Could not write to {location.uri}: {error}. Nothing of this batch is visible; free "
            "space or fix the permissions and append again."
        )
        raise WriteError(message, path=location.uri) from error
    if durable and location.local is not None:
        _sync_folders(location.local, names)
    return [
        AddAction(
            path=name,
            size=size,
            partition_values={} if record is None else {"record": record},
            modification_time=int(time.time() * 1000),
            data_change=data_change,
            stats=_statistics(rows),
        )
        for name, size, (record, rows) in zip(names, sizes, jobs, strict=True)
    ]


def _pieces(rows: pa.Table) -> list[pa.Table]:
    """A large table in two halves that are encoded at once; a run's steps stay together."""
    if rows.nbytes < _SPLIT_BYTES or "trajectory_id" not in rows.column_names:
        return [rows]
    ids = rows.column("trajectory_id")
    middle = pc.index(ids, ids[len(ids) // 2]).as_py()
    return [rows.slice(0, middle), rows.slice(middle)]


def _name(record: str | None) -> str:
    file = f"part-{uuid.uuid4()}.parquet"
    return file if record is None else f"record={record}/{file}"


def _write(location: Location, name: str, rows: pa.Table, *, durable: bool) -> int:
    options = parquet_options(rows.schema)
    if location.local is None:
        with location.filesystem().open_output_stream(name) as stream:
            pq.write_table(rows, stream, row_group_size=ROW_GROUP_ROWS, **options)
            return int(stream.tell())
    path = location.local / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pq.write_table(rows, file, row_group_size=ROW_GROUP_ROWS, **options)
        file.flush()
        if durable:
            os.fsync(file.fileno())
        return file.tell()


def _sync_folders(root: Path, names: list[str]) -> None:
    for folder in {(root / name).parent for name in names} | {root, root.parent}:
        sync(folder)


def sync(path: Path) -> None:
    """Fsync a file or folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(location: Location, names: Iterable[str]) -> None:
    """Remove files that no commit names; what cannot be removed is left to ``vacuum``."""
    filesystem = location.filesystem()
    for name in names:
        with suppress(OSError):
            filesystem.delete_file(name)


def _statistics(rows: pa.Table) -> str:
    low: dict[str, str] = {}
    high: dict[str, str] = {}
    nulls: dict[str, int] = {}
    for name in _STATISTICS:
        if name not in rows.column_names:
            continue
        column = rows.column(name)
        nulls[name] = column.null_count
        if column.null_count < len(column):
            bounds = pc.min_max(column)
            low[name], high[name] = bounds["min"].as_py(), bounds["max"].as_py()
    return json.dumps(
        {"numRecords": rows.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    )
