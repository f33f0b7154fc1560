"""Rows of Parquet and Arrow files: nulls, bytes, nesting, flat memory, broken files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajstore.importers.items import Problem
from trajstore.importers.source import Record, Source
from trajstore.importers.table_rows import TableRows

Write = Callable[[pa.Table, Path], None]


def parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


def ipc_file(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def ipc_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


FORMS = pytest.mark.parametrize("write", [parquet, ipc_file, ipc_stream])


def rows(path: Path) -> list[Any]:
    return [r.value for r in TableRows(Source(path)).records() if isinstance(r, Record)]


@FORMS
def test_rows_come_in_order_with_their_number(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "table"
    write(pa.table({"n": list(range(3000))}), path)
    found = [r for r in TableRows(Source(path)).records() if isinstance(r, Record)]
    assert [(r.index, r.value["n"]) for r in found] == [(n, n) for n in range(3000)]


@FORMS
def test_padding_of_structs_never_appears(tmp_path: Path, write: Write) -> None:
    values = [
        [{"role": "user", "content": "x"}],
        [{"role": "assistant", "tool_calls": [{"arguments": {"a": 1}}, {"arguments": {"b": 2}}]}],
    ]
    path = tmp_path / "table"
    write(pa.table({"messages": values, "extra": [None, 1]}), path)
    assert rows(path) == [{"messages": values[0]}, {"messages": values[1], "extra": 1}]


@FORMS
def test_columns_are_listed_with_those_inside_structs(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "table"
    table = pa.table({"info": [{"score": {"x": 1.0}}], "messages": [[{"role": "user"}]]})
    write(table, path)
    assert TableRows(Source(path)).columns == ["info", "info.score", "info.score.x", "messages"]


def test_bytes_come_as_data_urls_and_maps_as_objects(tmp_path: Path) -> None:
    path = tmp_path / "table"
    kinds = pa.schema([("image", pa.binary()), ("marks", pa.map_(pa.string(), pa.float64()))])
    parquet(pa.table({"image": [b"GIF89"], "marks": [[("a", 1.0)]]}, schema=kinds), path)
    assert rows(path) == [{"image": "data:image/gif;base64,R0lGODk=", "marks": {"a": 1.0}}]


@FORMS
def test_a_table_without_rows_gives_none(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "table"
    write(pa.table({"messages": pa.array([], pa.string())}), path)
    source = TableRows(Source(path))
    assert (list(source.records()), source.sample, source.columns) == ([], [], ["messages"])


def test_the_sample_is_the_first_64_rows(tmp_path: Path) -> None:
    path = tmp_path / "table"
    parquet(pa.table({"n": list(range(100))}), path)
    assert [r["n"] for r in TableRows(Source(path)).sample] == list(range(64))


@FORMS
def test_a_cut_file_is_a_problem_with_its_reason(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "table"
    write(pa.table({"text": ["x" * 100 + str(n) for n in range(5000)]}), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    source = TableRows(Source(path))
    found = list(source.records())
    assert isinstance(found[-1], Problem)
    assert "cannot be read from row" in found[-1].reason
    assert source.columns in ([], ["text"])


def test_what_lies_before_a_cut_in_a_stream_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table"
    batches = [pa.record_batch({"text": [str(n) * 1000] * 10}) for n in range(4)]
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    path.write_bytes(path.read_bytes()[:-8000])
    found = list(TableRows(Source(path)).records())
    assert sum(isinstance(r, Record) for r in found) == 30
    assert isinstance(found[-1], Problem)
    assert found[-1].record == "30"


def test_a_compressed_stream_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table"
    ipc_stream(pa.table({"n": [1, 2]}), path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert rows(path) == [{"n": 1}, {"n": 2}]


@FORMS
def test_memory_stays_far_below_the_table(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "table"
    text = "x" * (1 << 18)
    write(pa.table({"text": [text] * 400}), path)
    before = pa.total_allocated_bytes()
    most = [pa.total_allocated_bytes() - before for _ in TableRows(Source(path)).records()]
    assert len(most) == 400
    assert max(most) < 48 << 20
