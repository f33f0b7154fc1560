from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.codex_cli_items import line_of
from trajstore.importers.codex_cli_rollout import Rollout
from trajstore.schema import Trajectory, finish, trajectory_id


def line(kind: str, payload: dict[str, Any], at: float = 0.0) -> dict[str, Any]:
    return {"type": kind, "timestamp": 1_767_225_600 + at, "payload": payload}


def meta(session: str = "s", at: float = 0.0, **fields: Any) -> dict[str, Any]:
    return line("session_meta", {"id": session} | fields, at)


def said(role: str, text: str, at: float = 0.0) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return line("response_item", {"type": "message", "role": role, "content": content}, at)


def item(kind: str, at: float = 0.0, **fields: Any) -> dict[str, Any]:
    return line("response_item", {"type": kind} | fields, at)


def event(kind: str, at: float = 0.0, **fields: Any) -> dict[str, Any]:
    return line("event_msg", {"type": kind} | fields, at)


def usage(fresh: int, output: int) -> dict[str, int]:
    return {"input_tokens": fresh, "output_tokens": output, "cached_input_tokens": 0}


def count(total: tuple[int, int], last: tuple[int, int], at: float = 0.0) -> dict[str, Any]:
    info = {"total_token_usage": usage(*total), "last_token_usage": usage(*last)}
    return event("token_count", at, info=info)


def call(call_id: str, at: float = 0.0) -> dict[str, Any]:
    return item("function_call", at, name="shell", arguments='{"x": 1}', call_id=call_id)


def output(call_id: str, value: Any = "out", at: float = 0.0) -> dict[str, Any]:
    return item("function_call_output", at, call_id=call_id, output=value)


def run_of(*records: dict[str, Any]) -> Trajectory:
    rollout = Rollout()
    for record in records:
        rollout.add(line_of(record))
    found = rollout.trajectory("file")
    assert found is not None
    return finish(found)


def shape(run: Trajectory) -> list[tuple[str, str | None, int]]:
    return [(s.actor, s.text, len(s.tool_calls)) for s in run.steps]


def test_parallel_calls_are_one_step_and_the_next_words_another() -> None:
    run = run_of(
        meta(),
        said("user", "go"),
        item("reasoning", summary=[{"text": "hm"}]),
        said("assistant", "I look."),
        call("a"),
        call("b"),
        output("b", "B"),
        output("a", "A"),
        said("assistant", "Done."),
    )
    assert shape(run) == [("user", "go", 0), ("agent", "I look.", 2), ("agent", "Done.", 0)]
    assert [(o.call_id, o.text) for o in run.steps[1].observations] == [("b", "B"), ("a", "A")]
    assert run.steps[1].reasoning == "hm"


def test_a_count_that_moved_ends_a_model_call() -> None:
    run = run_of(meta(), said("assistant", "one"), count((5, 2), (5, 2)), said("assistant", "two"))
    assert [s.text for s in run.steps] == ["one", "two"]
    assert [s.prompt_tokens for s in run.steps] == [5, None]


def test_a_count_said_again_counts_once() -> None:
    run = run_of(
        meta(),
        said("assistant", "one"),
        count((5, 2), (5, 2)),
        count((5, 2), (5, 2)),
        said("assistant", "two"),
        count((12, 5), (7, 3)),
        event("token_count", info=None),
    )
    assert [s.completion_tokens for s in run.steps] == [2, 3]
    assert (run.prompt_tokens, run.completion_tokens) == (12, 5)


def test_an_unanswered_call_and_a_lost_result_are_both_kept() -> None:
    run = run_of(meta(), call("a"), output("zzz", "lost"))
    assert [c.call_id for c in run.steps[0].tool_calls] == ["a"]
    assert [o.call_id for o in run.steps[0].observations] == ["zzz"]


def test_arguments_stay_as_the_model_wrote_them() -> None:
    patch = "*** Begin Patch\n*** End Patch"
    run = run_of(
        meta(),
        item("custom_tool_call", name="apply_patch", input=patch, call_id="a"),
        item("function_call", name="shell", arguments='{"b": 1, "a": [2]}', call_id="b"),
        item("local_shell_call", action={"type": "exec", "command": ["ls"]}, call_id="c"),
        item("web_search_call", action={"type": "search", "query": "q"}, id="ws"),
    )
    calls = run.steps[0].tool_calls
    assert [c.name for c in calls] == ["apply_patch", "shell", "local_shell", "web_search"]
    assert (calls[0].arguments, calls[0].arguments_raw) == (None, patch)
    assert (calls[1].arguments, calls[1].arguments_raw) == ('{"a":[2],"b":1}', '{"b": 1, "a": [2]}')
    assert calls[3].call_id == "ws"


def test_a_generated_image_is_the_result_of_its_call() -> None:
    run = run_of(
        meta(), item("image_generation_call", id="i", revised_prompt="a cat", result="QUJD")
    )
    (step,) = run.steps
    assert step.tool_calls[0].arguments == '{"revised_prompt":"a cat"}'
    assert "data:image/png;base64,QUJD" in (step.observations[0].content or "")
    assert "QUJD" not in (step.metadata or "")


@pytest.mark.parametrize(
    ("value", "failed"),
    [
        ("plain", None),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nfine", False),
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno such file", True),
        ("Chunk ID: ab\nProcess exited with code 1\nOutput:\nx", True),
        ("Output:\nExit code: 3", None),
        ('{"output": "x", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}', True),
        ('{"output": "x"}', None),
        ({"content": "x", "success": False}, True),
        ([{"type": "input_text", "text": "x"}], None),
    ],
)
def test_a_tool_failed_where_codex_counts_it_so(value: Any, *, failed: bool | None) -> None:
    run = run_of(meta(), call("a"), output("a", value))
    assert run.steps[0].observations[0].is_error is failed


def test_the_result_is_the_text_that_the_model_saw() -> None:
    wrapped = "Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno such file"
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "http://x"}]
    run = run_of(meta(), call("a"), call("b"), output("a", wrapped), output("b", parts))
    first, second = run.steps[0].observations
    assert (first.text, second.text) == (wrapped, "a")
    assert json.loads(second.content or "") == parts


def test_events_fill_in_what_no_item_says() -> None:
    """Some versions wrote events only."""
    run = run_of(
        meta(),
        event("user_message", message="go"),
        event("agent_reasoning", text="hm"),
        event("agent_message", message="done"),
        event("item_completed", item={"type": "AgentMessage", "content": [{"text": "done"}]}),
    )
    assert shape(run) == [("user", "go", 0), ("agent", None, 0), ("agent", "done", 0)]
    assert run.steps[1].reasoning == "hm"


def test_an_event_tells_how_a_call_ended() -> None:
    end = {"exit_code": 1, "aggregated_output": "boom", "duration": {"secs": 1, "nanos": 5e8}}
    run = run_of(
        meta(),
        call("a"),
        call("b"),
        event("exec_command_end", call_id="a", **end),
        event("exec_command_end", call_id="b", **end),
        event("exec_command_end", call_id="typed-by-the-user", **end),
        output("a", "as the model saw it"),
    )
    (step,) = run.steps
    assert [(o.call_id, o.text, o.is_error) for o in step.observations] == [
        ("a", "as the model saw it", True),
        ("b", "boom", True),
    ]
    assert json.loads(step.metadata or "")["tool_results"]["a"]["seconds"] == 1.5
    assert json.loads(run.metadata or "")["records"][0]["call_id"] == "typed-by-the-user"


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ({"Err": "down"}, True),
        ({"Ok": {"content": [{"type": "text", "text": "x"}], "isError": True}}, True),
        ({"Ok": {"content": [], "isError": False}}, False),
        ({"Ok": {"content": []}}, None),
    ],
)
def test_an_mcp_server_says_itself_whether_it_failed(result: Any, *, failed: bool | None) -> None:
    run = run_of(
        meta(), call("a"), output("a"), event("mcp_tool_call_end", call_id="a", result=result)
    )
    assert run.steps[0].observations[0].is_error is failed


@pytest.mark.parametrize(
    ("role", "text", "actor"),
    [
        ("user", "go", "user"),
        ("user", "<environment_context>\n<cwd>/</cwd>", "environment"),
        ("user", "# AGENTS.md instructions for /x", "environment"),
        ("user", "<user_instructions>be kind", "environment"),
        ("developer", "<permissions instructions>", "system"),
        ("system", "You are", "system"),
    ],
)
def test_who_speaks(role: str, text: str, actor: str) -> None:
    run = run_of(meta(), said(role, text), said("assistant", "ok"))
    assert run.steps[0].actor == actor


def test_the_goal_without_events_is_the_first_message_that_codex_did_not_write() -> None:
    run = run_of(meta(), said("user", "<environment_context>"), said("user", "go"))
    assert run.goal == "go"


def test_model_and_effort_are_those_of_the_turn() -> None:
    run = run_of(
        meta(),
        line("turn_context", {"turn_id": "1", "model": "small", "effort": "low"}),
        said("assistant", "one"),
        line("turn_context", {"turn_id": "2", "model": "large"}),
        count((1, 1), (1, 1)),
        said("assistant", "two"),
    )
    assert [s.model for s in run.steps] == ["small", "large"]
    assert [s.sampling for s in run.steps] == ['{"reasoning_effort":"low"}', None]
    assert len(json.loads(run.metadata or "")["turn_contexts"]) == 2


@pytest.mark.parametrize(
    ("records", "ending"),
    [
        ([event("task_complete")], ("terminated", "task_complete", None)),
        ([event("task_complete", error={"message": "no"})], ("error", "task_complete", "no")),
        ([event("turn_aborted", reason="interrupted")], ("truncated", "interrupted", None)),
        ([event("error", message="boom")], ("error", "error", "boom")),
        (
            [event("error", message="boom"), event("task_complete")],
            ("terminated", "task_complete", None),
        ),
        ([event("task_complete"), event("task_started")], (None, None, None)),
    ],
)
def test_a_session_ends_as_its_last_turn_does(records: list[Any], ending: Any) -> None:
    run = run_of(meta(), said("user", "go"), *records)
    assert (run.status, run.termination_reason, run.error) == ending


def test_compaction_is_said_once() -> None:
    run = run_of(
        meta(),
        said("user", "go"),
        line("compacted", {"message": "so far", "replacement_history": [1, 2]}),
        event("context_compacted"),
    )
    assert [(s.actor, s.text) for s in run.steps] == [("user", "go"), ("environment", "so far")]


def test_a_fork_marks_what_it_copied_and_leaves_its_tokens_out() -> None:
    """Copied history comes in one burst at the fork; the first pause ends it.

    Total at the fork 100 + 10, at the end 160 + 25: the fork's own tokens are 60 and 15.
    """
    run = run_of(
        meta("child", forked_from_id="parent", base_instructions={"text": "Be kind"}),
        meta("parent", at=0.001),
        said("user", "old question", 0.002),
        said("assistant", "old answer", 0.003),
        count((100, 10), (100, 10), 0.004),
        said("user", "new question", 9.0),
        said("assistant", "new answer", 12.0),
        count((160, 25), (60, 15), 12.1),
    )
    assert [s.is_copied for s in run.steps] == [False, True, True, False, False]
    assert (run.prompt_tokens, run.completion_tokens) == (60, 15)
    assert run.trajectory_id == trajectory_id("codex-cli", "child")
    assert (run.parent_id, run.relation) == (trajectory_id("codex-cli", "parent"), "branch")
    assert run.goal == "new question"
    assert run.n_agent_steps == 1


def test_the_first_words_after_a_copied_burst_are_a_step_of_their_own() -> None:
    run = run_of(
        meta("child", forked_from_id="p"),
        said("assistant", "old", 0.1),
        said("assistant", "new", 5.0),
    )
    assert [(s.text, s.is_copied) for s in run.steps] == [("old", True), ("new", False)]


def test_a_session_that_is_no_fork_copies_nothing() -> None:
    run = run_of(meta(), said("user", "go"), said("assistant", "at once"), count((5, 1), (5, 1)))
    assert not any(s.is_copied for s in run.steps)
    assert run.prompt_tokens == 5


def test_a_sub_agent_names_the_thread_that_spawned_it() -> None:
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}
    run = run_of(meta("child", source=spawn), said("user", "search"), said("assistant", "ok", 5.0))
    assert (run.parent_id, run.relation) == (trajectory_id("codex-cli", "p"), "sub-agent")
    assert not any(s.is_copied for s in run.steps)


def test_the_oldest_files_have_bare_lines() -> None:
    run = run_of(
        {"id": "s", "timestamp": "2025-08-18T01:16:13.522Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "a"},
        {"type": "function_call_output", "call_id": "a", "output": "out"},
    )
    assert shape(run) == [("user", "go", 0), ("agent", None, 1)]
    assert run.trajectory_id == trajectory_id("codex-cli", "s")
    assert run.started_at is not None
    assert run.started_at.year == 2025


def test_words_between_agents_are_an_event_and_unknown_lines_are_kept() -> None:
    run = run_of(
        meta(),
        said("user", "go"),
        item(
            "agent_message",
            author="/a",
            recipient="/b",
            content=[{"type": "input_text", "text": "hi"}],
        ),
        item("ghost_snapshot", ghost_commit={"id": "c"}),
        line("world_state", {"full": True}),
        event("agent_message_delta", delta="h"),
    )
    assert shape(run)[1] == ("environment", "hi", 0)
    notes = json.loads(run.metadata or "")
    assert [r["type"] for r in notes["records"]] == ["ghost_snapshot", "world_state"]
    assert notes["records_not_kept"] == {"agent_message_delta": 1}
