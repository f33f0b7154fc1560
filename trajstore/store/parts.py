"""Parquet files of a store: encode, make durable, describe for the log."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from trajstore.errors import WriteError
from trajstore.store.layout import FLAT, ROW_GROUP_ROWS, Location, parquet_options

_STATISTICS = ("trajectory_id", "label_id")
_ENCODERS = 2
_SYNCERS = 4
_SPLIT_BYTES = 24 << 20
_THREAD_BYTES = 1 << 20
_ALONE_BYTES = 64 << 20
_BUFFER_BYTES = 64 << 10


def write_parts(
    location: Location,
    tables: Iterable[tuple[str | None, pa.Table]],
    *,
    durable: bool,
    data_change: bool = True,
    rooted: set[Path] | None = None,
) -> list[AddAction]:
    """Write one Parquet file a table and describe each for the Delta log.

    Large tables are encoded by threads while ``tables`` makes the next one, so whatever makes them
    should be lazy.

    Args:
        location: the Delta table.
        tables: (value of the partition column ``record``, rows); None without partitions.
        durable: fsync files and folders before returning (local stores).
        data_change: False for files that only rearrange rows.
        rooted: folders whose own place in the table's folder is known to be durable; grows.

    Raises:
        WriteError: a file could not be written (disk full, read-only); nothing is left behind.
    """
    jobs: list[tuple[str | None, str, pa.Table, Future[int]]] = []
    safe = durable and location.local is not None
    try:
        with ThreadPoolExecutor(_ENCODERS) as pool:
            for record, part, large in _pieces(tables):
                name = _name(record)
                run = pool.submit if large else _at_once
                sync = safe and part.nbytes >= _THREAD_BYTES
                jobs.append((record, name, part, run(_write, location, name, part, sync)))
        sizes = [job.result() for *_, job in jobs]
        if safe and location.local is not None:
            _sync_written(location.local, [name for _, name, *_ in jobs], rooted)
    except (OSError, pa.ArrowException) as error:
        discard(location, (name for _, name, *_ in jobs))
        message = (
            f"Could not write to {location.uri}: {error}. Nothing of this batch is visible; free "
            "space or fix the permissions and append again."
        )
        raise WriteError(message, path=location.uri) from error
    except BaseException:
        discard(location, (name for _, name, *_ in jobs))
        raise
    return [
        AddAction(
            path=name,
            size=size,
            partition_values={} if record is None else {"record": record},
            modification_time=int(time.time() * 1000),
            data_change=data_change,
            stats=_statistics(rows),
        )
        for (record, name, rows, _), size in zip(jobs, sizes, strict=True)
    ]


def _at_once(job: Callable[..., int], *given: Any) -> Future[int]:
    """Like ``submit`` of a pool, without a thread: starting one takes longer than a small file."""
    done: Future[int] = Future()
    try:
        done.set_result(job(*given))
    except Exception as error:  # noqa: BLE001  raised by whoever asks for the result
        done.set_exception(error)
    return done


def _pieces(
    tables: Iterable[tuple[str | None, pa.Table]],
) -> Iterator[tuple[str | None, pa.Table, bool]]:
    """Tables that have rows, and whether a thread is worth its start.

    Very large tables come in two halves that are encoded at once; a run's steps stay together.
    """
    for record, rows in tables:
        size = rows.nbytes if rows.num_rows else 0
        if size >= _SPLIT_BYTES and "trajectory_id" in rows.column_names:
            ids = rows.column("trajectory_id")
            middle = pc.index(ids, ids[len(ids) // 2]).as_py()
            halves = (rows.slice(0, middle), rows.slice(middle))
            # What is huge is encoded with nothing beside it, as it is in memory several times then.
            yield from ((record, h, h.nbytes < _ALONE_BYTES) for h in halves if h.num_rows)
        elif rows.num_rows:
            yield record, rows, size >= _THREAD_BYTES


def _name(record: str | None) -> str:
    kind = FLAT if record == "step" else "part-"
    file = f"{kind}{uuid.uuid4()}.parquet"
    return file if record is None else f"record={record}/{file}"


def _write(location: Location, name: str, rows: pa.Table, durable: bool, /) -> int:  # noqa: FBT001
    options = parquet_options(rows)
    if rows.nbytes >= _ALONE_BYTES:
        pa.default_memory_pool().release_unused()
    if location.local is None:
        with location.filesystem().open_output_stream(name) as stream:
            pq.write_table(rows, stream, row_group_size=ROW_GROUP_ROWS, **options)
            return int(stream.tell())
    path = location.local / name
    path.parent.mkdir(parents=True, exist_ok=True)
    # Native streams: a Python file would take the GIL for every page.
    with pa.OSFile(str(path), "wb") as file, pa.BufferedOutputStream(file, _BUFFER_BYTES) as stream:
        pq.write_table(rows, stream, row_group_size=ROW_GROUP_ROWS, **options)
        stream.flush()
        if durable:
            os.fsync(file.fileno())
        return int(stream.tell())


def _sync_written(root: Path, names: Sequence[str], rooted: set[Path] | None) -> None:
    """Fsync files, their folders, and those above where a folder may be new in them.

    All at once, as the disk then flushes once or twice for all of them.
    """
    files = [root / name for name in names]
    folders = {file.parent for file in files}
    above = set() if rooted is not None and folders <= rooted else {root, root.parent}
    for _ in _syncers(os.getpid()).map(sync, [*files, *sorted(folders | above)]):
        pass
    if rooted is not None:
        rooted |= folders


@cache
def _syncers(process: int) -> ThreadPoolExecutor:  # noqa: ARG001  a fork has no threads, so needs its own
    return ThreadPoolExecutor(_SYNCERS, thread_name_prefix="trajstore-fsync")


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
