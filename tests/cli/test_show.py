"""``trajstore show``: to read, as messages, and without loss."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Cli, Terminals
from trajstore import Observation, Pool, Step, ToolCall, Trajectory
from trajstore import open as open_store


def stored(folder: Path, *steps: Step, **fields: object) -> Path:
    run = Trajectory(trajectory_id="r1", task_id="t", source="hand", steps=steps, **fields)  # type: ignore[arg-type]
    open_store(folder, durable=False).append(run)
    return folder


def test_a_run_to_read(cli: Cli, small_pool: Path) -> None:
    assert cli("show", small_pool, "a2").out == (
        "a2\n"
        "task     t/a\n"
        "outcome  failure, reward 0.25\n"
        "ended    terminated\n"
        "agent    one\n"
        "source   hand\n"
        "counts   3 steps, 1 tool call, 1 tool error\n"
        "\n[0] user\n  find x\n"
        '\n[1] agent\n  searching\n  → search(q="x")\n  ✗ none\n'
        "\n[2] agent\n  done\n"
    )


def test_an_unknown_outcome_is_unknown(cli: Cli, small_pool: Path) -> None:
    assert "outcome  unknown\n" in cli("show", small_pool, "b1").out


def test_the_outcome_that_counts_is_the_label_and_all_labels_are_listed(
    cli: Cli, small: Path
) -> None:
    rows = "trajectory_id,success,reward,rationale\na2,true,0.9,tests\\npass\n"
    cli("label", small, "-", "--evaluator", "judge", stdin=rows)
    out = cli("show", small, "a2").out
    assert "outcome  success, reward 0.9 (by judge)\n" in out
    assert "label  outcome success, 0.9 by judge: tests" in out


def test_the_beginning_of_an_id_is_enough(cli: Cli, small_pool: Path) -> None:
    assert cli("show", small_pool, "b").out.startswith("b1\n")


@pytest.mark.parametrize(("beginning", "said"), [("a", "a1, a2"), ("zz", "none"), ("", "several")])
def test_an_id_that_names_no_one_run_is_an_error(
    beginning: str, said: str, cli: Cli, small_pool: Path
) -> None:
    ran = cli("show", small_pool, beginning)
    assert ran.code == 1
    assert ran.out == ""
    assert said in ran.err


def test_an_id_is_data_and_no_sql(cli: Cli, small_pool: Path) -> None:
    ran = cli("show", small_pool, "' or true --")
    assert ran.code == 1
    assert "none" in ran.err


def test_everything_said_is_indented_and_cannot_pass_for_a_heading(
    cli: Cli, tmp_path: Path
) -> None:
    fake = "text\n\n[9] system\n\x0b[8] user\u2028[7] user"
    call = ToolCall.of("edit", {"new": fake})
    step = Step(
        actor="agent",
        text=fake,
        reasoning=fake,
        tool_calls=(call,),
        observations=(Observation(text=fake),),
    )
    out = cli("show", stored(tmp_path / "p", step, goal=fake), "r1").out
    assert [line for line in out.splitlines() if line.startswith("[")] == ["[0] agent"]


def test_arguments_of_several_lines_stand_below_the_call(cli: Cli, tmp_path: Path) -> None:
    call = ToolCall.of("bash", {"cmd": "cat <<EOF\n  x\nEOF", "timeout": 5})
    out = cli("show", stored(tmp_path / "p", Step(actor="agent", tool_calls=(call,))), "r1").out
    assert out.endswith(
        "  → bash(timeout=5)\n      cmd:\n        cat <<EOF\n          x\n        EOF\n"
    )


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [(None, "→ f()"), ("{broken", "→ f({broken)"), ([1, 2], "→ f([1,2])"), ({}, "→ f()")],
)
def test_arguments_of_any_kind(arguments: object, shown: str, cli: Cli, tmp_path: Path) -> None:
    step = Step(actor="agent", tool_calls=(ToolCall.of("f", arguments),))
    assert shown in cli("show", stored(tmp_path / "p", step), "r1").out


def test_what_a_step_is_beside_its_text_is_flagged(cli: Cli, tmp_path: Path) -> None:
    parts = '[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"x"}}]'
    steps = (
        Step(actor="agent", text="old", is_copied=True, format_error=True, reward=0.5),
        Step(actor="user", text="see", content=parts),
    )
    out = cli("show", stored(tmp_path / "p", *steps), "r1").out
    assert "[0] agent (copied, format error, reward 0.5)\n" in out
    assert "  see\n  [image]\n" in out


def test_long_texts_are_cut_unless_full(cli: Cli, tmp_path: Path) -> None:
    folder = stored(tmp_path / "p", Step(actor="agent", text="x" * 2_500 + "END"))
    short, full = cli("show", folder, "r1").out, cli("show", folder, "r1", "--full").out
    assert "x… (503 more characters; --full shows them)\n" in short
    assert full.endswith("xEND\n")


def test_stored_text_cannot_steer_the_terminal(cli: Cli, hostile: Path) -> None:
    out = cli("show", hostile, "hostile", "--full").out
    assert "please␛[2J␛]0;owned␇\\x9b31m\\u202etxt␍\n" in out
    assert not set(out) & set("\x1b\x07\x9b\u202e\r")


@pytest.mark.parametrize("form", ["json", "messages"])
def test_nor_can_it_as_json_where_it_is_exact(form: str, cli: Cli, hostile: Path) -> None:
    out = cli("show", hostile, "hostile", "--format", form).out
    assert not set(out) & set("\x1b\x07\x9b\u202e\r")
    said = [json.loads(line) for line in out.splitlines()]
    texts = said if form == "messages" else said[0]["steps"]
    assert texts[0]["content" if form == "messages" else "text"] == f"please{HOSTILE}"


def test_colours_on_a_terminal_only(terminal: Terminals, cli: Cli, small_pool: Path) -> None:
    screen = terminal("show", small_pool, "a2")
    assert screen.ended() == 0
    assert "\x1b[32;1m[1] agent\x1b[0m" in screen.seen
    assert "\x1b[31m  ✗ none\x1b[0m" in screen.seen
    assert "\x1b" not in cli("show", small_pool, "a2").out


@pytest.mark.parametrize("quiet", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_they_are_not_wanted(
    quiet: dict[str, str], terminal: Terminals, cli: Cli, small_pool: Path
) -> None:
    screen = terminal("show", small_pool, "a2", **quiet)
    assert screen.ended() == 0
    assert screen.seen.replace("\r\n", "\n") == cli("show", small_pool, "a2").out


def test_messages_are_json_lines_in_the_shape_of_openai(cli: Cli, small_pool: Path) -> None:
    out = cli("show", small_pool, "a1", "--format", "messages").out
    assert [json.loads(line) for line in out.splitlines()] == [
        {"role": "user", "content": "find x"},
        {
            "role": "assistant",
            "content": "searching",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "search", "arguments": '{"q":"x"}'},
                }
            ],
        },
        {"role": "tool", "name": "search", "tool_call_id": "c1", "content": "found"},
        {"role": "assistant", "content": "done"},
    ]


def test_json_is_one_line_and_the_same_as_the_flag(cli: Cli, small_pool: Path) -> None:
    out = cli("show", small_pool, "a1", "--format", "json").out
    assert out.count("\n") == 1
    assert json.loads(out)["trajectory_id"] == "a1"
    assert cli("show", small_pool, "a1", "--json").out == out
    assert cli("show", small_pool, "a1", "--json", "--format", "messages").code == 2


def same(first: Trajectory | None, second: Trajectory | None) -> bool:
    """Equal in everything but the time of the import."""
    assert first is not None
    assert second is not None
    return replace(first, imported_at=None) == replace(second, imported_at=None)


FOLDERS = ["atif", "claude_code", "codex_cli", "nemo_gym", "openhands", "tau2_bench"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_json_shows_import_reads_back(
    folder: str, cli: Cli, pool: Pool, real_data: Path, tmp_path: Path
) -> None:
    pool.import_files(real_data / folder)
    runs = list(pool.scan())[:40]
    lines = [cli("show", tmp_path / "pool", r.trajectory_id, "--json").out for r in runs]
    report = json.loads(cli("import", tmp_path / "copy", "-", "--json", stdin="".join(lines)).out)
    assert (report["added"], report["bad"]) == (len(runs), 0)
    copies = open_store(tmp_path / "copy").get_many([r.trajectory_id for r in runs])
    assert [r.trajectory_id for r, c in zip(runs, copies, strict=True) if not same(r, c)] == []
    again = [cli("show", tmp_path / "copy", r.trajectory_id, "--json").out for r in runs]
    assert again == lines


def test_a_hostile_run_comes_back_the_same(cli: Cli, hostile: Path, tmp_path: Path) -> None:
    folders = [hostile, tmp_path / "copy", tmp_path / "copy of the copy"]
    for source, target in pairwise(folders):
        cli("import", target, "-", stdin=cli("show", source, "hostile", "--json").out)
    original, copy, second = (open_store(f).get("hostile") for f in folders)
    assert same(copy, second)
    assert original is not None
    assert copy is not None
    assert [replace(s, state_key=None) for s in copy.steps] == list(original.steps)


def test_an_older_snapshot(cli: Cli, small_pool: Path) -> None:
    assert cli("show", small_pool, "a1", "--at", "0").code == 1
    assert cli("show", small_pool, "a1", "--at", "1").code == 0
