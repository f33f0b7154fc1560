from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from trajstore.importers.items import Problem
from trajstore.importers.source import Record, Source


def write(folder: Path, content: str | bytes, name: str = "x.jsonl") -> Source:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Source(path)


@pytest.mark.parametrize(
    ("content", "shape"),
    [
        ('{"a": 1}\n{"a": 2}\n', "lines"),
        ('{\n  "a": 1\n}\n', "object"),
        ('[{"a": 1}]', "array"),
        ("hello\nworld\n", "text"),
        ("", "text"),
        ('broken\n{"a": 1}\n', "lines"),
        ('{"a": 1}{"a": 2}\n{"a": 3}\n', "lines"),
        ("\ufeff" + '{"a": 1}\n{"a": 2}', "lines"),
        (b"PK\x03\x04rest", "zip"),
        (b"PAR1rest", "parquet"),
        (b"a\x00b", "binary"),
    ],
)
def test_shape_is_seen_from_the_content(tmp_path: Path, content: str | bytes, shape: str) -> None:
    assert write(tmp_path, content).shape == shape


def test_a_bad_line_is_named_and_costs_no_other(tmp_path: Path) -> None:
    found = list(write(tmp_path, '{"a": 1}\n{"a": \n{"a": 3}\n').lines())
    assert [r.line for r in found] == [1, 2, 3]
    assert isinstance(found[1], Problem)
    assert "not JSON" in found[1].reason


def test_objects_glued_on_one_line_both_come(tmp_path: Path) -> None:
    found = list(write(tmp_path, '{"a": 1}{"a": 2}\n').lines())
    assert [r.value for r in found if isinstance(r, Record)] == [{"a": 1}, {"a": 2}]
    assert {r.line for r in found} == {1}


def test_an_array_comes_element_by_element(tmp_path: Path) -> None:
    values = [{"n": n, "text": "é" * 1000} for n in range(2000)]
    source = write(tmp_path, json.dumps(values, indent=1))
    found = [r.value for r in source.elements() if isinstance(r, Record)]
    assert found == values


def test_a_cut_array_gives_what_is_whole_and_names_the_rest(tmp_path: Path) -> None:
    found = list(write(tmp_path, '[{"a": 1}, {"a": 2}, {"a":').elements())
    assert [r.value for r in found[:2] if isinstance(r, Record)] == [{"a": 1}, {"a": 2}]
    assert isinstance(found[2], Problem)
    assert found[2].record == "2"


def test_numbers_at_a_window_border_are_not_cut(tmp_path: Path) -> None:
    values = list(range(10**6, 10**6 + 200_000))
    source = write(tmp_path, json.dumps(values))
    assert [r.value for r in source.elements() if isinstance(r, Record)] == values


def test_compressed_files_are_read_as_they_are(tmp_path: Path) -> None:
    source = write(tmp_path, gzip.compress(b'{"a": 1}\n{"a": 2}\n'), "x.jsonl.gz")
    assert source.shape == "lines"
    assert source.sample == [{"a": 1}, {"a": 2}]
