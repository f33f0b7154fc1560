"""Rows to Parquet and JSON lines: streamed, atomic, the same bytes for the same rows.

Messages are JSON values in one column and not Arrow structs. A struct gives every message every
key, so absent ones come back as null and leak into chat templates. In Parquet each message is one
value of the Arrow type ``arrow.json``, which ``datasets`` (4.7 or later) reads as its feature
``Json``; the features stand in the schema's metadata. JSON lines hold plain objects, and the
dataset card beside them names the same features. Both ways give back exactly the messages that
went in.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from trajstore.schema import json_text

Format = Literal["parquet", "jsonl"]
"""Kinds of files that can be written."""

Kind = Literal[
    "json-list",
    "json",
    "bool-list",
    "int-list",
    "double-list",
    "string",
    "double",
    "int",
    "bool",
    "said-list",
    "message-list",
    "reward-model",
    "extra-info",
]
"""Kinds of columns that a training set has. ``message-list`` holds messages as Arrow structs, for a
trainer that reads Parquet without ``datasets``: every message has every key. ``said-list`` holds
messages of role and content only; ``reward-model`` and ``extra-info`` are verl's."""

_CALL = pa.struct(
    [
        ("id", pa.string()),
        ("type", pa.string()),
        ("function", pa.struct([("name", pa.string()), ("arguments", pa.string())])),
    ]
)
_MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("reasoning_content", pa.string()),
        ("tool_calls", pa.list_(_CALL)),
        ("name", pa.string()),
        ("tool_call_id", pa.string()),
    ]
)

_EXTRA = pa.struct(
    [
        ("index", pa.int64()),
        ("split", pa.string()),
        ("need_tools_kwargs", pa.bool_()),
        ("tools", pa.string()),
        ("task_id", pa.string()),
        ("trajectory_id", pa.string()),
    ]
)

_ARROW: Mapping[Kind, pa.DataType] = {
    "json-list": pa.list_(pa.json_()),
    "json": pa.json_(),
    "bool-list": pa.list_(pa.bool_()),
    "int-list": pa.list_(pa.int32()),
    "double-list": pa.list_(pa.float64()),
    "string": pa.string(),
    "double": pa.float64(),
    "int": pa.int64(),
    "bool": pa.bool_(),
    "said-list": pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
    "message-list": pa.list_(_MESSAGE),
    "reward-model": pa.struct([("style", pa.string()), ("ground_truth", pa.string())]),
    "extra-info": _EXTRA,
}
_FEATURES: Mapping[Kind, Mapping[str, Any]] = {
    "json-list": {"feature": {"_type": "Json"}, "_type": "List"},
    "bool-list": {"feature": {"dtype": "bool", "_type": "Value"}, "_type": "List"},
    "json": {"_type": "Json"},
    "int-list": {"feature": {"dtype": "int32", "_type": "Value"}, "_type": "List"},
    "double-list": {"feature": {"dtype": "float64", "_type": "Value"}, "_type": "List"},
    "string": {"dtype": "string", "_type": "Value"},
    "double": {"dtype": "float64", "_type": "Value"},
    "int": {"dtype": "int64", "_type": "Value"},
    "bool": {"dtype": "bool", "_type": "Value"},
    "said-list": {
        "feature": {
            "role": {"dtype": "string", "_type": "Value"},
            "content": {"dtype": "string", "_type": "Value"},
        },
        "_type": "List",
    },
}


def arrow_schema(columns: Mapping[str, Kind]) -> pa.Schema:
    """The Arrow schema of a training set, with the features of ``datasets`` in its metadata.

    Columns whose Arrow type says everything need none, so a set with ``message-list`` has none.
    """
    schema = pa.schema([pa.field(name, _ARROW[kind]) for name, kind in columns.items()])
    if not set(columns.values()) <= _FEATURES.keys():
        return schema
    features = {"info": {"features": {name: _FEATURES[kind] for name, kind in columns.items()}}}
    return schema.with_metadata({"huggingface": json.dumps(features)})


class Writer(ABC):
    """Takes records one by one; knows how many."""

    rows = 0
    """Records taken so far."""

    @abstractmethod
    def write(self, record: Mapping[str, Any]) -> None:
        """Take one record, whose keys are the columns."""

    @abstractmethod
    def close(self) -> None:
        """Write out what is still held."""


class Counter(Writer):
    """Counts records and keeps none."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Count one record."""
        del record
        self.rows += 1

    def close(self) -> None:
        """Nothing is held."""


class JsonLines(Writer):
    """One object a line, to any text stream; the stream stays open."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one line."""
        self._stream.write(json_text(record) + "\n")
        self.rows += 1

    def close(self) -> None:
        """Flush the stream."""
        self._stream.flush()


class Parquet(Writer):
    """Row groups of at most 1,000 rows or about 16 MiB of text, zstd."""

    _ROWS = 1_000
    _CHARACTERS = 16 * 2**20

    def __init__(self, path: Path, columns: Mapping[str, Kind]) -> None:
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._held: dict[str, list[Any]] = {name: [] for name in columns}
        self._characters = 0

    def write(self, record: Mapping[str, Any]) -> None:
        """Hold one record, and write a row group when enough are held."""
        for name, kind in self._columns.items():
            value = record[name]
            if kind == "json-list":
                value = [json_text(item) for item in value]
                self._characters += sum(map(len, value))
            elif kind == "json":
                value = json_text(value)
                self._characters += len(value)
            elif kind in {"message-list", "said-list"}:
                self._characters += sum(len(json_text(m)) for m in value)
            elif kind in {"int-list", "double-list"}:
                self._characters += 4 * len(value)
            self._held[name].append(value)
        self.rows += 1
        full = len(next(iter(self._held.values()))) >= self._ROWS
        if full or self._characters >= self._CHARACTERS:
            self._write_held()

    def _write_held(self) -> None:
        arrays = [_array(self._held[f.name], f.type) for f in self._schema]
        self._file.write_table(pa.table(arrays, schema=self._schema))
        self._held = {name: [] for name in self._columns}
        self._characters = 0

    def close(self) -> None:
        """Write the last row group and the footer.

        A file of no rows has no row group: ``datasets`` cannot read an empty one.
        """
        if any(self._held.values()):
            self._write_held()
        self._file.close()


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if type_ == _ARROW["json-list"]:
        return pa.array(values, pa.list_(pa.string())).cast(type_)
    if type_ == _ARROW["json"]:
        return pa.array(values, pa.string()).cast(type_)
    return pa.array(values, type_)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file of an export."""

    name: str
    """Its name in the folder."""
    rows: int
    """Rows in it."""
    sha256: str
    """SHA-256 of its bytes, hexadecimal."""
    bytes: int
    """Its size."""


class Staged:
    """Files of one folder that appear together once all are complete.

    Each is written under a hidden temporary name. :meth:`publish` renames them in the order in
    which they were staged, so the one that describes the others should come last. A ``with`` block
    that ends without it, by an error or not, leaves the folder as it was.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder if it is not there."""
        self._folder = folder
        self._made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        self._token = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._names: list[str] = []

    def path(self, name: str) -> Path:
        """Where to write the file that will be called ``name``."""
        if name not in self._names:
            self._names.append(name)
        return self._folder / f".{name}.{self._token}.tmp"

    def described(self, name: str, rows: int) -> WrittenFile:
        """Size and hash of a file that is written and closed."""
        with self.path(name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = self.path(name).stat().st_size
        return WrittenFile(name=name, rows=rows, sha256=digest, bytes=size)

    def write_text(self, name: str, text: str) -> None:
        """Stage a small text file."""
        self.path(name).write_text(text, encoding="utf-8", newline="\n")

    def publish(self) -> None:
        """Sync every file to disk and give it its name."""
        for name in self._names:
            _sync(self.path(name))
        for name in self._names:
            self.path(name).replace(self._folder / name)
        _sync(self._folder)

    def __enter__(self) -> Self:
        """Start staging."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was not published and, if it was made here and is empty, the folder."""
        for name in self._names:
            self.path(name).unlink(missing_ok=True)
        if self._made and not any(self._folder.iterdir()):
            self._folder.rmdir()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
