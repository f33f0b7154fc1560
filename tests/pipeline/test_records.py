from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trajstore import Pool, Trajectory
from trajstore.errors import SchemaError
from trajstore.importers import read_jsonl_record, to_jsonl_record
from trajstore.pipeline.records import UnplainError, batches_of_records
from trajstore.schema import finish, trajectories_from_arrow
from trajstore.testing import generate

RECORD: dict[str, Any] = {
    "trajectory_id": "a",
    "task_id": "t/1",
    "goal": "go",
    "steps": [{"actor": "agent", "tool_calls": [{"name": "f", "arguments": {"b": 1, "a": [2]}}]}],
}


def plain(runs: list[Trajectory]) -> list[dict[str, Any]]:
    """Records as people write them: JSON values, no raw arguments, no counts."""
    records = [to_jsonl_record(replace(r, imported_at=None)) for r in runs]
    for step in (s for r in records for s in r["steps"]):
        for call in step.get("tool_calls", ()):
            call.pop("arguments_raw", None)
    decoded: list[dict[str, Any]] = json.loads(json.dumps(records))
    return decoded


def test_the_quick_way_gives_what_the_careful_reader_gives() -> None:
    records = plain(list(generate(40, seed=3)))
    (batch,) = batches_of_records(records)
    quick = trajectories_from_arrow(batch.trajectories, batch.steps)
    careful = [finish(read_jsonl_record(r), state_keys=False, digest=False) for r in records]
    careful.sort(key=lambda r: r.trajectory_id)
    assert [replace(r, imported_at=None) for r in quick] == careful


@pytest.mark.parametrize(
    "change",
    [
        {"trajectory_id": None},
        {"steps": []},
        {"strange": 1},
        {"success": "yes"},
        {"started_at": "tomorrow"},
        {"steps": [{"actor": "agent", "strange": 1}]},
        {"steps": [{"text": "no actor"}]},
        {"steps": [{"actor": "robot"}]},
        {"steps": [{"actor": "agent", "tool_calls": [{"name": "f", "arguments_raw": "x"}]}]},
        {"steps": [{"actor": "agent", "observations": ["text"]}]},
        {"imported_at": "2026-01-01T00:00:00Z"},
        {"steps": [{"actor": "agent", "is_copied": "yes"}]},
        {"steps": [{"actor": "agent", "tool_calls": [{"name": None}]}]},
        {"steps": [{"actor": "agent", "text": "half a pair \ud83d"}]},
        {"steps": [{"actor": "agent", "timestamp": "2026-02-30T00:00:00Z"}]},
    ],
)
def test_what_is_not_plain_is_left_to_the_careful_reader(change: dict[str, Any]) -> None:
    with pytest.raises((UnplainError, SchemaError)):
        next(batches_of_records([{**RECORD, **change}])).check()


def test_two_records_of_one_run_leave_the_longer_one(pool: Pool) -> None:
    longer = {**RECORD, "steps": RECORD["steps"] * 3}
    assert pool.append([RECORD, longer]).added == 1
    assert pool.sql("select n_steps from trajectories").fetchall() == [(3,)]


def test_raw_arguments_keep_the_order_of_keys(pool: Pool) -> None:
    pool.append([RECORD])
    rows = pool.sql("select arguments, arguments_raw from tool_calls").fetchall()
    assert rows == [('{"a":[2],"b":1}', '{"b":1,"a":[2]}')]


def test_many_steps_come_in_parts_and_go_in_as_one_commit(pool: Pool) -> None:
    records = plain(list(generate(240, seed=5)))
    parts = list(batches_of_records(records))
    assert [len(p.trajectories) for p in parts] == [108, 84, 48]
    before = pool.snapshot()
    report = pool.append(records)
    assert (report.added, report.snapshot) == (240, before + 1)
    assert report.steps == sum(len(r["steps"]) for r in records)
    assert pool.append(records).already == 240


def test_a_fault_in_a_late_part_leaves_no_file_and_is_named(pool: Pool) -> None:
    records = plain(list(generate(240, seed=5)))
    last = max(records, key=lambda r: r["trajectory_id"])
    last["steps"][-1]["actor"] = "robot"
    place = records.index(last)
    with pytest.raises(SchemaError, match=rf"Record {place} .*{last['trajectory_id']}.*'robot'"):
        pool.append(records)
    assert pool.snapshot() == 0
    assert list(Path(pool.root.uri).rglob("*.parquet")) == []


@pytest.mark.parametrize(
    "time",
    ["2026-01-31T12:00:00", "2026-01-31 14:00:00+02:00", "2026-01-31T12:00:00.0000001Z", None],
)
def test_times_are_read_as_the_careful_reader_reads_them(time: str | None) -> None:
    (batch,) = batches_of_records([{**RECORD, "started_at": time}])
    careful = read_jsonl_record({**RECORD, "started_at": time})
    assert batch.trajectories.column("started_at").to_pylist() == [careful.started_at]
