"""``trajstore export sft``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from trajstore_cli._exporting import as_flags

from tests.cli.conftest import Cli
from trajstore import Observation, Step, ToolCall, Trajectory
from trajstore import open as open_store
from trajstore.exports import REFUSALS

USER = Step(actor="user", text="go")
DONE = Step(actor="agent", text="done", reasoning="because")


def run(name: str, *steps: Step, success: bool | None = True) -> Trajectory:
    return Trajectory(trajectory_id=name, task_id=name, source="hand", steps=steps, success=success)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Runs of every kind that TRL cannot be told, and a plain one."""
    broken = Step(actor="agent", tool_calls=(ToolCall.of("f", "{broken"),))
    picture = Step(actor="user", text="see", content='[{"type":"image","data":"x"}]')
    event = Step(actor="environment", text="rain")
    folder = tmp_path / "odd-pool"
    open_store(folder, durable=False).append(
        [
            run("plain", USER, DONE),
            run("event", USER, event, DONE),
            run("arguments", USER, broken, DONE),
            run("media", picture, DONE),
            run("masked", USER, Step(actor="agent", text="?", format_error=True), DONE),
            run("nothing", USER),
            run("failed", USER, DONE, success=False),
            run("unknown", USER, DONE, success=None),
        ]
    )
    return folder


def rows(out: str) -> dict[str, dict[str, Any]]:
    return {r["trajectory_id"]: r for r in map(json.loads, out.splitlines())}


def test_the_airline_successes(cli: Cli, airline_pool: Path, tmp_path: Path) -> None:
    ran = cli("export", "sft", airline_pool, "--to", "trl", "-o", tmp_path / "sft")
    assert ran.code == 0
    assert pq.read_table(tmp_path / "sft" / "train.parquet").num_rows == 84
    assert ran.out == f"rows          84\ntrajectories  84\noutput        {tmp_path / 'sft'}\n"
    assert [line.split() for line in ran.err.splitlines()] == [
        ["success", "200", "->", "84", "failure", "116"],
        ["export", "sft", "84", "->", "84"],
    ]


def test_json_is_the_manifest(cli: Cli, airline_pool: Path, tmp_path: Path) -> None:
    ran = cli("export", "sft", airline_pool, "-o", tmp_path / "sft", "--json")
    assert json.loads(ran.out) == json.loads((tmp_path / "sft" / "manifest.json").read_text())
    assert ran.err == ""


def test_every_refusal_is_counted_and_explained_in_the_words_of_the_command_line(
    cli: Cli, odd: Path, tmp_path: Path
) -> None:
    err = cli("export", "sft", odd, "-o", tmp_path / "sft").err
    said = " ".join(err.split())
    assert "refused 1 as arguments: arguments of a call" in said
    assert "refused 1 as media" in said
    assert "refused 1 as nothing-to-train" in said
    assert "--arguments text keeps them" in said
    assert "--media mark writes their kind" in said
    assert "--layout prompt-completion can for TRL, the targets openai and axolotl can" in said
    assert "--masked-turns keep keeps the row" in said
    assert max(map(len, err.splitlines())) <= 100


def test_hints_of_all_refusals_are_options_that_exist(cli: Cli) -> None:
    help_text = cli("export", "sft", "--help").out
    words = " ".join(as_flags(text) for text in REFUSALS.values()).split()
    flags = {w for w in words if w.startswith("--")}
    assert flags == {"--layout", "--masked-turns", "--media", "--arguments"}
    assert all(flag in help_text for flag in flags)


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], ["event", "plain"]),
        (["--arguments", "text"], ["arguments", "event", "plain"]),
        (["--media", "mark"], ["event", "media", "plain"]),
        (["--masked-turns", "keep"], ["event", "masked", "plain"]),
        (["--layout", "prompt-completion"], ["event", "masked", "plain"]),
        (["--train-format-errors"], ["event", "masked", "plain"]),
        (["--include-failures"], ["event", "failed", "plain", "unknown"]),
        (["--where", "trajectory_id = 'plain' or n_steps > 99"], ["plain"]),
    ],
    ids=" ".join,
)
def test_options_say_which_runs_are_written(
    options: list[str], ids: list[str], cli: Cli, odd: Path
) -> None:
    ran = cli("export", "sft", odd, "-o", "-", *options)
    assert ran.code == 0
    assert sorted(rows(ran.out)) == ids


def test_options_say_what_a_row_holds(cli: Cli, odd: Path) -> None:
    plain = rows(cli("export", "sft", odd, "-o", "-").out)
    assert plain["plain"]["messages"][-1]["reasoning_content"] == "because"
    assert len(plain["event"]["messages"]) == 3
    options = ("--no-reasoning", "--environment", "drop", "--layout", "prompt-completion")
    split = rows(cli("export", "sft", odd, "-o", "-", *options).out)
    assert split["plain"]["completion"] == [{"role": "assistant", "content": "done"}]
    assert split["event"]["prompt"] == [{"role": "user", "content": "go"}]
    merged = rows(cli("export", "sft", odd, "-o", "-", "--consecutive", "merge").out)
    assert len(merged["event"]["messages"]) == 2


def test_arguments_as_text_are_what_the_model_wrote(cli: Cli, small_pool: Path) -> None:
    def arguments(*options: str) -> object:
        out = cli("export", "sft", small_pool, "-o", "-", *options).out
        return rows(out)["a1"]["messages"][1]["tool_calls"][0]["function"]["arguments"]

    assert arguments() == {"q": "x"}
    assert arguments("--arguments", "text") == '{"q":"x"}'


def test_rows_on_stdout_and_the_report_beside_them(cli: Cli, odd: Path) -> None:
    ran = cli("export", "sft", odd, "-o", "-")
    assert sorted(rows(ran.out)) == ["event", "plain"]
    assert "output        stdout" in ran.err
    assert "refused 1 as media" in ran.err


def test_the_json_report_too_goes_to_stderr_then(cli: Cli, odd: Path) -> None:
    ran = cli("export", "sft", odd, "-o", "-", "--json")
    assert sorted(rows(ran.out)) == ["event", "plain"]
    assert json.loads(ran.err)["rows"] == 2


def test_a_dry_run_counts_and_writes_nothing(cli: Cli, odd: Path, tmp_path: Path) -> None:
    ran = cli("export", "sft", odd, "-o", tmp_path / "sft", "--dry-run")
    assert ran.code == 0
    assert ran.out.startswith("rows            2\n")
    assert f"would write to  {tmp_path / 'sft'}" in ran.out
    assert "refused 1 as media" in ran.err
    assert not (tmp_path / "sft").exists()


def test_a_dry_run_to_stdout_prints_no_rows(cli: Cli, odd: Path) -> None:
    ran = cli("export", "sft", odd, "-o", "-", "--dry-run", "--json")
    assert json.loads(ran.out)["rows"] == 2


def test_nothing_to_write_is_said_and_fails_only_where_asked(
    cli: Cli, odd: Path, tmp_path: Path
) -> None:
    arguments = ("export", "sft", odd, "-o", tmp_path / "sft", "--where", "reward > 99")
    ran = cli(*arguments)
    assert ran.code == 0
    assert "no row is left" in ran.err
    assert cli(*arguments, "--fail-empty").code == 1
    assert cli("export", "sft", odd, "-o", tmp_path / "sft", "--fail-empty").code == 0


def test_an_older_snapshot(cli: Cli, odd: Path, tmp_path: Path) -> None:
    ran = cli("export", "sft", odd, "-o", tmp_path / "sft", "--at", "0", "--json")
    assert (json.loads(ran.out)["rows"], json.loads(ran.out)["snapshot"]) == (0, 0)


def test_jsonl_in_a_folder(cli: Cli, odd: Path, tmp_path: Path) -> None:
    cli("export", "sft", odd, "-o", tmp_path / "sft", "--format", "jsonl")
    assert sorted(rows((tmp_path / "sft" / "train.jsonl").read_text())) == ["event", "plain"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["-o", "-", "--format", "parquet"],
        ["-o", "rows.jsonl"],
        ["-o", "x", "--to", "nobody"],
        ["-o", "x", "--layout", "flat"],
        [],
    ],
)
def test_wrong_usage(wrong: list[str], cli: Cli, odd: Path) -> None:
    ran = cli("export", "sft", odd, *wrong)
    assert ran.code == 2
    assert ran.out == ""
    assert not Path("x").exists()


def test_a_folder_of_somebody_else_is_left_alone(cli: Cli, odd: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "train.parquet"
    theirs.write_text("mine")
    ran = cli("export", "sft", odd, "-o", tmp_path)
    assert ran.code == 1
    assert "another folder" in ran.err
    assert theirs.read_text() == "mine"


def test_a_condition_that_fails_makes_no_folder(cli: Cli, odd: Path, tmp_path: Path) -> None:
    ran = cli("export", "sft", odd, "-o", tmp_path / "sft", "--where", "nonsense = 1")
    assert ran.code == 1
    assert '"nonsense"' in ran.err
    assert not (tmp_path / "sft").exists()


def test_results_stay_with_their_calls(cli: Cli, tmp_path: Path) -> None:
    call = ToolCall.of("f", {"a": 1}, "c9")
    step = Step(
        actor="agent", tool_calls=(call,), observations=(Observation(text="r", call_id="c9"),)
    )
    folder = tmp_path / "pool"
    open_store(folder, durable=False).append(run("one", USER, step, DONE))
    messages = rows(cli("export", "sft", folder, "-o", "-").out)["one"]["messages"]
    assert [m.get("tool_call_id") for m in messages] == [None, None, "c9", None]
