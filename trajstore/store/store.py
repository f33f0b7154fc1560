"""The store: open, append, read, label, keep. It holds no logic of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from trajstore.errors import SnapshotError, StoreNotFoundError, WriteError
from trajstore.schema import (
    Insight,
    Label,
    Reflection,
    Skill,
    Trajectory,
    Use,
    Workflow,
    insights_to_arrow,
    reflections_to_arrow,
    skills_to_arrow,
    uses_to_arrow,
    workflows_to_arrow,
)
from trajstore.store import upkeep
from trajstore.store.append import Appender, AppendReport, Batch
from trajstore.store.batches import to_batch
from trajstore.store.blobs import Blobs
from trajstore.store.commit import create_table
from trajstore.store.layout import SIDE_SCHEMAS, Location, delta_schema
from trajstore.store.pins import Pin, Pins, read_ranking, write_ranking
from trajstore.store.reader import Condition, Outcome, Reader
from trajstore.store.side import SideTable, new_versions
from trajstore.store.snapshot import Snapshot, open_table
from trajstore.store.verify import VerifyReport, verify
from trajstore.store.writer import TrajectoryWriter

_MEMORIES = ("skills", "reflections", "workflows", "insights", "uses")


class Store:
    """One trajectory store on a local disk or an object store.

    Opening reads only the newest log entries. One instance may be used by several threads, and any
    number of instances in any number of processes may read and write the same store.
    """

    def __init__(
        self,
        uri: str | Path,
        *,
        create: bool = True,
        storage_options: Mapping[str, str] | None = None,
        durable: bool = True,
        memory_limit: str | None = None,
    ) -> None:
        """Open the store at a folder or URI.

        Args:
            uri: folder, or URI such as ``s3://bucket/pool``.
            create: make it where it is not there yet.
            storage_options: of the object store, as deltalake takes them.
            durable: appends return only when they would survive a power loss.
            memory_limit: for SQL, such as ``"4GB"``; 80 % of the memory where None.

        Raises:
            StoreNotFoundError: there is none and ``create`` is False.
            StoreFormatError: it is of a version that this trajstore cannot read.
        """
        self.root = Location.of(uri, storage_options)
        self._location = self.root.child("trajectories")
        local = self.root.local
        self._lock = None if local is None else local / ".lock"
        self._durable = durable
        self._memory_limit = memory_limit
        there = DeltaTable.is_deltatable(
            self._location.uri, storage_options=self._location.options()
        )
        if not there and not create:
            message = (
                f"There is no trajectory store at {self.root.uri}. Make one with "
                "`trajstore import STORE PATH...` or trajstore.open(path)."
            )
            raise StoreNotFoundError(message, path=self.root.uri)
        if not there:
            create_table(self._location, delta_schema(), partition_by=["record"])
        else:
            open_table(self._location)
        self._appender = Appender(self._location, self._lock)
        self._side = {n: SideTable(self.root, self._lock, n) for n in SIDE_SCHEMAS}
        self._pins = Pins(self._side["pins"], durable=durable)
        self._reader: Reader | None = None
        self._reader_key: tuple[object, ...] | None = None
        self.blobs = Blobs(self.root)
        """Media by SHA-256."""

    # --- writing

    def append(
        self,
        items: Batch | Trajectory | Label | Iterable[Trajectory | Label],
        *,
        durable: bool | None = None,
    ) -> AppendReport:
        """Append trajectories and labels in one commit, each run exactly once.

        When it returns, the rows are in every later open, also after SIGKILL of any process, and
        with ``durable`` also after a power loss. A run that is there already is left out; a longer
        version replaces the shorter one, and one with a verdict the one without.

        Args:
            items: values, or a :class:`Batch` of Arrow tables (the fast way).
            durable: overrides the store's setting.

        Raises:
            SchemaError: rows that do not fit; nothing is written.
            WriteError: the disk or the object store refused; nothing is visible.
        """
        batch, shorter, conflicts = to_batch(items)
        safe = self._durable if durable is None else durable
        report = self._appender.append(batch, durable=safe)
        return replace(
            report,
            already=report.already + shorter,
            conflicts=(*conflicts, *report.conflicts),
        )

    def append_parts(self, parts: Iterable[Batch], *, durable: bool | None = None) -> AppendReport:
        """Append batches that are made one after another, in one commit; see :meth:`append`.

        The steps of one are encoded while the next is made. No trajectory may be in two of them.
        """
        safe = self._durable if durable is None else durable
        return self._appender.append(parts, durable=safe)

    def writer(
        self,
        *,
        max_rows: int = 20_000,
        max_bytes: int = 32 << 20,
        max_seconds: float = 5.0,
        durable: bool | None = None,
    ) -> TrajectoryWriter:
        """A buffered writer for a stream of trajectories; see :class:`TrajectoryWriter`."""
        return TrajectoryWriter(
            lambda items: self.append(items, durable=durable),
            max_rows=max_rows,
            max_bytes=max_bytes,
            max_seconds=max_seconds,
        )

    def label(self, labels: Iterable[Label], *, durable: bool | None = None) -> AppendReport:
        """Append late outcomes and scores."""
        return self.append(list(labels), durable=durable)

    def add_skills(self, skills: Iterable[Skill]) -> int:
        """Add skill versions that are not there yet, and say how many.

        Versions of one name are numbered on from those that are there.
        """
        rows = skills_to_arrow(list(skills), at=datetime.now(UTC))
        if not rows.num_rows:
            return 0
        side = self._side["skills"]
        return side.update(lambda there: new_versions(rows, there), durable=self._durable)

    def add_reflections(self, reflections: Iterable[Reflection]) -> int:
        """Add reflections that are not there yet, and say how many."""
        rows = reflections_to_arrow(list(reflections), at=datetime.now(UTC))
        return self._side["reflections"].append(rows, durable=self._durable, keep_existing=True)

    def add_workflows(self, workflows: Iterable[Workflow]) -> int:
        """Add workflows that are not there yet, and say how many."""
        rows = workflows_to_arrow(list(workflows), at=datetime.now(UTC))
        return self._side["workflows"].append(rows, durable=self._durable, keep_existing=True)

    def add_insights(self, insights: Iterable[Insight]) -> int:
        """Add versions of insights that are not there yet, and say how many."""
        rows = insights_to_arrow(list(insights), at=datetime.now(UTC))
        return self._side["insights"].append(rows, durable=self._durable, keep_existing=True)

    def add_uses(self, uses: Iterable[Use]) -> int:
        """Record which items of memory runs were given, each once, and say how many are new."""
        rows = uses_to_arrow(list(uses), at=datetime.now(UTC))
        return self._side["uses"].append(rows, durable=self._durable, keep_existing=True)

    def memory(self, name: str) -> pa.Table:
        """The newest rows of a table of memory beside the record, ordered by id.

        Args:
            name: ``skills``, ``reflections``, ``workflows``, ``insights`` or ``uses``.
        """
        return self._side[name].read()

    def change_memory(self, name: str, decide: Callable[[pa.Table], pa.Table]) -> int:
        """Write rows of a table of memory that follow from those that are there.

        Args:
            name: as in :meth:`memory`.
            decide: given the newest rows, the rows to add or to put in the place of those with the
                same id; asked again where another writer comes between.

        Returns:
            Number of rows written.
        """
        return self._side[name].update(decide, durable=self._durable)

    def rewrite_memory(self, name: str, decide: Callable[[pa.Table], pa.Table]) -> int:
        """Take rows out of a table of memory; ``vacuum`` then removes the bytes.

        Args:
            name: as in :meth:`memory`.
            decide: given the newest rows, those that stay, changed or not; asked again where
                another writer comes between.

        Returns:
            Number of rows that went.
        """
        return self._side[name].rewrite(decide, durable=self._durable)

    # --- reading

    def snapshot(self) -> int:
        """Number of the newest snapshot."""
        return self._head().version

    def _head(self) -> Snapshot:
        reader = self._reader
        if reader is not None and not self._moved_on(reader.snapshot.version):
            return reader.snapshot
        return Snapshot.load(self._location)

    def _moved_on(self, version: int) -> bool:
        """Whether there may be a newer log entry; a cheap look on a local disk."""
        local = self._location.local
        return local is None or (local / "_delta_log" / f"{version + 1:020d}.json").exists()

    def reader(self) -> Reader:
        """The newest snapshot, to read from; the same object until something is written."""
        head = self._head()
        tables = {n: self._side[n].read() for n in _MEMORIES}
        ranking = self.evaluator_ranking()
        key = (head.version, tuple(ranking))
        old = self._reader
        same = old is not None and all(old.side[n] is t for n, t in tables.items())
        if old is None or not same or self._reader_key != key:
            self._reader = old = self._read(head, tables, ranking)
            self._reader_key = key
        return old

    def _read(
        self,
        snapshot: Snapshot,
        tables: dict[str, pa.Table],
        ranking: Sequence[str],
        hidden: pa.Array | None = None,
    ) -> Reader:
        return Reader(
            snapshot,
            side=tables,
            evaluators=ranking,
            hidden=hidden,
            memory_limit=self._memory_limit,
        )

    def at(self, snapshot: int | str) -> Reader:
        """An older snapshot, by number or by the name of a pin, to read from.

        Rows that somebody deleted since are hidden in it too.

        Raises:
            SnapshotError: there is none, or a delete and a vacuum have broken it.
        """
        number = self._number(snapshot)
        tables = {n: self._side[n].read() for n in _MEMORIES}
        hidden = self._head().deleted
        at = Snapshot.load(self._location, number)
        return self._read(at, tables, self.evaluator_ranking(), hidden)

    def _number(self, snapshot: int | str) -> int:
        if isinstance(snapshot, int) or snapshot.isdigit():
            return int(snapshot)
        return self._pins.number(snapshot)

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Run one SELECT over the newest snapshot's views; a DuckDB relation.

        Raises:
            QueryError: it is not a SELECT over the views, or it fails.
        """
        return self.reader().sql(query)

    def query(self, query: str, *, timeout_s: float | None = None) -> pa.RecordBatchReader:
        """Run one SELECT over the newest snapshot's views and stream its rows."""
        return self.reader().query(query, timeout_s=timeout_s)

    def get(self, trajectory_id: str, *, outcome: Outcome = "effective") -> Trajectory | None:
        """One trajectory with its steps, or None; see :meth:`Reader.get_many`."""
        return self.reader().get(trajectory_id, outcome=outcome)

    def get_many(self, ids: Sequence[str], *, outcome: Outcome = "effective") -> list[Trajectory]:
        """Trajectories by id, in the order of ``ids``; see :meth:`Reader.get_many`."""
        return self.reader().get_many(ids, outcome=outcome)

    def scan(self, where: str | Condition | None = None) -> Iterator[Trajectory]:
        """Trajectories with their steps, ordered by id, a few hundred in memory at a time."""
        return self.reader().scan(where)

    # --- evaluators, pins, history

    def evaluator_ranking(self) -> list[str]:
        """Names of evaluators, the best first, as :meth:`rank_evaluators` set them."""
        return read_ranking(self._side["settings"])

    def rank_evaluators(self, names: Sequence[str]) -> None:
        """Say whose outcome counts where several judged one trajectory, the best first.

        Evaluators that are not named rank behind, all alike: the newest word counts.
        """
        write_ranking(self._side["settings"], names, durable=self._durable)

    def pin(self, name: str, snapshot: int | None = None) -> int:
        """Keep a snapshot readable for ever under a name, and give its number.

        Only a delete followed by a vacuum can break it.
        """
        if not name or name.isdigit():
            raise SnapshotError(f"A pin needs a name that is not a number, not {name!r}.")
        number = self.snapshot() if snapshot is None else snapshot
        open_table(self._location, number)
        self._pins.write(name, number)
        return number

    def unpin(self, name: str) -> None:
        """Let a pinned snapshot go."""
        self._pins.number(name)
        self._pins.write(name, None)

    def pins(self) -> list[Pin]:
        """Every pin, ordered by name."""
        return self._pins.all()

    def snapshots(self, limit: int | None = None) -> list[dict[str, object]]:
        """History, the newest first: snapshot, at, operation, pins.

        Args:
            limit: at most this many.
        """
        names: dict[int, list[str]] = {}
        for pin in self.pins():
            names.setdefault(pin.snapshot, []).append(pin.name)
        return [
            {
                "snapshot": entry["version"],
                "at": datetime.fromtimestamp(entry["timestamp"] / 1000, tz=UTC).isoformat(),
                "operation": entry.get("trajstore") or str(entry.get("operation", "")).lower(),
                "pins": names.get(entry["version"], []),
            }
            for entry in open_table(self._location).history(limit)
        ]

    # --- upkeep

    def compact(self, *, dry_run: bool = False) -> upkeep.CompactReport:
        """Join small files and leave replaced versions out; readers and writers go on."""
        return upkeep.compact(self._location, self._lock, durable=self._durable, dry_run=dry_run)

    def delete(self, where: str, *, dry_run: bool = False) -> upkeep.DeleteReport:
        """Hide every trajectory that fits a condition, at once and in every snapshot.

        ``vacuum`` then removes the bytes, which breaks pins that hold them. What was drawn from the
        runs stays here; the store that ``trajstore.open`` gives takes that out, too.

        Args:
            where: an SQL condition over ``trajectories``.
            dry_run: only count.
        """
        if not where.strip():
            raise WriteError("delete needs a condition; to delete everything say where='true'.")
        reader = self.reader()
        ids = [i for listed in reader.ids(where) for i in listed]
        if dry_run or not ids:
            return upkeep.DeleteReport(
                snapshot=reader.snapshot.version, trajectories=len(ids), labels=0
            )
        return upkeep.delete(self._location, self._lock, ids, durable=self._durable)

    def vacuum(
        self, *, retention: timedelta = timedelta(hours=168), dry_run: bool = False
    ) -> upkeep.VacuumReport:
        """Remove files that no kept snapshot names, and every trace of deleted trajectories.

        Args:
            retention: unreferenced files younger than this stay; keep it above an hour while
                anybody writes.
            dry_run: only count.
        """
        head = self._head()
        deleted = head.deleted
        doomed = upkeep.blobs_of_deleted(head) if len(deleted) else {}
        removed = upkeep.holding(self._location, deleted) if len(deleted) and dry_run else []
        if len(deleted) and not dry_run:
            upkeep.compact(self._location, self._lock, durable=self._durable, forget_deletes=True)
            removed = upkeep.remove_deleted(self._location, deleted)
        broken = self._break_pins([] if dry_run else removed)
        removed += upkeep.remove_unreferenced(
            self._location,
            keep=sorted({p.snapshot for p in self.pins() if p.broken_by is None}),
            retention=retention,
            dry_run=dry_run,
        )
        for side in self._side.values():
            removed += side.vacuum(retention, dry_run=dry_run, forget=len(deleted) > 0)
        blobs = self._unused_blobs(retention, doomed)
        return upkeep.VacuumReport(
            files_removed=len(set(removed)),
            blobs_removed=len(blobs) if dry_run else self.blobs.remove(blobs),
            pins_broken=tuple(broken),
        )

    def _break_pins(self, removed: Sequence[str]) -> list[str]:
        gone = set(removed)
        broken = []
        for pin in self.pins() if gone else ():
            if gone & {f.path for f in Snapshot.load(self._location, pin.snapshot).files}:
                why = f"trajectories in snapshot {pin.snapshot} were deleted and vacuumed"
                self._pins.write(pin.name, pin.snapshot, broken_by=why)
                broken.append(pin.name)
        return broken

    def _unused_blobs(self, retention: timedelta, doomed: dict[str, datetime]) -> list[str]:
        """Blobs that no run names: old ones, and those of deleted runs not used since."""
        used = self.blobs.last_used()
        if not used:
            return []
        named = set(self.reader().blobs())
        before = datetime.now(UTC) - retention
        return sorted(
            name
            for name, at in used.items()
            if name not in named and (at <= before or at <= doomed.get(name, at - retention))
        )

    def verify(self, *, deep: bool = True, repair: bool = False) -> VerifyReport:
        """Check that the disk holds what the log says; see :mod:`trajstore.store.verify`."""
        return verify(self._location, self._lock, deep=deep, repair=repair)
