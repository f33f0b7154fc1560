"""Bring a table of an older format version to the present one, before the first write to it."""

from __future__ import annotations

import pyarrow as pa
from deltalake import Schema
from deltalake.exceptions import DeltaError

from trajstore.schema import SCHEMA_VERSION
from trajstore.store.layout import Location, delta_schema
from trajstore.store.snapshot import Snapshot

_VERSION = "trajstore.format_version"
_ATTEMPTS = 20


def newest_for_writing(location: Location) -> Snapshot:
    """The newest snapshot; a table of an older format version is brought to the present one first.

    Nothing is rewritten: its files stay as they are and readable, and ``compact`` turns them into
    files of the present form. Several processes may come at once.

    Raises:
        WriteError: as :func:`trajstore.store.commit.commit` does.
    """
    for attempt in range(_ATTEMPTS):
        snapshot = Snapshot.load(location)
        missing = _missing(snapshot)
        if missing is None:
            return snapshot
        try:
            _alter(snapshot, missing)
        except DeltaError:
            if attempt == _ATTEMPTS - 1:
                raise
    return Snapshot.load(location)


def _missing(snapshot: Snapshot) -> pa.Schema | None:
    """Columns that the table has yet to be told of; None where it is of the present version."""
    about = snapshot.table.metadata()
    present = about.configuration[_VERSION] == str(SCHEMA_VERSION)
    if about.partition_columns != ["record"]:
        return None
    there = {f.name for f in snapshot.table.schema().fields}
    missing = [f for f in delta_schema() if f.name not in there]
    return None if present and not missing else pa.schema(missing)


def _alter(snapshot: Snapshot, missing: pa.Schema) -> None:
    """The version first: from then on an older trajstore refuses the table."""
    properties = {_VERSION: str(SCHEMA_VERSION)}
    snapshot.table.alter.set_table_properties(properties, raise_if_not_exists=False)
    if len(missing):
        snapshot.table.alter.add_columns(list(Schema.from_arrow(missing).fields))
