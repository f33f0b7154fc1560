"""Rows of Parquet and Arrow files as records, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trajstore.importers.items import Problem
from trajstore.importers.media_columns import data_url
from trajstore.importers.source import Record, Source

_SLICE_BYTES = 4 << 20
_MOST_ROWS = 128
_SAMPLE_ROWS = 64
_FAULTS = (pa.ArrowException, OSError, EOFError)


class TableRows(Source):
    """A Parquet file or an Arrow IPC file or stream, one record a row.

    Nulls are left out at every depth: a column of structs holds a null for each field that another
    row has, so a null says nothing. Bytes come as ``data:`` URLs. At most 128 rows are in memory
    at a time, fewer where they are large.
    """

    def __init__(self, source: Source) -> None:
        """Look at the same file."""
        super().__init__(source.path, uri=source.uri)

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns, those inside structs with dots; [] where the file is broken."""
        try:
            with self._stream() as stream:
                read = pq.read_schema if self.shape == "parquet" else self._schema
                return [path for field in read(stream) for path in _paths(field, "")]
        except _FAULTS:
            return []

    @cached_property
    def sample(self) -> list[Any]:
        """Up to 64 rows from the start; [] where the file is broken."""
        rows: list[Any] = []
        for record in self.records():
            if isinstance(record, Problem) or len(rows) == _SAMPLE_ROWS:
                break
            rows.append(record.value)
        return rows

    def records(self, *, array_is_one: bool = False) -> Iterator[Record | Problem]:
        """The rows in order; a fault in the file ends them with a problem."""
        del array_is_one
        index = 0
        try:
            for batch in self._slices():
                for row in batch.to_pylist(maps_as_pydicts="lossy"):
                    yield Record(_without_nulls(row), index)
                    index += 1
        except _FAULTS as error:
            reason = f"the {self.shape} file cannot be read from row {index} on: {error}"
            yield Problem(source=self.uri, reason=reason, record=str(index))

    def _slices(self) -> Iterator[pa.RecordBatch]:
        with self._stream() as stream:
            if self.shape == "parquet":
                file = pq.ParquetFile(stream, buffer_size=1 << 20, pre_buffer=False)
                yield from file.iter_batches(batch_size=_rows_a_slice(file.metadata))
                return
            for batch in _batches(self._ipc(stream)):
                step = _slice_rows(batch.nbytes, batch.num_rows)
                for at in range(0, batch.num_rows, step):
                    yield batch.slice(at, step)

    def _stream(self) -> Any:
        """The bytes: mapped into memory where the file is not compressed as a whole."""
        with self.path.open("rb") as raw:
            plain = raw.read(4) == self.head[:4]
        return pa.memory_map(str(self.path)) if plain else self.open()

    def _schema(self, stream: Any) -> pa.Schema:
        return self._ipc(stream).schema

    def _ipc(self, stream: Any) -> Any:
        """Reader of an IPC file or of a stream, as the first bytes say."""
        return (pa.ipc.open_file if self.head.startswith(b"ARROW1") else pa.ipc.open_stream)(stream)


def _batches(reader: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)
    else:
        yield from reader


def _rows_a_slice(metadata: pq.FileMetaData) -> int:
    groups = range(metadata.num_row_groups)
    size = max((metadata.row_group(i).total_byte_size for i in groups), default=0)
    rows = max((metadata.row_group(i).num_rows for i in groups), default=0)
    return _slice_rows(size, rows)


def _slice_rows(size: int, rows: int) -> int:
    """How many rows make 4 MiB, from 1 to 128."""
    if not rows or not size:
        return _MOST_ROWS
    return max(1, min(_MOST_ROWS, _SLICE_BYTES * rows // size))


def _paths(field: pa.Field, before: str) -> Iterator[str]:
    path = f"{before}{field.name}"
    yield path
    if pa.types.is_struct(field.type):
        for inner in field.type:
            yield from _paths(inner, f"{path}.")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return data_url(value) if isinstance(value, bytes) else value
