from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.claude_code import IMPORTER
from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish, trajectory_id


def user(words: Any, session: str = "s", **fields: Any) -> dict[str, Any]:
    return {"type": "user", "sessionId": session, "message": {"content": words}} | fields


def agent(words: str, session: str = "s", **fields: Any) -> dict[str, Any]:
    message = {"content": [{"type": "text", "text": words}], "model": "m"}
    message |= fields.pop("message", {})
    return {"type": "assistant", "sessionId": session, "message": message} | fields


def task(call_id: str, prompt: str, **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": call_id, "name": "Task", "input": {"prompt": prompt}}
    return agent("", message={"content": [block], "id": call_id}, **fields)


def runs(tmp_path: Path, *records: Any, name: str = "x.jsonl") -> list[Trajectory]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return read(Source(path))


def read(source: Source) -> list[Trajectory]:
    items = list(IMPORTER.read(source, ImportOptions()))
    assert not [i for i in items if isinstance(i, Problem) and i.kind == "bad"]
    return [finish(i) for i in items if isinstance(i, Trajectory)]


def texts(run: Trajectory) -> list[str | None]:
    return [s.text for s in run.steps]


def test_inline_sidechains_are_trajectories_of_their_own(tmp_path: Path) -> None:
    """Two sub-agents at once, told apart by ``parentUuid``; an older file has no agent ids."""
    main, first, second = runs(
        tmp_path,
        user("go", uuid="u0"),
        task("t1", "one", uuid="u1"),
        task("t2", "two", uuid="u2"),
        user("one", isSidechain=True, uuid="a0", parentUuid=None),
        user("two", isSidechain=True, uuid="b0", parentUuid=None),
        agent("1st", isSidechain=True, uuid="a1", parentUuid="a0"),
        agent("2nd", isSidechain=True, uuid="b1", parentUuid="b0"),
    )
    assert (texts(first), texts(second)) == (["one", "1st"], ["two", "2nd"])
    assert [t.relation for t in (main, first, second)] == [None, "sub-agent", "sub-agent"]
    assert {first.parent_id, second.parent_id} == {main.trajectory_id}
    assert [first.parent_step, second.parent_step] == [1, 2]
    assert main.n_agent_steps == 2


def test_tokens_of_a_sub_agent_are_not_the_sessions(tmp_path: Path) -> None:
    usage = {"message": {"id": "m9", "usage": {"input_tokens": 5, "output_tokens": 7}}}
    main, side = runs(
        tmp_path,
        user("go"),
        task("t1", "one"),
        user("one", isSidechain=True, agentId="a"),
        agent("1st", isSidechain=True, agentId="a", **usage),
    )
    assert (main.completion_tokens, side.completion_tokens) == (None, 7)


def test_a_sidechain_record_whose_parent_was_never_written_stays_in_its_chain(
    tmp_path: Path,
) -> None:
    _, side = runs(
        tmp_path,
        user("go"),
        user("one", isSidechain=True, uuid="a0", parentUuid=None),
        agent("1st", isSidechain=True, uuid="a2", parentUuid="missing"),
    )
    assert texts(side) == ["one", "1st"]


def test_a_result_that_names_its_sub_agent_says_where_it_started(tmp_path: Path) -> None:
    block = {"type": "tool_result", "tool_use_id": "t2", "content": "done"}
    _, side = runs(
        tmp_path,
        user("go"),
        task("t1", "other"),
        task("t2", "other"),
        user("reworded", isSidechain=True, agentId="abc"),
        user([block], toolUseResult={"agentId": "abc", "totalTokens": 9}),
    )
    assert side.parent_step == 2


def group(folder: Path, notes: dict[str, Any]) -> Source:
    """A session ``p`` with two sub-agents, the second one started by the first."""
    runs(folder, user("go", "p"), task("t1", "x", sessionId="p"), name="p.jsonl")
    side = {"isSidechain": True}
    runs(folder, user("x", "p", agentId="a1", **side), name="p/subagents/agent-a1.jsonl")
    runs(folder, user("y", "p", agentId="a2", **side), name="p/subagents/agent-a2.jsonl")
    (folder / "p/subagents/agent-a2.meta.json").write_text(json.dumps(notes))
    (names,) = IMPORTER.claims(folder, frozenset({"p", "p.jsonl"}))
    return Source(folder, files=tuple(folder / n for n in names))


def test_sub_agent_files_hang_on_the_call_that_their_notes_name(tmp_path: Path) -> None:
    main, first, second = read(group(tmp_path, {"agentType": "Explore", "toolUseId": "t1"}))
    assert [t.task_id for t in (main, first, second)] == [
        "claude-code/p",
        "claude-code/p/a1",
        "claude-code/p/a2",
    ]
    assert (second.parent_id, second.parent_step) == (main.trajectory_id, 1)
    assert first.source_uri == (tmp_path / "p/subagents/agent-a1.jsonl").as_posix()


def test_a_sub_agent_of_a_sub_agent_has_that_one_as_parent(tmp_path: Path) -> None:
    _, first, second = read(group(tmp_path, {"agentType": "x", "parentAgentId": "a1"}))
    assert second.parent_id == first.trajectory_id


def test_a_sub_agent_read_alone_has_the_id_and_parent_it_has_in_the_group(tmp_path: Path) -> None:
    main, first, _ = read(group(tmp_path, {"agentType": "x"}))
    (alone,) = read(Source(tmp_path / "p/subagents/agent-a1.jsonl"))
    assert (alone.trajectory_id, alone.parent_id) == (first.trajectory_id, main.trajectory_id)


def test_history_of_a_resumed_session_is_copied_context(tmp_path: Path) -> None:
    """The new file opens with the old session's records under the old id."""
    old, new = runs(
        tmp_path,
        user("first", "old", uuid="u1"),
        agent("answer", "old", uuid="u2", message={"usage": {"output_tokens": 5}}),
        user("go on", "new", uuid="u3", parentUuid="u2"),
        agent("more", "new", uuid="u4", message={"usage": {"output_tokens": 7}}),
    )
    assert old.trajectory_id == trajectory_id("claude-code", "old")
    assert texts(new) == ["first", "answer", "go on", "more"]
    assert [s.is_copied for s in new.steps] == [True, True, False, False]
    assert (new.n_agent_steps, new.completion_tokens) == (1, 7)
    assert (new.parent_id, new.relation) == (old.trajectory_id, "continuation")
    assert [s.is_copied for s in old.steps] == [False, False]


def test_history_of_a_fork_is_copied_context(tmp_path: Path) -> None:
    origin = {"sessionId": "old", "messageUuid": "u1"}
    (run,) = runs(
        tmp_path,
        user("first", "new", uuid="u1", forkedFrom=origin),
        agent("answer", "new", uuid="u2", forkedFrom=origin, message={"id": "m1"}),
        user("go on", "new", uuid="u3"),
    )
    assert [s.is_copied for s in run.steps] == [True, True, False]
    assert (run.parent_id, run.relation) == (trajectory_id("claude-code", "old"), "branch")
    assert run.n_agent_steps == 0


def test_unrelated_sessions_in_one_file_share_nothing(tmp_path: Path) -> None:
    first, second = runs(tmp_path, user("a", "s1", uuid="u1"), user("b", "s2", parentUuid=None))
    assert (texts(first), texts(second)) == (["a"], ["b"])
    assert second.parent_id is None


def test_records_without_a_session_belong_to_the_one_at_hand(tmp_path: Path) -> None:
    (run,) = runs(
        tmp_path,
        {"type": "summary", "summary": "Title", "leafUuid": "u9"},
        user("hi"),
        {"type": "file-history-snapshot", "snapshot": {}},
    )
    notes = json.loads(run.metadata or "")
    assert notes["records"][0]["summary"] == "Title"
    assert notes["records_not_kept"] == {"file-history-snapshot": 1}


STREAM = (
    {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "tools": ["Bash"]},
    {"type": "assistant", "session_id": "s", "message": {"id": "m1", "content": [], "model": "m"}},
    {"type": "stream_event", "session_id": "s", "event": {}},
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": 1,
        "duration_ms": 2500,
        "total_cost_usd": 0.25,
        "usage": {"input_tokens": 3, "output_tokens": 4},
        "result": "Bye",
        "session_id": "s",
    },
)


def test_stream_json_says_how_the_run_ended(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, *STREAM)
    assert run.trajectory_id == trajectory_id("claude-code", "s")
    assert (run.status, run.termination_reason) == ("terminated", "success")
    assert (run.cost_usd, run.duration_s) == (0.25, 2.5)
    assert (run.prompt_tokens, run.completion_tokens) == (3, 4)
    assert run.success is None


def test_a_stream_kept_as_one_array_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(STREAM))
    assert IMPORTER.detect(Source(path)) == 0.9
    assert read(Source(path))[0].steps == runs(tmp_path, *STREAM)[0].steps


def test_a_closing_record_alone_has_its_one_known_step(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(STREAM[-1]))
    (run,) = read(Source(path))
    assert texts(run) == ["Bye"]
    assert (run.prompt_tokens, run.completion_tokens) == (3, 4)


@pytest.mark.parametrize(
    ("subtype", "failed", "status"),
    [
        ("success", True, "error"),
        ("error_max_turns", False, "truncated"),
        ("error_during_execution", False, "error"),
    ],
)
def test_a_stream_may_end_badly(tmp_path: Path, *, subtype: str, failed: bool, status: str) -> None:
    last = STREAM[-1] | {"subtype": subtype, "is_error": failed}
    (run,) = runs(tmp_path, *STREAM[:-1], last)
    assert (run.status, run.error) == (status, None if status == "truncated" else "Bye")


def test_sub_agents_of_a_stream_hang_on_the_call_that_started_them(tmp_path: Path) -> None:
    main, side = runs(
        tmp_path, task("t1", "x"), agent("inner", parent_tool_use_id="t1"), agent("outer")
    )
    assert (texts(main)[1], texts(side)) == ("outer", ["inner"])
    assert (side.parent_id, side.parent_step) == (main.trajectory_id, 0)


@pytest.mark.parametrize(
    ("reason", "status"), [("end_turn", "terminated"), ("max_tokens", "truncated"), (None, None)]
)
def test_a_session_ends_as_its_last_message_says(
    tmp_path: Path, reason: str | None, status: str | None
) -> None:
    (run,) = runs(tmp_path, user("hi"), agent("bye", message={"stop_reason": reason}))
    assert (run.status, run.termination_reason) == (status, reason)


def test_a_session_that_ends_in_an_api_error_says_so(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, user("hi"), agent("API Error: 529", isApiErrorMessage=True))
    assert (run.status, run.error) == ("error", "API Error: 529")


def test_a_session_in_which_the_user_spoke_last_has_no_known_end(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, agent("bye", message={"stop_reason": "end_turn"}), user("wait"))
    assert run.status is None


def test_a_session_lasts_from_its_first_to_its_last_record(tmp_path: Path) -> None:
    (run,) = runs(
        tmp_path,
        user("hi", timestamp="2026-01-01T00:00:10Z"),
        agent("bye", timestamp="2026-01-01T00:00:40.5Z"),
        user("early", timestamp="2026-01-01T00:00:00Z"),
    )
    assert run.duration_s == 40.5
    assert run.started_at is not None
    assert run.started_at.isoformat() == "2026-01-01T00:00:00+00:00"
