"""Does the disk hold what the log says? And if not, make the store whole again without it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajstore.store.commit import Action, commit
from trajstore.store.layout import Location
from trajstore.store.parts import write_parts
from trajstore.store.rows import tombstones
from trajstore.store.snapshot import REPLACED, DataFile, Snapshot, read_files
from trajstore.store.upkeep import _removal


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What ``verify`` found."""

    snapshot: int
    """The snapshot that was checked."""
    files: int
    """Data files that it names."""
    problems: tuple[str, ...] = ()
    """What is wrong, a line each; empty when all is well."""
    lost: tuple[str, ...] = ()
    """Ids of trajectories that are not whole."""
    repaired: bool = False
    """Whether the store was made whole again by leaving the lost ones out."""

    @property
    def ok(self) -> bool:
        """Whether the disk holds what the log says."""
        return not self.problems


@dataclass
class _Findings:
    problems: list[str] = field(default_factory=list)
    damaged: list[DataFile] = field(default_factory=list)


def verify_store(
    uri: str | Path,
    *,
    storage_options: Mapping[str, str] | None = None,
    deep: bool = True,
    repair: bool = False,
) -> VerifyReport:
    """Like :func:`verify`, for a store that may be too damaged to open.

    Raises:
        StoreNotFoundError: there is no store.
    """
    root = Location.of(uri, storage_options)
    lock = None if root.local is None else root.local / ".lock"
    return verify(root.child("trajectories"), lock, deep=deep, repair=repair)


def verify(
    location: Location, lock: Path | None, *, deep: bool = True, repair: bool = False
) -> VerifyReport:
    """Check that every file is there and whole, and every trajectory has exactly its steps.

    Args:
        location: the Delta table.
        lock: writer lock, taken by a repair.
        deep: read every page and compare its checksum (else only sizes and footers).
        repair: take files that are missing or damaged out of the newest snapshot, with what is left
            of the trajectories in them; log entries that were cut off are set aside.
    """
    findings = _Findings()
    _check_log(location, findings, repair=repair)
    _check_checkpoint(location, findings, repair=repair)
    snapshot = Snapshot.load(location)
    for file in snapshot.files:
        reason = _damage(location, file, deep=deep)
        if reason is not None:
            findings.problems.append(f"{file.path}: {reason}")
            findings.damaged.append(file)
    partial = _partial(location, snapshot, findings.damaged)
    ids = tuple(sorted({i for _, i in partial}))
    findings.problems += [f"trajectory {i} has not exactly its n_steps steps" for i in ids]
    if repair and (findings.damaged or partial):
        _repair(location, lock, findings.damaged, partial)
    return VerifyReport(
        snapshot=snapshot.version,
        files=len(snapshot.files),
        problems=tuple(findings.problems),
        lost=ids,
        repaired=repair and bool(findings.problems),
    )


def _check_log(location: Location, findings: _Findings, *, repair: bool) -> None:
    """The newest log entries may have been cut off by a power loss: they hold no whole JSON."""
    if location.local is None:
        return
    log = location.local / "_delta_log"
    for entry in sorted(log.glob("*.json"), reverse=True)[:20]:
        try:
            lines = [json.loads(line) for line in entry.read_bytes().splitlines() if line.strip()]
        except ValueError:
            lines = []
        if lines:
            continue
        findings.problems.append(f"_delta_log/{entry.name}: not a whole log entry")
        if repair:
            entry.rename(entry.with_suffix(".json.damaged"))


def _check_checkpoint(location: Location, findings: _Findings, *, repair: bool) -> None:
    """A damaged checkpoint hides a whole log: everything it says is in the log entries too."""
    if location.local is None:
        return
    log = location.local / "_delta_log"
    for checkpoint in sorted(log.glob("*.checkpoint*.parquet"), reverse=True)[:5]:
        try:
            pq.ParquetFile(checkpoint, page_checksum_verification=True).read()
        except (OSError, pa.ArrowException) as error:
            findings.problems.append(f"_delta_log/{checkpoint.name}: damaged: {error}")
            if repair:
                checkpoint.rename(checkpoint.with_suffix(".parquet.damaged"))
                (log / "_last_checkpoint").unlink(missing_ok=True)


def _damage(location: Location, file: DataFile, *, deep: bool) -> str | None:
    """Why a file is not what the log says, or None."""
    filesystem = location.filesystem()
    info = filesystem.get_file_info(file.path)
    if info.size is None:
        return "the file is missing"
    if info.size != file.size_bytes:
        return f"{info.size} bytes, the log says {file.size_bytes}"
    try:
        with filesystem.open_input_file(file.path) as handle:
            parquet = pq.ParquetFile(handle, page_checksum_verification=True)
            if parquet.metadata.num_rows != file.rows:
                return f"{parquet.metadata.num_rows} rows, the log says {file.rows}"
            if deep:
                for _ in parquet.iter_batches(batch_size=1024):
                    pass
    except (OSError, pa.ArrowException) as error:
        return f"damaged: {error}"
    return None


def _partial(
    location: Location, snapshot: Snapshot, damaged: Sequence[DataFile]
) -> list[tuple[int, str]]:
    """Live revisions whose steps are not exactly those that their trajectory row says."""
    bad = {f.path for f in damaged}
    dead = snapshot.dead

    def rows(record: str, names: list[str]) -> pa.Table:
        files = [f for f in snapshot.of_record(record) if f.path not in bad]
        table = read_files(location, files, names)
        return table.filter(pc.invert(pc.is_in(table.column("revision"), value_set=dead)))

    connection = duckdb.connect(":memory:")
    connection.register("t", rows("trajectory", ["revision", "trajectory_id", "n_steps"]))
    connection.register("s", rows("step", ["revision", "trajectory_id"]))
    found = connection.sql(
        """
        SELECT coalesce(t.revision, s.revision), coalesce(t.trajectory_id, s.trajectory_id)
        FROM (SELECT revision, trajectory_id, CAST(n_steps AS BIGINT) AS n FROM t) t
        FULL JOIN (SELECT revision, any_value(trajectory_id) AS trajectory_id, count(*) AS n
                   FROM s GROUP BY revision) s USING (revision)
        WHERE t.trajectory_id IS NULL OR coalesce(s.n, 0) <> t.n
        ORDER BY 1
        """
    ).fetchall()
    connection.close()
    return [(int(revision), str(trajectory)) for revision, trajectory in found]


def _repair(
    location: Location,
    lock: Path | None,
    damaged: Sequence[DataFile],
    partial: Sequence[tuple[int, str]],
) -> None:
    rows = tombstones([r for r, _ in partial], [i for _, i in partial], REPLACED)
    written = write_parts(location, [("tombstone", rows)], durable=True)

    def prepare(head: Snapshot) -> Sequence[Action] | None:
        live = {f.path for f in head.files}
        return [*written, *(_removal(f) for f in damaged if f.path in live)]

    commit(location, lock, prepare, operation="repair", durable=True)
