from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from trajstore import Pool, Trajectory
from trajstore.importers import read_jsonl_record, to_jsonl_record
from trajstore.pipeline.records import batch_of_records
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
    batch = batch_of_records(records)
    assert batch is not None
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
    ],
)
def test_what_is_not_plain_is_left_to_the_careful_reader(change: dict[str, Any]) -> None:
    batch = batch_of_records([{**RECORD, **change}])
    assert batch is None or _refused(batch)


def _refused(batch: Any) -> bool:
    from trajstore.errors import SchemaError

    with pytest.raises(SchemaError):
        batch.check()
    return True


def test_two_records_of_one_run_leave_the_longer_one(pool: Pool) -> None:
    longer = {**RECORD, "steps": RECORD["steps"] * 3}
    assert pool.append([RECORD, longer]).added == 1
    assert pool.sql("select n_steps from trajectories").fetchall() == [(3,)]


def test_raw_arguments_keep_the_order_of_keys(pool: Pool) -> None:
    pool.append([RECORD])
    rows = pool.sql("select arguments, arguments_raw from tool_calls").fetchall()
    assert rows == [('{"a":[2],"b":1}', '{"b":1,"a":[2]}')]
