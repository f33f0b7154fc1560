from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.exports.files import JsonLines, Kind, Parquet, Staged, arrow_schema

COLUMNS: Mapping[str, Kind] = {
    "messages": "json-list",
    "trainable": "bool-list",
    "tools": "string",
    "reward": "double",
}


def _record(text: str, **changes: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}, {"role": "assistant", "tool_calls": [{"x": {}}]}]
    values = {"messages": messages, "trainable": [False, True], "tools": None, "reward": 0.1 + 0.2}
    return {**values, **changes}


def _written(path: Path, records: list[dict[str, Any]]) -> Path:
    writer = Parquet(path, COLUMNS)
    for record in records:
        writer.write(record)
    writer.close()
    return path


def _read(path: Path) -> list[dict[str, Any]]:
    rows = pq.read_table(path).to_pylist()
    return [{**r, "messages": [json.loads(m) for m in r["messages"]]} for r in rows]


def test_parquet_gives_back_the_records_without_added_keys(tmp_path: Path) -> None:
    records = [_record("a"), _record("é\x00\u2028", tools="[]", reward=None)]
    assert _read(_written(tmp_path / "f", records)) == records


def test_a_message_is_a_json_value_for_sql(tmp_path: Path) -> None:
    path = _written(tmp_path / "f.parquet", [_record("hi")])
    query = f"SELECT typeof(messages), messages[1]->>'content' FROM '{path}'"
    assert duckdb.execute(query).fetchall() == [("JSON[]", "hi")]


def test_the_schema_carries_the_features_of_datasets() -> None:
    schema = arrow_schema(COLUMNS)
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert list(features) == schema.names == list(COLUMNS)
    assert features["messages"] == {"feature": {"_type": "Json"}, "_type": "List"}
    assert schema.field("messages").type == pa.list_(pa.json_())


def test_rows_are_written_in_groups(tmp_path: Path) -> None:
    path = _written(tmp_path / "f", [_record(str(i)) for i in range(2_001)])
    file = pq.ParquetFile(path)
    groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert groups == [1_000, 1_000, 1]


def test_long_rows_are_written_in_smaller_groups(tmp_path: Path) -> None:
    path = _written(tmp_path / "f", [_record("x" * 9_000_000)] * 3)
    assert pq.ParquetFile(path).num_row_groups == 2


def test_an_empty_file_has_the_schema(tmp_path: Path) -> None:
    table = pq.read_table(_written(tmp_path / "f", []))
    assert (table.num_rows, table.column_names) == (0, list(COLUMNS))


def test_equal_records_give_equal_bytes(tmp_path: Path) -> None:
    records = [_record(str(i)) for i in range(1_500)]
    first, second = _written(tmp_path / "a", records), _written(tmp_path / "b", records)
    assert first.read_bytes() == second.read_bytes()


def test_json_lines_are_one_object_a_line() -> None:
    stream = io.StringIO()
    writer = JsonLines(stream)
    for text in ("a\nb", "é\u2028"):
        writer.write(_record(text))
    lines = stream.getvalue().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [_record("a\nb"), _record("é\u2028")]
    assert (lines[-1], writer.rows) == ("", 2)


@given(st.lists(st.text(st.characters(exclude_categories=())), max_size=4))
def test_any_text_can_be_written(texts: list[str]) -> None:
    stream = io.StringIO()
    writer = JsonLines(stream)
    for text in texts:
        writer.write({"t": text})
    lines = stream.getvalue().encode().split(b"\n")[:-1]
    assert [json.loads(line)["t"] for line in lines] == texts


def test_staged_files_appear_together_and_only_when_published(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "set"
    with Staged(folder) as staged:
        staged.write_text("a", "1")
        staged.write_text("b", "2")
        assert [p.name for p in folder.glob("[!.]*")] == []
        staged.publish()
    assert {p.name: p.read_text() for p in folder.iterdir()} == {"a": "1", "b": "2"}


def test_without_publishing_nothing_is_left(tmp_path: Path) -> None:
    def interrupted() -> None:
        with Staged(tmp_path / "set") as staged:
            staged.write_text("a", "1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_without_publishing_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with Staged(tmp_path) as staged:
        staged.write_text("a", "new")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old"}


def test_a_file_is_described_by_its_size_and_hash(tmp_path: Path) -> None:
    with Staged(tmp_path) as staged:
        staged.write_text("a", "é")
        file = staged.described("a", 7)
    assert (file.name, file.rows, file.bytes) == ("a", 7, 2)
    assert file.sha256 == hashlib.sha256("é".encode()).hexdigest()


def test_published_files_can_be_read_by_others(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with Staged(tmp_path) as staged:
        staged.write_text("a", "")
        staged.publish()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
