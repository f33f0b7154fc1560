"""A snapshot: which files hold the rows, and which revisions are dead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from trajstore.errors import SnapshotError, StoreError, StoreFormatError, StoreNotFoundError
from trajstore.schema import check_version
from trajstore.store.layout import FLAT, Location

_HONOURED = {"appendOnly", "invariants", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
DELETED = "deleted"
REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a snapshot."""

    path: str
    """Path relative to the Delta table."""
    record: str | None
    """Its partition."""
    rows: int
    """Number of rows."""
    size_bytes: int
    """Size on disk."""
    low: str | None
    """Smallest trajectory_id in it."""
    high: str | None
    """Largest trajectory_id in it."""

    @property
    def is_flat(self) -> bool:
        """Whether a file of steps has the flat columns, which format version 1 has not."""
        return self.path.rsplit("/", 1)[-1].startswith(FLAT)


class Snapshot:
    """One version of a Delta table: an immutable list of files."""

    def __init__(self, location: Location, table: DeltaTable, files: tuple[DataFile, ...]) -> None:
        """Keep the list of files; nothing is read."""
        self.location = location
        self.table = table
        self.version = int(table.version())
        self.files = files

    @classmethod
    def load(cls, location: Location, version: int | None = None) -> Snapshot:
        """Read the newest snapshot, or the one with that number, from the log.

        Raises:
            StoreNotFoundError: there is no table.
            SnapshotError: there is no such version.
            StoreFormatError: the table has features or a format version that we do not read.
        """
        return cls.of(open_table(location, version), location)

    @classmethod
    def of(cls, table: DeltaTable, location: Location) -> Snapshot:
        """The snapshot that an open Delta table stands at."""
        actions = pa.table(table.get_add_actions(flatten=True))
        names = set(actions.column_names)

        def column(name: str) -> list[object]:
            return actions.column(name).to_pylist() if name in names else [None] * len(actions)

        files = tuple(
            DataFile(*row)
            for row in zip(
                column("path"),
                column("partition.record"),
                column("num_records"),
                column("size_bytes"),
                column("min.trajectory_id"),
                column("max.trajectory_id"),
                strict=True,
            )
        )
        return cls(location, table, tuple(sorted(files, key=lambda f: f.path)))

    def of_record(self, record: str) -> tuple[DataFile, ...]:
        """Files of one partition."""
        return tuple(f for f in self.files if f.record == record)

    def paths(self, files: Iterable[DataFile]) -> list[str]:
        """Full paths of files."""
        return [self.location.path(f.path) for f in files]

    @cached_property
    def tombstones(self) -> pa.Table:
        """Dead revisions: columns ``revision``, ``name`` (why) and ``created_at``."""
        names = ["revision", "name", "created_at"]
        return read_files(self.location, self.of_record("tombstone"), names)

    @property
    def dead(self) -> pa.Array:
        """Dead revisions as one array of int64."""
        return self.tombstones.column("revision").combine_chunks()

    @property
    def deleted(self) -> pa.Array:
        """Revisions that are dead because somebody deleted them."""
        rows = self.tombstones.filter(pc.equal(self.tombstones.column("name"), DELETED))
        return rows.column("revision").combine_chunks()


def read_files(location: Location, files: Iterable[DataFile], columns: list[str]) -> pa.Table:
    """The rows of files, whole, with only the named columns, as far as a file has them."""
    filesystem = location.filesystem()
    tables = []
    for file in files:
        with filesystem.open_input_file(file.path) as source:
            tables.append(pq.ParquetFile(source).read(columns))
    if not tables:
        return pa.table(
            {c: pa.array([], pa.int64() if c == "revision" else pa.string()) for c in columns}
        )
    return pa.concat_tables(tables, promote_options="default")


def open_table(location: Location, version: int | None = None) -> DeltaTable:
    """Open a Delta table, refusing what we cannot read.

    Raises:
        StoreNotFoundError: there is no table.
        SnapshotError: there is no such version.
        StoreFormatError: a reader feature or format version that is not ours.
        StoreError: the log cannot be read.
    """
    try:
        table = DeltaTable(location.uri, version=version, storage_options=location.options())
    except TableNotFoundError as error:
        message = (
            f"There is no trajectory store at {location.uri.removesuffix('/trajectories')}. "
            "Make one with `trajstore import STORE PATH...` or trajstore.open(path)."
        )
        raise StoreNotFoundError(message, path=location.uri) from error
    except deltalake.exceptions.DeltaError as error:
        if version is not None:
            message = (
                f"Snapshot {version} does not exist in {location.uri}. "
                "`trajstore snapshots STORE` lists those that do."
            )
            raise SnapshotError(message, path=location.uri) from error
        message = (
            f"The log of {location.uri} cannot be read: {error}. Try `trajstore verify --repair`."
        )
        raise StoreError(message, path=location.uri) from error
    _refuse_unknown(table, location)
    return table


def _refuse_unknown(table: DeltaTable, location: Location) -> None:
    protocol = table.protocol()
    unknown = sorted(set(protocol.reader_features or ()) - _HONOURED)
    if unknown or protocol.min_reader_version > 3:
        message = (
            f"The table at {location.uri} uses Delta features that trajstore does not honour "
            f"({', '.join(unknown) or f'reader version {protocol.min_reader_version}'}); "
            "reading it would give wrong rows. Rewrite it without them."
        )
        raise StoreFormatError(message, path=location.uri)
    found = table.metadata().configuration.get("trajstore.format_version")
    if found is None or not found.isdigit():
        message = f"{location.uri} is a Delta table, but trajstore did not make it."
        raise StoreFormatError(message, path=location.uri)
    check_version(int(found), path=location.uri)
