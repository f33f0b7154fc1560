"""Keep a store small and quick: compact, vacuum, delete, expire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs as pafs

from trajstore.schema import STEP_SCHEMA
from trajstore.store import views
from trajstore.store.commit import Action, abandon, commit
from trajstore.store.connection import internal_connection
from trajstore.store.layout import STORED_SCHEMAS, Location
from trajstore.store.log_entry import abandoned_entries
from trajstore.store.parts import write_parts
from trajstore.store.rows import sorted_rows, stored, tombstones
from trajstore.store.snapshot import DELETED, DataFile, Snapshot, open_table, read_files

TARGET_BYTES = 96 << 20
"""Size on disk of a compacted file: between 64 and 128 MB."""

_SMALL = TARGET_BYTES * 2 // 3
_SORT_KEYS = {
    "trajectory": ["trajectory_id"],
    "step": ["trajectory_id", "step_index"],
    "label": ["trajectory_id", "label_id"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport:
    """What ``compact`` did."""

    snapshot: int
    """Snapshot after it."""
    files_before: int
    """Data files before."""
    files_after: int
    """Data files after."""
    rows_dropped: int
    """Rows of replaced or deleted versions that are no longer in the newest snapshot."""


def compact(
    location: Location,
    lock: Path | None,
    *,
    durable: bool,
    dry_run: bool = False,
    forget_deletes: bool = False,
) -> CompactReport:
    """Join small files into files of about 96 MB sorted by id, and leave dead revisions out.

    Appends and readers go on meanwhile; older snapshots stay readable until ``vacuum``.

    Args:
        location: the Delta table.
        lock: writer lock.
        durable: fsync.
        dry_run: only count.
        forget_deletes: also drop the tombstones of deletes, which hide rows in older snapshots; the
            caller removes those rows' files right after.
    """
    start = Snapshot.load(location)
    dead = start.dead
    groups = [g for record in _SORT_KEYS for g in _groups(location, start, record, dead)]
    spent = _spent_tombstones(start, forget_deletes=forget_deletes)
    planned = sum(len(g) for g in groups)
    if dry_run or not (groups or spent):
        after = len(start.files) - planned + len(groups)
        return CompactReport(
            snapshot=start.version, files_before=len(start.files), files_after=after, rows_dropped=0
        )
    written: list[AddAction] = []
    dropped = 0
    for group in groups:
        rows, lost = _merged(location, group, dead)
        dropped += lost
        parts = [(group[0].record, rows)]
        written += write_parts(location, parts, durable=durable, data_change=False)
    removed = [f for g in groups for f in g] + spent
    kept = _deleted_tombstones(start) if spent and not forget_deletes else []
    written += write_parts(location, kept, durable=durable)
    version = _swap(location, lock, removed, written, operation="compact", durable=durable)
    return CompactReport(
        snapshot=version,
        files_before=len(start.files),
        files_after=len(start.files) - len(removed) + len(written),
        rows_dropped=dropped,
    )


def _groups(
    location: Location, snapshot: Snapshot, record: str, dead: pa.Array
) -> Iterator[list[DataFile]]:
    """Files to write together: neighbours by id, up to the target size."""
    group: list[DataFile] = []
    size = 0
    files = sorted(snapshot.of_record(record), key=lambda f: (f.low or "", f.path))
    for file in files:
        if file.size_bytes >= _SMALL and not _holds_dead(location, file, dead):
            continue
        if group and size + file.size_bytes > TARGET_BYTES:
            yield from _worth(location, group, dead)
            group, size = [], 0
        group.append(file)
        size += file.size_bytes
    yield from _worth(location, group, dead)


def _worth(location: Location, group: list[DataFile], dead: pa.Array) -> Iterator[list[DataFile]]:
    if len(group) > 1 or any(_holds_dead(location, f, dead) for f in group):
        yield group


def _holds_dead(location: Location, file: DataFile, dead: pa.Array) -> bool:
    if not len(dead):
        return False
    revisions = read_files(location, [file], ["revision"]).column("revision")
    return bool(pc.any(pc.is_in(revisions, value_set=dead)).as_py())


def _merged(location: Location, group: list[DataFile], dead: pa.Array) -> tuple[pa.Table, int]:
    record = group[0].record or ""
    schema = STORED_SCHEMAS[record]
    rows = pa.concat_tables([_present_form(location, f, schema) for f in group])
    alive = rows.filter(pc.invert(pc.is_in(rows.column("revision"), value_set=dead)))
    return sorted_rows(alive, _SORT_KEYS[record]), len(rows) - len(alive)


def _present_form(location: Location, file: DataFile, schema: pa.Schema) -> pa.Table:
    """The rows of a file in the stored schema; steps of format version 1 get flat columns."""
    rows = read_files(location, [file], schema.names)
    if file.record != "step" or file.is_flat:
        return rows.select(schema.names).cast(schema)
    steps = rows.select(STEP_SCHEMA.names).cast(STEP_SCHEMA)
    return stored("step", steps, rows.column("revision").combine_chunks())


def _spent_tombstones(snapshot: Snapshot, *, forget_deletes: bool) -> list[DataFile]:
    """Tombstone files to drop or to join, once every dead row is gone from the newest snapshot."""
    files = list(snapshot.of_record("tombstone"))
    only_deletes = len(snapshot.deleted) == len(snapshot.dead)
    return [] if only_deletes and len(files) < 2 and not forget_deletes else files


def _deleted_tombstones(snapshot: Snapshot) -> list[tuple[str | None, pa.Table]]:
    """Tombstones of deletes stay until ``vacuum``: they hide the rows in older snapshots too."""
    deleted = snapshot.deleted.to_pylist()
    return [("tombstone", tombstones(deleted, [None] * len(deleted), DELETED))]


def _swap(
    location: Location,
    lock: Path | None,
    removed: Sequence[DataFile],
    written: Sequence[AddAction],
    *,
    operation: str,
    durable: bool,
) -> int:
    """Put new files in the place of old ones, unless somebody else has done so meanwhile."""
    paths = {f.path for f in removed}

    def prepare(head: Snapshot) -> Sequence[Action] | None:
        if not paths <= {f.path for f in head.files}:
            return None
        return [*written, *(_removal(f) for f in removed)]

    try:
        version = commit(location, lock, prepare, operation=operation, durable=durable)
    except BaseException:
        abandon(location, written)
        raise
    abandon(location, written)
    return version


def _removal(file: DataFile) -> RemoveAction:
    values: dict[str, str | None] = {} if file.record is None else {"record": file.record}
    stamp = int(datetime.now(UTC).timestamp() * 1000)
    return RemoveAction(file.path, False, stamp, file.size_bytes, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReport:
    """What ``delete`` did."""

    snapshot: int
    """Snapshot from which on nobody sees the rows."""
    trajectories: int
    """Trajectories hidden."""
    labels: int
    """Their labels hidden."""
    memory_removed: Mapping[str, int] = field(default_factory=dict)
    """Table -> items of memory that were drawn from these trajectories alone, and uses by them."""
    memory_stale: Mapping[str, int] = field(default_factory=dict)
    """Table -> items that others speak for, too; not served until they are made anew."""


def delete(
    location: Location,
    lock: Path | None,
    trajectory_ids: Sequence[str],
    *,
    durable: bool,
) -> DeleteReport:
    """Hide trajectories, their steps and labels at once, in this and every older snapshot.

    ``vacuum`` then removes the bytes.
    """
    written: list[AddAction] = []
    counts = (0, 0)

    def prepare(head: Snapshot) -> Sequence[Action] | None:
        nonlocal written, counts
        abandon(location, written)
        runs = _revisions_of(location, head, "trajectory", trajectory_ids)
        labels = _revisions_of(location, head, "label", trajectory_ids)
        counts = (len(runs), len(labels))
        rows = tombstones(
            [r for r, _ in (*runs, *labels)], [i for _, i in (*runs, *labels)], DELETED
        )
        written = write_parts(location, [("tombstone", rows)], durable=durable)
        return written

    try:
        version = commit(location, lock, prepare, operation="delete", durable=durable)
    except BaseException:
        abandon(location, written)
        raise
    return DeleteReport(snapshot=version, trajectories=counts[0], labels=counts[1])


def _revisions_of(
    location: Location, snapshot: Snapshot, record: str, ids: Sequence[str]
) -> list[tuple[int, str]]:
    """Revisions of those trajectories in every row not deleted yet, replaced versions included."""
    rows = read_files(location, snapshot.of_record(record), ["revision", "trajectory_id"])
    wanted = pc.is_in(rows.column("trajectory_id"), value_set=pa.array(ids, pa.string()))
    hit = rows.filter(
        pc.and_(wanted, pc.invert(pc.is_in(rows.column("revision"), snapshot.deleted)))
    )
    return sorted(
        zip(
            hit.column("revision").to_pylist(),
            hit.column("trajectory_id").to_pylist(),
            strict=True,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """What ``vacuum`` did, or would do."""

    files_removed: int
    """Data files that no kept snapshot names."""
    blobs_removed: int
    """Media that no trajectory names."""
    pins_broken: tuple[str, ...]
    """Pins that a delete has broken."""


def remove_unreferenced(
    location: Location,
    *,
    keep: Sequence[int],
    retention: timedelta,
    dry_run: bool,
) -> list[str]:
    """Remove data files that neither the newest snapshot nor a kept one names.

    Also log entries that a killed writer left before they became a commit.

    Args:
        location: the Delta table.
        keep: snapshots whose files stay.
        retention: files younger than this stay, since a writer may be about to commit them.
        dry_run: only say which.
    """
    hours = retention.total_seconds() / 3600
    removed: list[str] = open_table(location).vacuum(
        retention_hours=int(hours),
        dry_run=dry_run,
        enforce_retention_duration=False,
        full=True,
        keep_versions=list(keep) or None,
    )
    for path in abandoned_entries(location, retention):
        removed.append(f"_delta_log/{path.name}")
        if not dry_run:
            path.unlink(missing_ok=True)
    return removed


def remove_retired(location: Location, *, dry_run: bool) -> list[str]:
    """Remove data files that a commit has taken out of a table, whatever their age, and name them.

    A file that no commit ever named stays, since a writer may be about to commit it.

    Args:
        location: the Delta table.
        dry_run: only say which.
    """
    table = open_table(location)
    removed: list[str] = table.vacuum(
        retention_hours=0, dry_run=dry_run, enforce_retention_duration=False
    )
    return removed


def blobs_of_deleted(snapshot: Snapshot) -> dict[str, datetime]:
    """Media that deleted runs name, and when the newest of those runs was deleted."""
    dead = snapshot.tombstones.filter(pc.equal(snapshot.tombstones.column("name"), DELETED))
    connection = internal_connection(snapshot.location)
    connection.register("gone", dead)
    rows = connection.sql(
        f"""
        SELECT name, max(created_at) AS at FROM (
            SELECT created_at, unnest({views.BLOB_NAMES}) AS name
            FROM ({views.stored_steps(snapshot, dead=False)}) JOIN gone USING (revision))
        GROUP BY name"""
    ).to_arrow_table()
    return dict(zip(rows.column("name").to_pylist(), rows.column("at").to_pylist(), strict=True))


def holding(location: Location, revisions: pa.Array) -> list[str]:
    """Every data file on disk, of any snapshot or none, that holds one of the revisions."""
    filesystem = location.filesystem()
    found = []
    for info in filesystem.get_file_info(pafs.FileSelector("", recursive=True)):
        if not info.path.endswith(".parquet") or not info.path.startswith("record="):
            continue
        if info.path.startswith("record=tombstone/"):
            continue
        try:
            there = pq.read_table(
                info.path, columns=["revision"], filesystem=filesystem, partitioning=None
            ).column("revision")
        except (OSError, pa.ArrowException):
            continue
        if pc.any(pc.is_in(there, value_set=revisions)).as_py():
            found.append(info.path)
    return found


def remove_deleted(location: Location, deleted: pa.Array) -> list[str]:
    """Remove every file outside the newest snapshot that holds a deleted revision, and name them.

    They go whatever their age: what somebody deleted must not stay in older snapshots.
    """
    head = {f.path for f in Snapshot.load(location).files}
    removed = [path for path in holding(location, deleted) if path not in head]
    filesystem = location.filesystem()
    for path in removed:
        filesystem.delete_file(path)
    return removed
