from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.store.workers import run
from trajstore import Pool
from trajstore.errors import RecordError, SchemaError
from trajstore.pipeline import label_from_file


@pytest.fixture
def two(pool: Pool) -> Pool:
    pool.append([run("a"), run("b")])
    return pool


def outcomes(pool: Pool) -> list[tuple[object, ...]]:
    columns = "trajectory_id, success, reward, outcome_evaluator"
    return pool.sql(f"select {columns} from trajectories order by 1").fetchall()


EXPECTED = [("a", True, 1.0, "tests"), ("b", False, 0.5, "tests")]


def test_csv(two: Pool, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("trajectory_id,success,reward\na,true,1\nb,no,0.5\n")
    assert label_from_file(two, path, evaluator="tests").labels == 2
    assert outcomes(two) == EXPECTED


def test_json_lines(two: Pool, tmp_path: Path) -> None:
    rows = [
        {"trajectory_id": "a", "success": True, "reward": 1},
        {"trajectory_id": "b", "success": False, "value": 0.5},
    ]
    path = tmp_path / "v.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    label_from_file(two, path, evaluator="tests")
    assert outcomes(two) == EXPECTED


def test_parquet(two: Pool, tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    columns = {"trajectory_id": ["a", "b"], "success": [True, False], "reward": [1.0, 0.5]}
    pq.write_table(pa.table(columns), path)
    label_from_file(two, path, evaluator="tests")
    assert outcomes(two) == EXPECTED


def test_the_same_file_twice_adds_nothing(two: Pool, tmp_path: Path) -> None:
    test_csv(two, tmp_path)
    again = label_from_file(two, tmp_path / "v.csv", evaluator="tests")
    assert (again.labels, again.already) == (0, 2)


def test_bad_rows_are_named_and_cost_no_other(two: Pool, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("trajectory_id,success,reward\na,maybe,\n,true,\nb,no,0.5\na,,\n")
    report = label_from_file(two, path, evaluator="tests")
    assert report.labels == 1
    assert [p.split(": ", 1)[0].rsplit(":", 1)[1] for p in report.problems] == ["2", "3", "5"]
    assert "must be true, false or empty, not 'maybe'" in report.problems[0]


def test_strict_stores_nothing_of_a_file_with_a_bad_row(two: Pool, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("trajectory_id,success\na,true\nb,maybe\n")
    with pytest.raises(RecordError, match=r"v.csv:3"):
        label_from_file(two, path, evaluator="tests", strict=True)
    assert two.sql("select count(*) from labels").fetchall() == [(0,)]


def test_a_file_without_ids_is_refused_with_its_columns(two: Pool, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("id,success\na,true\n")
    with pytest.raises(SchemaError, match="its columns are id, success"):
        label_from_file(two, path, evaluator="tests")


def test_a_label_that_comes_before_its_run_counts_once_the_run_is_there(
    two: Pool, tmp_path: Path
) -> None:
    path = tmp_path / "v.csv"
    path.write_text("trajectory_id,success\nlate,true\n")
    assert label_from_file(two, path, evaluator="tests").unknown == ["late"]
    two.append(run("late"))
    assert ("late", True, None, "tests") in outcomes(two)


def test_bad_json_lines_are_named_and_cost_no_other(two: Pool, tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text('{"trajectory_id":"a","success":true}\nbad\n[1]\n{"trajectory_id":"b",\n')
    report = label_from_file(two, path, evaluator="tests")
    assert report.labels == 1
    assert [p.split(": ")[0] for p in report.problems] == [f"{path}:{n}" for n in (2, 3, 4)]
    assert "not JSON" in report.problems[0]
    assert "each row must be a JSON object, not [1]" in report.problems[1]


def test_elements_before_the_cut_of_an_array_are_kept(two: Pool, tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text('[{"trajectory_id": "a", "success": true}, {"traj')
    report = label_from_file(two, path, evaluator="tests")
    assert (report.labels, len(report.problems)) == (1, 1)


def test_strict_stops_at_a_bad_json_line(two: Pool, tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text('{"trajectory_id":"a","success":true}\nbad\n')
    with pytest.raises(RecordError, match=r"v.jsonl:2: not JSON"):
        label_from_file(two, path, evaluator="tests", strict=True)
    assert two.sql("select count(*) from labels").fetchall() == [(0,)]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", '"nan"', "1e999"])
def test_a_value_that_is_no_finite_number_is_a_bad_row(
    value: str, two: Pool, tmp_path: Path
) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text(f'{{"trajectory_id": "a", "reward": {value}}}\n')
    report = label_from_file(two, path, evaluator="tests")
    assert report.labels == 0
    assert "v.jsonl:1: reward must be a finite number" in report.problems[0]


@pytest.mark.parametrize("step", ["-5", "1.5", "-0.5"])
def test_a_step_that_no_run_can_have_is_a_bad_row(step: str, two: Pool, tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text(f'{{"trajectory_id": "a", "reward": 1, "step_index": {step}}}\n')
    report = label_from_file(two, path, evaluator="tests")
    assert report.labels == 0
    assert f"step_index must be a whole number from 0 on, not {step}" in report.problems[0]


def test_a_step_that_the_run_does_not_have_is_said(two: Pool, tmp_path: Path) -> None:
    ((there,),) = two.sql("select n_steps from trajectories where trajectory_id = 'a'").fetchall()
    path = tmp_path / "v.csv"
    path.write_text(f"trajectory_id,reward,step_index\na,1,{there - 1}\na,1,{there}\nc,1,7\n")
    report = label_from_file(two, path, evaluator="tests")
    assert (report.labels, report.unknown) == (3, ["c"])
    assert [m.split(",")[0] for m in report.missing_steps] == [f"step {there} of a"]
