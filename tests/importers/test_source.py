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


@pytest.mark.parametrize("end", ["", ",", ",\n  ", "\n"])
def test_an_array_cut_behind_a_whole_element_is_named(tmp_path: Path, end: str) -> None:
    first, cut = write(tmp_path, '[{"a": 1}' + end).elements()
    assert isinstance(first, Record)
    assert isinstance(cut, Problem)
    assert cut.record == "1"
    assert "ends before the ']'" in cut.reason


def test_text_behind_an_array_is_named(tmp_path: Path) -> None:
    first, rest = write(tmp_path, '[{"a": 1}]\n[{"a": 2}]\n').elements()
    assert isinstance(first, Record)
    assert isinstance(rest, Problem)
    assert "more text behind the end of the array" in rest.reason


@pytest.mark.parametrize("content", ["[]", "[1]", " [ 1 , 2 ] \r\n\t", "\ufeff[1]"])
def test_a_whole_array_has_no_problem(tmp_path: Path, content: str) -> None:
    assert all(isinstance(r, Record) for r in write(tmp_path, content).elements())


def test_bytes_that_are_no_utf_8_are_named_with_their_place(tmp_path: Path) -> None:
    before = '[{"text": "é"}, {"text": "q'.encode()
    good, bad = write(tmp_path, before + 'é"}, {"text": "x"}]'.encode("latin-1")).elements()
    assert isinstance(good, Record)
    assert good.value == {"text": "é"}
    assert isinstance(bad, Problem)
    assert bad.record == "1"
    assert f"byte {len(before)} of the file (0xe9) is not UTF-8" in bad.reason


def test_the_place_of_a_bad_byte_is_that_of_the_file_and_not_of_a_window(tmp_path: Path) -> None:
    before = ('["' + "é" * (1 << 20) + '", "').encode()
    good, bad = write(tmp_path, before + b'\xff"]').elements()
    assert isinstance(good, Record)
    assert isinstance(bad, Problem)
    assert f"byte {len(before)} " in bad.reason


def test_a_character_cut_at_the_end_is_named(tmp_path: Path) -> None:
    good, bad = write(tmp_path, b'[1, "2\xc3').elements()
    assert isinstance(good, Record)
    assert isinstance(bad, Problem)
    assert "(0xc3) is not UTF-8" in bad.reason


def test_a_first_line_nested_too_deep_costs_no_other(tmp_path: Path) -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    source = write(tmp_path, deep + '\n{"a": 1}\n')
    assert source.shape == "lines"
    found = list(source.records())
    assert [type(r) for r in found] == [Problem, Record]
    assert found[0].line == 1
