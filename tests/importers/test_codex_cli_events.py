from __future__ import annotations

from typing import Any

import pytest

from trajstore.importers.codex_cli_events import ended_of, is_noise, said_of


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"type": "user_message", "message": "go"}, ("user", "go")),
        ({"type": "agent_message", "message": "done"}, ("agent", "done")),
        ({"type": "agent_reasoning", "text": "hm"}, ("reasoning", "hm")),
        ({"type": "context_compacted"}, ("compaction", "")),
        (
            {
                "type": "item_completed",
                "item": {"type": "UserMessage", "content": [{"text": "go"}]},
            },
            ("user", "go"),
        ),
        (
            {"type": "item_completed", "item": {"type": "Reasoning", "summary_text": ["a", "b"]}},
            ("reasoning", "a\nb"),
        ),
        ({"type": "item_completed", "item": {"type": "Plan", "text": "x"}}, None),
        ({"type": "token_count"}, None),
    ],
)
def test_whose_words_an_event_repeats(payload: dict[str, Any], expected: Any) -> None:
    assert said_of(payload) == expected


def end(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": "c"} | fields


@pytest.mark.parametrize(
    ("payload", "text", "failed"),
    [
        (end("exec_command_end", formatted_output="F", stdout="S", exit_code=0), "F", False),
        (end("exec_command_end", aggregated_output="A", exit_code=3), "A", True),
        (end("patch_apply_end", stdout="ok", success=True), "ok", False),
        (end("patch_apply_end", stdout="", success=False), "", True),
        (end("mcp_tool_call_end", result={"Err": "down"}), "down", True),
        (end("mcp_tool_call_end", result={"Ok": {"content": [{"text": "x"}]}}), "x", None),
        (end("web_search_end", results=[{"title": "T", "url": "U"}]), "T\nU", None),
        (end("web_search_end", query="q"), None, None),
    ],
)
def test_how_a_call_ended(
    payload: dict[str, Any], text: str | None, *, failed: bool | None
) -> None:
    ended = ended_of(payload)
    assert ended is not None
    observation = ended.observation()
    assert (observation.call_id, observation.text, observation.is_error) == ("c", text, failed)


def test_a_completed_screen_item_ends_the_call_of_its_id() -> None:
    item = {"type": "CommandExecution", "id": "c", "exit_code": 1, "aggregated_output": "boom"}
    ended = ended_of({"type": "item_completed", "item": item})
    assert ended is not None
    assert (ended.call_id, ended.text, ended.failed) == ("c", "boom", True)


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "exec_command_end"},
        {"type": "exec_command_begin", "call_id": "c"},
        {"type": "item_completed", "item": {"type": "AgentMessage", "id": "c"}},
    ],
)
def test_other_events_end_no_call(payload: dict[str, Any]) -> None:
    assert ended_of(payload) is None


def test_an_end_without_its_call_is_kept_as_a_record() -> None:
    ended = ended_of(end("exec_command_end", command=["ls"], exit_code=0, stdout="x"))
    assert ended is not None
    assert ended.record() == {
        "type": "exec_command_end",
        "call_id": "c",
        "text": "x",
        "exit_code": 0,
        "command": ["ls"],
    }


def test_what_only_draws_the_screen_is_noise() -> None:
    assert is_noise("agent_message_delta")
    assert is_noise("exec_command_begin")
    assert not is_noise("thread_name_updated")
