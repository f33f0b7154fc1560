"""``trajstore label``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Cli

ROWS = "trajectory_id,success,reward\na2,true,0.9\nlater,false,\n,true,\na1,maybe,\n"
OUTCOMES = (
    "select trajectory_id id, success, reward, outcome_evaluator judge from trajectories order by 1"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two good rows (one of a run that is not there), and two bad ones."""
    path = tmp_path / "verdicts.csv"
    path.write_text(ROWS)
    return path


def test_a_label_changes_the_outcome_that_counts(cli: Cli, small: Path, file: Path) -> None:
    assert cli("label", small, file, "--evaluator", "tests").code == 0
    rows = [json.loads(r) for r in cli("query", small, OUTCOMES, "--json").out.splitlines()]
    assert rows[1] == {"id": "a2", "success": True, "reward": 0.9, "judge": "tests"}
    assert [r["success"] for r in rows] == [True, True, None]


def test_the_report_and_what_was_wrong(cli: Cli, small: Path, file: Path) -> None:
    ran = cli("label", small, file, "--evaluator", "tests")
    assert ran.out == "labels    2\nalready   0\nunknown   1\nproblems  2\nsnapshot  2\n"
    assert ran.err.splitlines() == [
        f"bad: {file}:4: the row has no trajectory_id",
        f"bad: {file}:5: success must be true, false or empty, not 'maybe'",
        "no trajectory has the id later (yet); its label is kept",
    ]


def test_json_holds_all_of_it(cli: Cli, small: Path, file: Path) -> None:
    ran = cli("label", small, file, "--evaluator", "tests", "--json")
    report = json.loads(ran.out)
    assert (report["labels"], report["unknown"], len(report["problems"])) == (2, ["later"], 2)
    assert ran.err == ""


def test_the_same_file_again_adds_nothing(cli: Cli, small: Path, file: Path) -> None:
    cli("label", small, file, "--evaluator", "tests")
    ran = cli("label", small, file, "--evaluator", "tests", "--json")
    assert ran.code == 0
    assert (json.loads(ran.out)["labels"], json.loads(ran.out)["already"]) == (0, 2)


def test_strict_stores_nothing_of_a_file_with_a_bad_row(cli: Cli, small: Path, file: Path) -> None:
    ran = cli("label", small, file, "--evaluator", "tests", "--strict")
    assert ran.code == 1
    assert ran.err.startswith(f"error: {file}:4: ")
    assert json.loads(cli("info", small, "--json").out)["labels"] == 0


def test_no_row_that_can_be_read_is_bad_data(cli: Cli, small: Path) -> None:
    ran = cli("label", small, "-", "--evaluator", "e", stdin="trajectory_id,success\na1,maybe\n")
    assert ran.code == 1
    assert "not 'maybe'" in ran.err


@pytest.mark.parametrize(
    "rows",
    [
        "trajectory_id,success\na2,true\n",
        '{"trajectory_id": "a2", "success": true}\n{"trajectory_id": "a1", "success": true}\n',
        '[{"trajectory_id": "a2", "success": true}]',
    ],
    ids=["csv", "jsonl", "json"],
)
def test_dash_is_stdin_in_every_form(rows: str, cli: Cli, small: Path) -> None:
    assert cli("label", small, "-", "--evaluator", "tests", stdin=rows).code == 0
    second = cli("query", small, OUTCOMES, "--json").out.splitlines()[1]
    assert json.loads(second)["success"] is True


def test_rows_go_from_query_to_label(cli: Cli, small: Path) -> None:
    query = "select trajectory_id, n_tool_errors = 0 as success from trajectories"
    rows = cli("query", small, query, "--json").out
    assert cli("label", small, "-", "--evaluator", "no-errors", stdin=rows).code == 0
    labelled = [json.loads(r) for r in cli("query", small, OUTCOMES, "--json").out.splitlines()]
    assert [r["success"] for r in labelled] == [True, False, True]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"id,ok\n1,true\n", "no column 'trajectory_id'; its columns are id, ok"),
        (b"\x80\x81\x82\n", "not UTF-8"),
    ],
)
def test_a_file_of_another_kind_is_bad_data(
    content: bytes, said: str, cli: Cli, small: Path, tmp_path: Path
) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    ran = cli("label", small, path, "--evaluator", "tests")
    assert ran.code == 1
    assert said in ran.err


def test_a_step_that_is_not_there_is_said(cli: Cli, small: Path) -> None:
    rows = "trajectory_id,reward,step_index\na1,1,99\n"
    ran = cli("label", small, "-", "--evaluator", "e", stdin=rows)
    assert (ran.code, "missing_steps  1" in ran.out) == (0, True)
    assert ran.err.startswith("there is no step 99 of a1, which has ")


@pytest.mark.parametrize("wrong", [["nowhere.csv", "--evaluator", "e"], ["."], []])
def test_wrong_usage(wrong: list[str], cli: Cli, small: Path) -> None:
    assert cli("label", small, *wrong).code == 2


def test_a_hostile_id_cannot_steer_the_terminal(cli: Cli, small: Path) -> None:
    row = json.dumps({"trajectory_id": f"x{HOSTILE}", "success": True}) + "\n"
    err = cli("label", small, "-", "--evaluator", "e", stdin=row).err
    assert "x␛[2J" in err
    assert not set(err) & set("\x1b\x07\x9b\u202e\r")
