from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.codex_cli import IMPORTER
from trajstore.importers.codex_cli_items import is_line, is_whole, line_of
from trajstore.importers.codex_cli_stream import is_event
from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish, trajectory_id

STARTED = {"type": "thread.started", "thread_id": "s"}
COMPLETED = {"type": "turn.completed", "usage": {"input_tokens": 9, "output_tokens": 4}}


def item(kind: str, event: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{event}", "item": {"type": kind} | fields}


def command(call_id: str, event: str, **fields: Any) -> dict[str, Any]:
    return item("command_execution", event, id=call_id, command="ls", **fields)


def read(tmp_path: Path, *events: Any) -> tuple[Trajectory, list[Problem]]:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    found = list(IMPORTER.read(Source(path), ImportOptions()))
    (run,) = [finish(i) for i in found if isinstance(i, Trajectory)]
    return run, [i for i in found if isinstance(i, Problem)]


def test_a_stream_is_the_session_of_its_thread(tmp_path: Path) -> None:
    run, problems = read(
        tmp_path,
        STARTED,
        {"type": "turn.started"},
        item("reasoning", text="hm"),
        command("a", "started", status="in_progress"),
        command("a", "completed", aggregated_output="x.txt", exit_code=0, status="completed"),
        item("agent_message", text="One file."),
        COMPLETED,
    )
    assert problems == []
    assert run.trajectory_id == trajectory_id("codex-cli", "s")
    assert [(s.reasoning, s.text, len(s.tool_calls)) for s in run.steps] == [
        ("hm", None, 1),
        (None, "One file.", 0),
    ]
    assert (run.prompt_tokens, run.completion_tokens, run.status) == (9, 4, "terminated")


def test_calls_that_overlap_are_one_step(tmp_path: Path) -> None:
    run, _ = read(
        tmp_path,
        STARTED,
        command("a", "started"),
        command("b", "started"),
        command("a", "completed", aggregated_output="A", exit_code=0),
        command("b", "completed", aggregated_output="B", exit_code=1),
        command("c", "started"),
    )
    assert [[c.call_id for c in s.tool_calls] for s in run.steps] == [["a", "b"], ["c"]]
    assert [(o.text, o.is_error) for o in run.steps[0].observations] == [("A", False), ("B", True)]
    assert run.steps[1].observations == ()


@pytest.mark.parametrize(
    ("fields", "text", "failed"),
    [
        (
            {"result": {"content": [{"type": "text", "text": "r"}]}, "status": "completed"},
            "r",
            False,
        ),
        ({"error": {"message": "down"}, "status": "failed"}, "down", True),
        ({"result": None}, None, None),
    ],
)
def test_an_mcp_call_names_its_server_and_result(
    tmp_path: Path, fields: dict[str, Any], text: str | None, *, failed: bool | None
) -> None:
    call = {"id": "a", "server": "docs", "tool": "find", "arguments": {"q": 1}}
    run, _ = read(tmp_path, STARTED, item("mcp_tool_call", **call, **fields))
    (step,) = run.steps
    assert (step.tool_calls[0].name, step.tool_calls[0].arguments) == ("mcp__docs__find", '{"q":1}')
    assert (step.observations[0].text, step.observations[0].is_error) == (text, failed)


def test_a_plan_is_one_call_with_its_last_items(tmp_path: Path) -> None:
    run, _ = read(
        tmp_path,
        STARTED,
        item("todo_list", "started", id="p", items=[{"text": "a", "completed": False}]),
        item("todo_list", "completed", id="p", items=[{"text": "a", "completed": True}]),
    )
    (call,) = run.steps[0].tool_calls
    assert call.arguments == '{"items":[{"completed":true,"text":"a"}]}'


def test_a_failed_turn_ends_the_run_in_error(tmp_path: Path) -> None:
    run, _ = read(tmp_path, STARTED, {"type": "turn.failed", "error": {"message": "quota"}})
    assert (run.status, run.error) == ("error", "quota")
    assert [(s.actor, s.text) for s in run.steps] == [("environment", "quota")]


def test_the_highest_count_of_a_resumed_stream_holds(tmp_path: Path) -> None:
    more = {"type": "turn.completed", "usage": {"input_tokens": 30, "output_tokens": 5}}
    run, _ = read(tmp_path, STARTED, item("agent_message", text="a"), COMPLETED, more, COMPLETED)
    assert (run.prompt_tokens, run.completion_tokens) == (30, 5)


def test_an_event_of_another_kind_is_a_problem(tmp_path: Path) -> None:
    run, problems = read(tmp_path, STARTED, {"type": "zzz"}, item("agent_message", text="a"))
    assert [p.line for p in problems] == [2]
    assert run.n_steps == 1


def test_the_oldest_whole_form_reads_like_lines(tmp_path: Path) -> None:
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    path = tmp_path / "x.json"
    path.write_text(
        json.dumps({"session": {"id": "s", "timestamp": "2025-06-26"}, "items": [message]})
    )
    assert IMPORTER.detect(Source(path)) == 0.9
    (run,) = IMPORTER.read(Source(path), ImportOptions())
    assert isinstance(run, Trajectory)
    assert (run.goal, run.trajectory_id) == ("go", trajectory_id("codex-cli", "s"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (STARTED, True),
        (COMPLETED, True),
        (item("reasoning", text="x"), True),
        ({"type": "error", "message": "x"}, False),
        ({"type": "turn.completed", "payload": {}}, False),
        ({"type": "item.completed"}, False),
        ({"type": "message"}, False),
        (3, False),
    ],
)
def test_what_is_an_event_of_the_stream(value: Any, *, expected: bool) -> None:
    assert is_event(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "session_meta", "payload": {"id": "s"}, "timestamp": "t"}, True),
        ({"type": "event_msg", "payload": {"type": "x"}, "timestamp": "t"}, True),
        ({"record_type": "state"}, True),
        ({"id": "s", "timestamp": "t", "instructions": None}, True),
        ({"id": "s", "timestamp": "t", "instructions": None, "input": "x"}, False),
        ({"type": "event_msg", "timestamp": "t"}, False),
        ({"type": "message", "role": "user", "content": "x"}, False),
        ({"type": "other", "payload": {}, "timestamp": "t"}, False),
        ([1], False),
    ],
)
def test_what_is_a_line_of_a_rollout(value: Any, *, expected: bool) -> None:
    assert is_line(value) is expected


def test_what_is_no_line_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="without a payload"):
        line_of({"type": "event_msg"})
    with pytest.raises(ValueError, match="no line of a Codex rollout"):
        line_of({"x": 1})
    with pytest.raises(TypeError, match="not list"):
        line_of([])
    assert not is_whole({"session": {"id": "s"}})
