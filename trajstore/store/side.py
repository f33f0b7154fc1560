"""Small tables beside the main one: what is learnt, its uses, pins, settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import RemoveAction

from trajstore.errors import WriteError
from trajstore.schema import SCHEMAS, check
from trajstore.store.commit import Action, abandon, commit_onto, create_table, newest
from trajstore.store.layout import SIDE_KEYS, SIDE_SCHEMAS, Location
from trajstore.store.parts import write_parts
from trajstore.store.snapshot import DataFile, Snapshot
from trajstore.store.upkeep import remove_retired, remove_unreferenced

_MOST_FILES = 50
"""So many files are joined into one by the write that finds them."""

_SEQUENCE = pa.field("sequence", pa.int64(), nullable=False)


def _removal(file: DataFile) -> RemoveAction:
    stamp = int(datetime.now(UTC).timestamp() * 1000)
    return RemoveAction(file.path, False, stamp, file.size_bytes, {})


class SideTable:
    """One small table; a later row with the same key takes the place of the earlier one."""

    def __init__(self, root: Location, lock: Path | None, name: str) -> None:
        """The table ``name`` of the store at ``root``; it is made with its first row."""
        self.name = name
        self.key = SIDE_KEYS[name]
        self.schema = SIDE_SCHEMAS[name]
        self._location = root.child(name)
        local = self._location.local
        self._log = None if local is None else local / "_delta_log"
        self._lock = lock
        self._empty = pa.Table.from_batches([], self.schema)  # empty_table() would load pandas
        self._known: tuple[Snapshot, pa.Table] | None = None
        self._made = False

    def exists(self) -> bool:
        """Whether anything was ever written."""
        if self._log is not None and not self._log.is_dir():
            return False
        return DeltaTable.is_deltatable(
            self._location.uri, storage_options=self._location.options()
        )

    def files(self) -> list[str]:
        """Paths of the files that hold the rows now."""
        return [f.path for f in Snapshot.load(self._location).files]

    def vacuum(self, retention: timedelta, *, dry_run: bool, forget: bool = False) -> list[str]:
        """Remove files that the table no longer names; see :func:`remove_unreferenced`.

        Args:
            retention: files younger than this stay.
            dry_run: only say which.
            forget: also younger ones, where a commit has taken them out of the table. Files that a
                writer is about to commit stay.
        """
        if not self.exists():
            return []
        gone = remove_retired(self._location, dry_run=dry_run) if forget else []
        gone += remove_unreferenced(self._location, keep=(), retention=retention, dry_run=dry_run)
        return [f"{self.name}/{path}" for path in dict.fromkeys(gone)]

    def read(self) -> pa.Table:
        """The newest row of each key, ordered by key; an empty table where there is none.

        The same object until something is written.
        """
        known = self._known
        if known is None and not self.exists():
            return self._empty
        head = newest(self._location, None if known is None else known[0])
        if known is None or head.version != known[0].version:
            known = (head, self.rows(head))
            self._known = known
        return known[1]

    def rows(self, snapshot: Snapshot | None = None) -> pa.Table:
        """The newest row of each key at a snapshot of this table."""
        at = snapshot or Snapshot.load(self._location)
        return self._newest(at).select(self.schema.names).cast(self.schema)

    def _newest(self, at: Snapshot) -> pa.Table:
        """The newest row of each key with its sequence, ordered by key.

        A column that came after a file was written is null in the rows of that file.
        """
        stored = pa.schema([_SEQUENCE, *self.schema])
        filesystem = at.location.filesystem()
        tables = [pq.read_table(f.path, filesystem=filesystem, partitioning=None) for f in at.files]
        empty = pa.schema([f.with_nullable(nullable=True) for f in stored]).empty_table()
        rows = pa.concat_tables([empty, *tables], promote_options="default").select(stored.names)
        newest_of = rows.group_by(self.key).aggregate([("sequence", "max")])
        keys = newest_of.column(self.key).combine_chunks()
        place = pc.index_in(rows.column(self.key), value_set=keys)
        latest = pc.equal(rows.column("sequence"), newest_of.column("sequence_max").take(place))
        return rows.filter(latest).sort_by(self.key)

    def _once(self, rows: pa.Table) -> pa.Table:
        numbered = rows.append_column("row", pa.array(range(len(rows)), pa.int64()))
        first = numbered.group_by(self.key).aggregate([("row", "min")]).column("row_min")
        return rows.take(first.sort())

    def append(self, rows: pa.Table, *, durable: bool, keep_existing: bool = False) -> int:
        """Add rows, and say how many were written.

        Args:
            rows: in the table's schema; of rows with one key the first one counts.
            durable: fsync.
            keep_existing: leave out rows whose key is there already (else they replace it).
        """
        if not rows.num_rows:
            self._check(rows)
            return 0
        rows = self._once(rows)

        def new(there: Callable[[], pa.Table]) -> pa.Table:
            if not keep_existing:
                return rows
            known = there().column(self.key).combine_chunks()
            return rows.filter(pc.invert(pc.is_in(rows.column(self.key), value_set=known)))

        return self._write(new, durable=durable)

    def update(self, decide: Callable[[pa.Table], pa.Table], *, durable: bool) -> int:
        """Look at the newest rows, decide what to write, and write it; say how many rows that is.

        Where another writer comes between, ``decide`` is asked again with what is there then, so
        whatever it concluded from the rows still holds when its own become visible.

        Args:
            decide: given the rows of :meth:`read`, the rows to add or to put in the place of those
                with the same key.
            durable: fsync.
        """
        return self._write(lambda there: self._once(decide(there())), durable=durable)

    def rewrite(self, decide: Callable[[pa.Table], pa.Table], *, durable: bool) -> int:
        """Write the table anew with the rows that are to stay, and say how many went.

        ``vacuum`` then removes the old files. Where another writer comes between, ``decide`` is
        asked again.

        Args:
            decide: given the rows of :meth:`read`, those that stay, changed or not.
            durable: fsync.
        """
        if not self.exists():
            return 0
        self._make()
        written: Sequence[Action] = []
        went = 0

        def prepare(head: Snapshot) -> Sequence[Action] | None:
            nonlocal written, went
            abandon(self._location, written)
            there = self._rows_at(head)
            rows = decide(there)
            if rows.equals(there):
                written, went = [], 0
                return None
            self._check(rows)
            went = there.num_rows - rows.num_rows
            numbers = pa.array([head.version + 1] * rows.num_rows, pa.int64())
            stored = pa.table([numbers, *rows.columns], names=["sequence", *rows.column_names])
            parts = [(None, stored)] if rows.num_rows else []
            written = write_parts(self._location, parts, durable=durable)
            return [*written, *(_removal(f) for f in head.files)]

        try:
            commit_onto(self._location, self._lock, prepare, operation="delete", durable=durable)
        except BaseException:
            abandon(self._location, written)
            raise
        return went

    def _check(self, rows: pa.Table) -> None:
        if self.name in SCHEMAS:
            check(rows, self.name)

    def _write(self, decide: Callable[[Callable[[], pa.Table]], pa.Table], *, durable: bool) -> int:
        self._make()
        written: Sequence[Action] = []
        rows = self._empty

        def prepare(head: Snapshot) -> Sequence[Action] | None:
            nonlocal written, rows
            abandon(self._location, written)
            rows = decide(lambda: self._rows_at(head))
            self._check(rows)
            numbers = pa.array([head.version + 1] * rows.num_rows, pa.int64())
            stored = pa.table([numbers, *rows.columns], names=["sequence", *rows.column_names])
            gone: list[Action] = []
            if rows.num_rows and len(head.files) >= _MOST_FILES:
                there = self._newest(head)
                stored = pa.concat_tables([there, stored.select(there.column_names)])
                gone = [_removal(f) for f in head.files]
            written = write_parts(self._location, [(None, stored)], durable=durable)
            return [*written, *gone]

        known = self._known
        try:
            landed = commit_onto(
                self._location,
                self._lock,
                prepare,
                operation="append",
                durable=durable,
                known=None if known is None else known[0],
            )
        except BaseException:
            abandon(self._location, written)
            raise
        self._remember(landed, rows)
        return int(rows.num_rows)

    def _rows_at(self, head: Snapshot) -> pa.Table:
        known = self._known
        if known is None or known[0].version != head.version:
            known = self._known = (head, self.rows(head))
        return known[1]

    def _remember(self, landed: Snapshot, rows: pa.Table) -> None:
        """Keep what the table holds now, as far as that follows from what was known before."""
        known = self._known
        if known is None or not rows.num_rows or known[0].version != landed.version - 1:
            return
        replaced = pc.is_in(known[1].column(self.key), value_set=rows.column(self.key))
        kept = known[1].filter(pc.invert(replaced))
        now = pa.concat_tables([kept, rows.select(kept.column_names)]).combine_chunks()
        self._known = (landed, now.sort_by(self.key).cast(self.schema))

    def _make(self) -> None:
        """Make the table, and add columns that came after it was made; once a process."""
        if self._made:
            return
        create_table(self._location, pa.schema([_SEQUENCE, *self.schema]))
        self._add_new_columns()
        self._made = True

    def _add_new_columns(self) -> None:
        """Tell the Delta table of columns that came after it was made."""
        table = DeltaTable(self._location.uri, storage_options=self._location.options())
        there = {f.name for f in table.schema().fields}
        missing = [f for f in self.schema if f.name not in there]
        if not missing:
            return
        nullable = pa.schema([f.with_nullable(nullable=True) for f in missing])
        try:
            table.alter.add_columns(list(Schema.from_arrow(nullable).fields))
        except DeltaError as error:
            again = DeltaTable(self._location.uri, storage_options=self._location.options())
            if not {f.name for f in missing} <= {f.name for f in again.schema().fields}:
                message = f"Cannot add columns to {self._location.uri}: {error}"
                raise WriteError(message, path=self._location.uri) from error


def new_versions(rows: pa.Table, there: pa.Table) -> pa.Table:
    """Skill versions that are not there yet, numbered on by name from those that are.

    Args:
        rows: skills in ``SKILL_SCHEMA``, ordered by version inside each name.
        there: the rows of the table.
    """
    known_ids = there.column("skill_id").combine_chunks()
    rows = rows.filter(pc.invert(pc.is_in(rows.column("skill_id"), value_set=known_ids)))
    if not rows.num_rows:
        return rows
    top: dict[str, int] = {}
    known = there.group_by("name").aggregate([("version", "max")])
    for name, version in zip(known.column("name"), known.column("version_max"), strict=True):
        top[name.as_py()] = version.as_py()
    numbers = []
    for name in rows.column("name"):
        top[name.as_py()] = top.get(name.as_py(), 0) + 1
        numbers.append(top[name.as_py()])
    place = rows.column_names.index("version")
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array(numbers, field.type))
