"""Conversions that remember what came before in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.importers.reading import jsonl
from trajstore.importers.items import Item, Problem
from trajstore.importers.record_by_record import converted
from trajstore.importers.rllm import IMPORTER
from trajstore.importers.source import Record, Source
from trajstore.schema import Label


def seen(path: Path) -> list[Item]:
    count = 0

    def convert(record: Record) -> Iterator[Item]:
        nonlocal count
        value = record.value["n"]
        if value < 0:
            raise ValueError("below zero")
        count += 1
        yield Label(trajectory_id="t", evaluator="e", value=float(value * count))
        if value == 9:
            raise TypeError("half way")

    return list(converted(IMPORTER, Source(path), convert))


def test_records_come_in_order_with_what_was_before(tmp_path: Path) -> None:
    found = seen(jsonl(tmp_path, {"n": 1}, {"n": 1}, {"n": 1}))
    assert [i.value for i in found if isinstance(i, Label)] == [1.0, 2.0, 3.0]


def test_bad_records_are_problems_with_line_and_reason(tmp_path: Path) -> None:
    found = seen(jsonl(tmp_path, {"n": 1}, {"n": -1}, {"m": 1}, "{", {"n": 2}))
    problems = [i for i in found if isinstance(i, Problem)]
    assert [(p.line, p.kind) for p in problems] == [(2, "bad"), (3, "bad"), (4, "bad")]
    assert problems[0].reason == "no rllm record: below zero"
    assert "field 'n' is missing" in problems[1].reason
    assert len(found) == 5


def test_record_that_fails_half_way_gives_nothing(tmp_path: Path) -> None:
    found = seen(jsonl(tmp_path, {"n": 9}))
    assert [type(i) for i in found] == [Problem]
