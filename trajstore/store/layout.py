"""Which table lives where, and how its files are written.

::

    STORE/
      trajectories/     one Delta table: trajectories, steps, labels and tombstones, partitioned by
                        ``record``, so that one commit covers a batch and one integer is a snapshot
      skills/ reflections/ workflows/ insights/ uses/ pins/ settings/
                        small Delta tables beside it
      blobs/            media by SHA-256
      .lock             advisory lock that local writers take around a commit (never needed to read)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs as pafs

from trajstore.errors import StoreError
from trajstore.schema import (
    INSIGHT_SCHEMA,
    LABEL_SCHEMA,
    REFLECTION_SCHEMA,
    SCHEMA_VERSION,
    SKILL_SCHEMA,
    STEP_SCHEMA,
    TRAJECTORY_SCHEMA,
    USE_SCHEMA,
    WORKFLOW_SCHEMA,
)
from trajstore.store.flat import FLAT_COLUMNS

RECORDS = ("trajectory", "step", "label", "tombstone")
"""Values of the partition column ``record``."""

REVISION = pa.field("revision", pa.int64(), nullable=False)
"""Random number that one version of a trajectory shares with its steps; a label has its own.

A tombstone names a revision, and its rows are then in no view: how a longer version replaces a
shorter one and how ``delete`` works at once, without rewriting files.
"""

_TOOL_NAMES = pa.field("tool_names", pa.list_(pa.string()))
_TOOL_ERRORS = pa.field("tool_errors", pa.list_(pa.bool_()))
_TOOL_RESULTS = pa.field("tool_results", pa.list_(pa.int32()))

STORED_SCHEMAS: dict[str, pa.Schema] = {
    "trajectory": pa.schema([REVISION, *TRAJECTORY_SCHEMA]),
    "step": pa.schema(
        [REVISION, *STEP_SCHEMA, *FLAT_COLUMNS, _TOOL_NAMES, _TOOL_ERRORS, _TOOL_RESULTS]
    ),
    "label": pa.schema([REVISION, *LABEL_SCHEMA]),
    "tombstone": pa.schema(
        [
            REVISION,
            pa.field("trajectory_id", pa.string()),
            pa.field("name", pa.string()),
            pa.field("created_at", pa.timestamp("us", tz="UTC")),
        ]
    ),
}
"""Columns on disk by record.

A step with at most one call and one result has them in :data:`~trajstore.store.flat.FLAT_COLUMNS`,
and null in the lists; another one has its lists. For those, ``tool_names`` and ``tool_errors``
repeat the name of each call and the flag of its result, so that a histogram over tools does not
read the arguments (a nested column is read whole); ``tool_results`` is the place of each call's
result among the observations, from 1.
"""

FLAT = "flat-"
"""Beginning of the name of a step file that has the flat columns: the log says which have them."""

SIDE_SCHEMAS: dict[str, pa.Schema] = {
    "skills": SKILL_SCHEMA,
    "reflections": REFLECTION_SCHEMA,
    "workflows": WORKFLOW_SCHEMA,
    "insights": INSIGHT_SCHEMA,
    "uses": USE_SCHEMA,
    "pins": pa.schema(
        [
            pa.field("name", pa.string(), nullable=False),
            pa.field("snapshot", pa.int64()),
            pa.field("broken_by", pa.string()),
            pa.field("created_at", pa.timestamp("us", tz="UTC")),
        ]
    ),
    "settings": pa.schema(
        [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]
    ),
}
"""Tables beside the main one, by name."""

SIDE_KEYS = {
    "skills": "skill_id",
    "reflections": "reflection_id",
    "workflows": "workflow_id",
    "insights": "version_id",
    "uses": "use_id",
    "pins": "name",
    "settings": "key",
}
"""Column whose newest row counts, by side table."""

TABLE_CONFIGURATION = {
    "delta.checkpointInterval": "10",
    "delta.dataSkippingStatsColumns": "trajectory_id,label_id",
    "delta.enableExpiredLogCleanup": "false",
    "trajstore.format_version": str(SCHEMA_VERSION),
}
"""Properties of the Delta table; old log entries are kept, since a pin needs them."""

_DICTIONARY_COLUMNS = {
    "task_id",
    "source",
    "environment",
    "environment_version",
    "agent",
    "model",
    "policy_version",
    "relation",
    "status",
    "termination_reason",
    "actor",
    "name",
    "evaluator",
    "evaluator_version",
    "tools",
    "shape",
    "tool_name",
    "tool_names.list.element",
    "tool_calls.list.element.name",
    "tags.list.element",
    "prompt_token_ids.list.element",
    "completion_token_ids.list.element",
}

_REPEATED_IN_STEPS = {"trajectory_id", "revision"}
"""Dictionary-encoded in steps, where a run's rows lie together; unique in other records."""

_SHORT_WORDS = {"actor", "agent", "model", "relation", "shape", "status", "tool_name"}
"""Columns whose dictionary is small: once encoded, zstd finds nothing more in them."""

_NO_STATISTICS = {
    "goal",
    "source_uri",
    "error",
    "tools",
    "metadata",
    "text",
    "reasoning",
    "content",
    "state",
    "sampling",
    "rationale",
    "arguments",
    "arguments_raw",
    "observation",
    "observation_content",
}
"""Text whose smallest and largest value helps no query, and costs memory to find in long text."""

PAGE_ROWS = 2048
"""Most rows a Parquet page: as many as DuckDB takes at a time."""

PAGE_BYTES = 32 << 10
"""Bytes at which a page ends: a lookup by id decodes whole pages, and text fills them early."""

ROW_GROUP_ROWS = 131_072
"""Rows a Parquet row group."""

_ROWS_A_LOOK = 16
"""Rows after which the encoder compares a page with ``PAGE_BYTES``."""


def parquet_options(rows: pa.Table) -> dict[str, object]:
    """Options for :class:`pyarrow.parquet.ParquetWriter`; every file of a store is written so.

    Numbers, flags and short words are packed by their encoding and not compressed on top: a page
    that zstd has to open costs more than the few bytes it saves. A column that holds only nulls has
    statistics that say so, and a lookup skips it.
    """
    schema = rows.schema
    paths = _leaf_paths(schema)
    steps = "actor" in schema.names
    repeated = _REPEATED_IN_STEPS if steps else set()
    dictionary = [p for p in paths if p in _DICTIONARY_COLUMNS | repeated]
    counted = [
        f.name for f in schema if _is_counted(f.type) and f.name not in {*dictionary, "revision"}
    ]
    plain = {*counted, "revision", *(f.name for f in schema if pa.types.is_boolean(f.type))}
    plain |= (_SHORT_WORDS | repeated) & set(schema.names)
    empty = {n for n in schema.names if rows.column(n).null_count == len(rows)}
    statistics = [
        p
        for p in paths
        if p.split(".", 1)[0] in empty or (p not in _NO_STATISTICS and "." not in p)
    ]
    return {
        "compression": {p: "NONE" if p in plain else "ZSTD" for p in paths},
        "compression_level": {p: 1 for p in paths if p not in plain},
        "use_dictionary": dictionary,
        "column_encoding": dict.fromkeys(counted, "DELTA_BINARY_PACKED"),
        "data_page_size": PAGE_BYTES,
        "max_rows_per_page": PAGE_ROWS,
        "write_batch_size": _ROWS_A_LOOK,
        "write_page_index": True,
        "write_statistics": statistics,
        "write_page_checksum": True,
        "store_schema": False,
    }


def _is_counted(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_timestamp(type_))


def _leaf_paths(schema: pa.Schema) -> list[str]:
    def walk(name: str, type_: pa.DataType) -> list[str]:
        if pa.types.is_map(type_):
            return [f"{name}.key_value.key", *walk(f"{name}.key_value.value", type_.item_type)]
        if pa.types.is_list(type_):
            return walk(f"{name}.list.element", type_.value_type)
        if pa.types.is_struct(type_):
            return [p for f in type_ for p in walk(f"{name}.{f.name}", f.type)]
        return [name]

    return [p for f in schema for p in walk(f.name, f.type)]


def delta_schema() -> pa.Schema:
    """Union of the stored columns, all nullable, with the partition column first."""
    fields: dict[str, pa.Field] = {"record": pa.field("record", pa.string())}
    for schema in STORED_SCHEMAS.values():
        for column in schema:
            fields.setdefault(column.name, column.with_nullable(nullable=True))
    return pa.schema(list(fields.values()))


@dataclass(frozen=True, slots=True)
class Location:
    """Where a store (or one table of it) is: a local folder or an object-store URI."""

    uri: str
    """Absolute path, or a URI such as ``s3://bucket/prefix``; no slash at the end."""
    storage_options: Mapping[str, str] = field(default_factory=dict)
    """Options of the object store, as deltalake takes them (``AWS_ENDPOINT_URL``, ...)."""

    @classmethod
    def of(cls, uri: str | Path, storage_options: Mapping[str, str] | None = None) -> Location:
        """Location of a path or URI.

        Raises:
            StoreError: the path holds a character that the table format cannot take.
        """
        text = str(uri)
        if text.startswith("file://"):
            text = text.removeprefix("file://")
        if "://" not in text:
            text = str(Path(text).expanduser().absolute())
            bad = sorted({c for c in text if c in "[]%?*\\"})
            if bad:
                shown = " ".join(bad)
                message = (
                    f"The store path {text!r} holds {shown!r}, which the table format cannot take. "
                    "Use another folder name."
                )
                raise StoreError(message, path=text)
        return cls(text.rstrip("/"), dict(storage_options or {}))

    @property
    def local(self) -> Path | None:
        """The local folder, or None for an object store."""
        return None if "://" in self.uri else Path(self.uri)

    def child(self, name: str) -> Location:
        """Location of ``name`` inside this one."""
        return Location(f"{self.uri}/{name}", self.storage_options)

    def path(self, relative: str) -> str:
        """Full path or URI of a file inside."""
        return f"{self.uri}/{relative}"

    def options(self) -> dict[str, str] | None:
        """Storage options as deltalake wants them."""
        return dict(self.storage_options) or None

    def filesystem(self) -> pafs.FileSystem:
        """An Arrow file system rooted at this location."""
        if self.local is not None:
            return pafs.SubTreeFileSystem(self.uri, pafs.LocalFileSystem())
        return pafs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options)))
