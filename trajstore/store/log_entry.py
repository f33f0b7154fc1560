"""Log entries of appends, written by hand, and the snapshot that follows from one.

delta-rs takes 12 ms of CPU for a commit: it reads the log again and writes an entry. An entry that
only adds files is a few lines of JSON, and all that makes it a commit is that its name did not
exist before. So local appends write it here in half a millisecond, and know the snapshot after it
without reading the log. Every tenth commit, everything that removes files, object stores and tables
of a newer protocol still go through delta-rs, which also writes the checkpoints.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from trajstore.store.layout import TABLE_CONFIGURATION, Location
from trajstore.store.snapshot import DataFile, Snapshot, open_table

CHECKPOINT_EVERY = int(TABLE_CONFIGURATION["delta.checkpointInterval"])
"""delta-rs writes a checkpoint with the last of so many versions."""

_PLAIN_WRITER = 2
"""Newest writer protocol of Delta that asks nothing more of a commit that only adds files."""

_Action = AddAction | RemoveAction


class NextSnapshot(Snapshot):
    """The snapshot that a commit of ours made; its log is read only if somebody asks for it."""

    def __init__(self, before: Snapshot, actions: Sequence[_Action]) -> None:
        """What ``before`` becomes by those actions."""
        gone = {a.path for a in actions if isinstance(a, RemoveAction)}
        added = [_data_file(a) for a in actions if isinstance(a, AddAction)]
        files = [f for f in before.files if f.path not in gone] if gone else [*before.files]
        self.location = before.location
        self.version = before.version + 1
        self.files = tuple(sorted([*files, *added], key=lambda f: f.path))
        self.plain = is_plain(before)
        if not gone and all(f.record != "tombstone" for f in added):
            self.tombstones = before.tombstones

    @cached_property
    def table(self) -> DeltaTable:  # type: ignore[override]  # opened when asked for
        """The Delta table at this version."""
        return open_table(self.location, self.version)


def _data_file(action: AddAction) -> DataFile:
    said = json.loads(action.stats)
    return DataFile(
        path=action.path,
        record=action.partition_values.get("record"),
        rows=said["numRecords"],
        size_bytes=action.size,
        low=said["minValues"].get("trajectory_id"),
        high=said["maxValues"].get("trajectory_id"),
    )


def is_plain(snapshot: Snapshot) -> bool:
    """Whether the table's protocol asks of an append no more than what is written here."""
    if isinstance(snapshot, NextSnapshot):
        return snapshot.plain
    return snapshot.table.protocol().min_writer_version <= _PLAIN_WRITER


def fits(before: Snapshot, actions: Iterable[_Action]) -> bool:
    """Whether these actions can be committed onto a snapshot by :func:`write_entry`."""
    return (
        before.location.local is not None
        and (before.version + 2) % CHECKPOINT_EVERY != 0
        and all(isinstance(a, AddAction) for a in actions)
        and is_plain(before)
    )


def write_entry(
    location: Location,
    version: int,
    actions: Sequence[_Action],
    *,
    application: str,
    operation: str,
    durable: bool,
) -> None:
    """Commit added files as one version; the entry is whole on disk before anybody sees it.

    Args:
        location: a local table.
        version: of the commit, one above the newest.
        actions: files to add.
        application: name of the application transaction, whose number is ``version``.
        operation: name for the history.
        durable: fsync the entry before it becomes visible; its folder is the caller's to sync.

    Raises:
        FileExistsError: somebody else has committed this version; nothing was changed.
        OSError: the disk refused; nothing was changed.
    """
    log = Path(location.uri) / "_delta_log"
    passing = log / f"_commit_{uuid.uuid4()}.json.tmp"
    try:
        with passing.open("xb") as file:
            file.write(_entry(actions, version, application, operation).encode())
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.link(passing, log / f"{version:020d}.json", follow_symlinks=False)
    finally:
        with suppress(OSError):
            passing.unlink()


def abandoned_entries(location: Location, age: timedelta) -> list[Path]:
    """Entries of local writers that were killed before their commit, at least so old."""
    if location.local is None:
        return []
    latest = time.time() - age.total_seconds()
    passing = (Path(location.uri) / "_delta_log").glob("_commit_*.json.tmp")
    return sorted(p for p in passing if p.stat().st_mtime <= latest)


def _entry(actions: Sequence[_Action], version: int, application: str, operation: str) -> str:
    columns = sorted({c for a in actions for c in a.partition_values or ()})
    about = {
        "timestamp": int(time.time() * 1000),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": json.dumps(columns)},
        "engineInfo": "trajstore",
        "trajstore": operation,
    }
    lines: list[dict[str, Any]] = [{"commitInfo": about}]
    lines += [{"add": _added(a)} for a in actions if isinstance(a, AddAction)]
    lines.append({"txn": {"appId": application, "version": version}})
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def _added(action: AddAction) -> dict[str, Any]:
    return {
        "path": action.path,
        "partitionValues": action.partition_values,
        "size": action.size,
        "modificationTime": action.modification_time,
        "dataChange": action.data_change,
        "stats": action.stats,
    }
