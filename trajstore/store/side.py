"""Small tables beside the main one: skills, reflections, workflows, pins, settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from trajstore.schema import SCHEMAS, check
from trajstore.store.commit import Action, abandon, commit, create_table
from trajstore.store.layout import SIDE_KEYS, SIDE_SCHEMAS, Location
from trajstore.store.parts import write_parts
from trajstore.store.snapshot import Snapshot, read_files

_SEQUENCE = pa.field("sequence", pa.int64(), nullable=False)


class SideTable:
    """One small table; a later row with the same key takes the place of the earlier one."""

    def __init__(self, root: Location, lock: Path | None, name: str) -> None:
        """The table ``name`` of the store at ``root``; it is made with its first row."""
        self.name = name
        self.key = SIDE_KEYS[name]
        self.schema = SIDE_SCHEMAS[name]
        self._location = root.child(name)
        self._lock = lock

    def exists(self) -> bool:
        """Whether anything was ever written."""
        return DeltaTable.is_deltatable(
            self._location.uri, storage_options=self._location.options()
        )

    def read(self) -> pa.Table:
        """The newest row of each key, ordered by key; an empty table where there is none."""
        return self.rows() if self.exists() else self.schema.empty_table()

    def rows(self, snapshot: Snapshot | None = None) -> pa.Table:
        """The newest row of each key at a snapshot of this table."""
        at = snapshot or Snapshot.load(self._location)
        names = [_SEQUENCE.name, *self.schema.names]
        if not at.files:
            return self.schema.empty_table()
        rows = read_files(self._location, at.files, names)
        newest = rows.group_by(self.key).aggregate([("sequence", "max")])
        top = pa.table({self.key: newest.column(self.key), "top": newest.column("sequence_max")})
        joined = pc.index_in(rows.column(self.key), value_set=top.column(self.key).combine_chunks())
        latest = pc.equal(rows.column("sequence"), top.column("top").take(joined))
        return rows.filter(latest).select(self.schema.names).sort_by(self.key).cast(self.schema)

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
        if self.name in SCHEMAS:
            check(rows, self.name)
        if not rows.num_rows:
            return 0
        rows = self._once(rows)
        create_table(self._location, pa.schema([_SEQUENCE, *self.schema]))
        written: Sequence[Action] = []
        count = 0

        def prepare(head: Snapshot) -> Sequence[Action] | None:
            nonlocal written, count
            abandon(self._location, written)
            new = rows
            if keep_existing and head.files:
                there = self.rows(head).column(self.key).combine_chunks()
                known = pc.is_in(rows.column(self.key), value_set=there)
                new = rows.filter(pc.invert(known))
            count = new.num_rows
            numbers = pa.array([head.version + 1] * count, pa.int64())
            stored = pa.table([numbers, *new.columns], names=["sequence", *new.column_names])
            written = write_parts(self._location, [(None, stored)], durable=durable)
            return written

        try:
            commit(self._location, self._lock, prepare, operation="append", durable=durable)
        except BaseException:
            abandon(self._location, written)
            raise
        return count
