"""One commit to a Delta table: serialised among writers, durable, never in part."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from trajstore.errors import TrajstoreError, WriteError
from trajstore.store.layout import TABLE_CONFIGURATION, Location
from trajstore.store.log_entry import NextSnapshot, fits, write_entry
from trajstore.store.parts import discard, sync
from trajstore.store.snapshot import Snapshot
from trajstore.store.upgrade import newest_for_writing

_WRITER = "trajstore"
_ATTEMPTS = 1000

Action = AddAction | RemoveAction
Prepare = Callable[[Snapshot], Sequence[Action] | None]
"""Given the newest snapshot, the actions to commit onto it (None: nothing to do)."""


def create_table(
    location: Location, schema: pa.Schema, *, partition_by: Sequence[str] = ()
) -> None:
    """Make the Delta table where it is not there yet; several processes may try at once."""
    if location.local is not None:
        try:
            location.local.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"Cannot make a store at {location.uri}: {error}"
            raise WriteError(message, path=location.uri) from error
    try:
        DeltaTable.create(
            location.uri,
            schema=schema,
            mode="ignore",
            partition_by=list(partition_by) or None,
            configuration=TABLE_CONFIGURATION,
            raise_if_key_not_exists=False,
            storage_options=location.options(),
        )
    except (DeltaError, OSError) as error:
        if DeltaTable.is_deltatable(location.uri, storage_options=location.options()):
            return
        message = f"Cannot make a store at {location.uri}: {error}"
        raise WriteError(message, path=location.uri) from error
    if location.local is not None:
        sync(location.local)
        sync(location.local / "_delta_log")


def commit(
    location: Location,
    lock: Path | None,
    prepare: Prepare,
    *,
    operation: str,
    durable: bool,
    known: Snapshot | None = None,
) -> int:
    """Number of the snapshot that :func:`commit_onto` gives."""
    return commit_onto(
        location, lock, prepare, operation=operation, durable=durable, known=known
    ).version


def commit_onto(
    location: Location,
    lock: Path | None,
    prepare: Prepare,
    *,
    operation: str,
    durable: bool,
    known: Snapshot | None = None,
) -> Snapshot:
    """Commit what ``prepare`` says about the newest snapshot, and nothing if that has moved on.

    A commit claims the version after the snapshot it looked at, so of two writers that looked at
    the same one only the first lands: the later one looks again. Local writers also take turns by a
    lock, so they seldom have to.

    Args:
        location: the Delta table.
        lock: lock file of a local store.
        prepare: called with the newest snapshot, once an attempt; it must be cheap.
        operation: name for the history.
        durable: fsync the log entry before returning.
        known: a snapshot that may still be the newest; spares reading the log again.

    Returns:
        The snapshot after the commit (the newest one where there was nothing to do).

    Raises:
        WriteError: the commit failed for good; nothing of it is visible.
    """
    last: Exception | None = None
    for _ in range(_ATTEMPTS):
        with _turn(lock):
            before = newest(location, known)
            actions = prepare(before)
            if not actions:
                return before
            by_hand = fits(before, actions)
            try:
                _land(before, actions, operation, by_hand=by_hand, durable=durable)
            except (CommitFailedError, FileExistsError) as error:
                last, known = error, None
                continue
            except (DeltaError, OSError) as error:
                if not _landed(location, actions):
                    raise _failed(location, error) from error
            if durable and location.local is not None:
                _sync_log(location.local, None if by_hand else before.version + 1)
            return NextSnapshot(before, actions)
    raise _failed(location, last)


def newest(location: Location, known: Snapshot | None) -> Snapshot:
    """The newest snapshot: the known one where no log entry came since (seen on local disks)."""
    if known is None or location.local is None:
        return newest_for_writing(location)
    log = location.local / "_delta_log"
    this, following = (log / f"{known.version + n:020d}.json" for n in (0, 1))
    return known if this.exists() and not following.exists() else newest_for_writing(location)


def _land(
    before: Snapshot,
    actions: Sequence[Action],
    operation: str,
    *,
    by_hand: bool,
    durable: bool,
) -> None:
    version = before.version + 1
    if by_hand:
        write_entry(
            before.location,
            version,
            actions,
            application=_WRITER,
            operation=operation,
            durable=durable,
        )
        return
    table = before.table
    table.create_write_transaction(
        list(actions),
        "append",
        table.schema(),
        table.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata={"trajstore": operation},
            max_commit_retries=0,
            app_transactions=[Transaction(_WRITER, version)],
        ),
    )


def _landed(location: Location, actions: Sequence[Action]) -> bool:
    added = {a.path for a in actions if isinstance(a, AddAction)}
    return bool(added) and added <= {f.path for f in Snapshot.load(location).files}


def _failed(location: Location, error: Exception | None) -> WriteError:
    message = f"The commit to {location.uri} failed: {error}. Nothing of it is visible."
    return WriteError(message, path=location.uri)


def _sync_log(root: Path, version: int | None) -> None:
    """Fsync the log's folder, and what delta-rs wrote there for ``version``."""
    log = root / "_delta_log"
    if version is not None:
        sync(log / f"{version:020d}.json")
        checkpoint = log / f"{version:020d}.checkpoint.parquet"
        if checkpoint.exists():
            sync(checkpoint)
            sync(log / "_last_checkpoint")
    sync(log)


def abandon(location: Location, actions: Sequence[Action]) -> None:
    """Remove the files of a commit that did not land; files that a snapshot names stay."""
    names = {a.path for a in actions if isinstance(a, AddAction)}
    if not names:
        return
    try:
        live = {f.path for f in Snapshot.load(location).files}
    except TrajstoreError:
        return
    discard(location, names - live)


@contextmanager
def _turn(lock: Path | None) -> Iterator[None]:
    """Hold the store's writer lock; the kernel lets go of it when a process dies."""
    if lock is None:
        yield
        return
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        message = f"Cannot write to the store: {error}. Is the folder read-only?"
        raise WriteError(message, path=lock) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
