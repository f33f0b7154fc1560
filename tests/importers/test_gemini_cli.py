from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.gemini_cli import IMPORTER
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish, trajectories_to_arrow, trajectory_id

GROWING = "gemini_cli/growing_session/snapshot"
HEADER = {"sessionId": "s", "projectHash": "h", "startTime": "2026-05-01T10:00:00Z"}


def items(path: Path) -> list[Item]:
    return list(IMPORTER.read(Source(path), ImportOptions()))


def run_of(path: Path) -> Trajectory:
    (run,) = [finish(i) for i in items(path) if isinstance(i, Trajectory)]
    return run


def write(folder: Path, *records: Any, name: str = "session.jsonl") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def user(key: str, text: str = "go") -> dict[str, Any]:
    return {"id": key, "type": "user", "content": text}


@pytest.mark.parametrize(
    ("name", "messages", "agents", "calls", "total"),
    [
        ("gemini_cli/gemini-cli-trajectory.json", 2, 1, 0, 5939),
        (f"{GROWING}1.jsonl", 3, 2, 1, 24917),
        (f"{GROWING}2.jsonl", 8, 6, 4, 63668),
        (f"{GROWING}3.jsonl", 13, 11, 9, 133187),
        ("gemini_cli/write_file.jsonl", 4, 2, 1, 24329),
    ],
)
def test_recorded_sessions_have_the_counts_of_provenance(
    real_data: Path, name: str, messages: int, agents: int, calls: int, total: int
) -> None:
    run = run_of(real_data / name)
    assert (run.n_steps, run.n_agent_steps, run.n_tool_calls) == (messages, agents, calls)
    assert (run.prompt_tokens or 0) + (run.completion_tokens or 0) == total
    answers = [(c.call_id, o.call_id) for s in run.steps for c, o in zip_steps(s)]
    assert len(answers) == calls
    assert all(asked == answered for asked, answered in answers)


def zip_steps(step: Any) -> list[tuple[Any, Any]]:
    return list(zip(step.tool_calls, step.observations, strict=True))


def test_a_rewritten_session_is_one_trajectory_and_its_last_file_the_longest(
    real_data: Path,
) -> None:
    """Earlier messages were rewritten in place: the second file is no longer start of the third."""
    grown = [run_of(real_data / f"{GROWING}{n}.jsonl") for n in (1, 2, 3)]
    assert {run.trajectory_id for run in grown} == {
        trajectory_id("gemini-cli", "f7633853-6663-4dbb-bbf4-6159afa29df8")
    }
    sizes = [(run.n_agent_steps, run.n_steps, run.n_tool_calls, run.size_bytes) for run in grown]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3


def test_thoughts_are_reasoning(real_data: Path) -> None:
    path = real_data / "gemini_cli/write_file.jsonl"
    first = json.loads(path.read_text())["messages"][1]["thoughts"]
    step = run_of(path).steps[1]
    assert step.reasoning == "\n\n".join(f"{t['subject']}\n{t['description']}" for t in first)
    assert step.text == ""


def test_a_call_keeps_its_arguments_and_its_result_the_words_of_the_tool(real_data: Path) -> None:
    step = run_of(real_data / "gemini_cli/write_file.jsonl").steps[1]
    (call,), (observation,) = step.tool_calls, step.observations
    assert call.name == "write_file"
    assert call.arguments == '{"content":"hello, gemini","file_path":"test-gemini.txt"}'
    assert (observation.text or "").startswith("Successfully overwrote file: ")
    assert observation.is_error is False


def test_what_the_cli_says_for_the_user_is_not_the_users(real_data: Path) -> None:
    run = run_of(real_data / "gemini_cli/write_file.jsonl")
    assert [s.actor for s in run.steps] == ["user", "agent", "environment", "agent"]
    assert run.steps[2].text == "System: Please continue."
    assert run.goal == 'write to test-gemini.txt "hello, gemini" only'


def test_a_cancelled_call_has_unknown_tokens_and_not_zero(real_data: Path) -> None:
    path = real_data / f"{GROWING}3.jsonl"
    messages = [m for m in json.loads(path.read_text())["messages"] if m["type"] == "gemini"]
    silent = [m["tokens"]["total"] == 0 for m in messages]
    steps = [s for s in run_of(path).steps if s.actor == "agent"]
    assert [s.prompt_tokens is None for s in steps] == silent


def test_a_recorded_session_says_when_and_with_what(real_data: Path) -> None:
    run = run_of(real_data / "gemini_cli/gemini-cli-trajectory.json")
    assert (run.model, run.agent, run.success) == ("gemini-2.0-flash", "gemini-cli", None)
    assert run.duration_s == pytest.approx(1.857)
    assert json.loads(run.metadata or "")["projectHash"].startswith("f53b52ad")
    assert trajectories_to_arrow([run]).num_rows == 1


def test_the_new_line_form_is_read(real_data: Path) -> None:
    run = run_of(real_data / "other_cli_agents/gemini_jsonl_v040.jsonl")
    assert run.task_id == "gemini-cli/gemini_stage0_jsonl"
    assert [(s.actor, len(s.tool_calls)) for s in run.steps] == [
        ("user", 0),
        ("agent", 1),
        ("agent", 0),
    ]
    assert (run.prompt_tokens or 0) + (run.completion_tokens or 0) == 11936 + 12216
    assert json.loads(run.metadata or "")["lastUpdated"] == "2026-04-29T21:39:33.156Z"


def test_both_forms_of_one_session_are_one_trajectory(real_data: Path, tmp_path: Path) -> None:
    old = real_data / f"{GROWING}3.jsonl"
    whole = json.loads(old.read_text())
    messages = whole.pop("messages")
    new = write(tmp_path, whole, *messages)
    assert run_of(new).trajectory_id == run_of(old).trajectory_id
    assert run_of(new).steps == run_of(old).steps


def test_exactly_the_files_of_this_format_are_detected(real_data: Path) -> None:
    files = [p for p in real_data.rglob("*") if p.is_file()]
    found = {p for p in files if IMPORTER.detect(Source(p)) > 0}
    sessions = {p for p in files if p.is_relative_to(real_data / "gemini_cli")}
    expected = {p for p in sessions if not p.name.endswith(".metadata.json")}
    assert found == expected | {real_data / "other_cli_agents/gemini_jsonl_v040.jsonl"}


def test_detection_does_not_look_at_the_name(real_data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "noname"
    shutil.copyfile(real_data / f"{GROWING}1.jsonl", copy)
    assert IMPORTER.detect(Source(copy)) == 0.9


def test_lines_without_their_header_are_known_by_their_patches(tmp_path: Path) -> None:
    path = write(tmp_path, user("u1"), {"$set": {"lastUpdated": "2026-05-01T10:00:00Z"}})
    assert IMPORTER.detect(Source(path)) == 0.9
    assert run_of(path).trajectory_id == run_of(path).trajectory_id
    assert run_of(path).steps[0].text == "go"


def test_a_bad_record_is_named_and_costs_no_other(tmp_path: Path) -> None:
    path = write(
        tmp_path, HEADER, {"id": "x", "type": "mystery"}, user("u1"), 7, {"$rewindTo": "?"}
    )
    assert [i.line for i in items(path) if isinstance(i, Problem)] == [2, 4, 5]
    assert run_of(path).n_steps == 1


def test_a_session_in_which_nothing_was_said_is_ignored(tmp_path: Path) -> None:
    (item,) = items(write(tmp_path, HEADER))
    assert isinstance(item, Problem)
    assert item.kind == "ignored"


def test_a_sub_agents_file_names_its_parent_by_its_folder(tmp_path: Path) -> None:
    header = HEADER | {"kind": "subagent"}
    run = run_of(write(tmp_path, header, user("u1"), name="chats/parent-id/s.jsonl"))
    assert (run.parent_id, run.relation) == (trajectory_id("gemini-cli", "parent-id"), "sub-agent")
    assert run_of(write(tmp_path, header, user("u1"), name="chats/s.jsonl")).parent_id is None


def test_a_session_that_ends_with_an_error_says_so(tmp_path: Path) -> None:
    error = {"id": "e", "type": "error", "content": "quota"}
    info = {"id": "i", "type": "info", "content": "bye"}
    run = run_of(write(tmp_path, HEADER, user("u1"), error, info))
    assert (run.status, run.error) == ("error", "quota")
    assert run_of(write(tmp_path, HEADER, user("u1"), error, user("u2"))).status is None


def test_the_goal_is_what_was_typed(tmp_path: Path) -> None:
    context = user("u0", "<session_context>\nToday is")
    expanded = user("u1", "explain @a.py\n--- Content ---") | {"displayContent": "explain @a.py"}
    run = run_of(write(tmp_path, HEADER, context, expanded))
    assert run.goal == "explain @a.py"
    assert run.steps[1].text == "explain @a.py\n--- Content ---"
