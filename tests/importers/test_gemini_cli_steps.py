from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.building import StepBuilder
from trajstore.importers.gemini_cli_steps import add_message, tokens_of
from trajstore.schema import Step


def steps(*messages: dict[str, Any]) -> tuple[Step, ...]:
    builder = StepBuilder()
    for message in messages:
        add_message(builder, message)
    return builder.steps()


def gemini(content: Any = "", **fields: Any) -> dict[str, Any]:
    return {"id": "g", "type": "gemini", "content": content} | fields


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "u", "type": "user", "content": content} | fields


def call(call_id: str, response: Any = None, **fields: Any) -> dict[str, Any]:
    made = {"id": call_id, "name": "shell", "args": {"command": "ls"}} | fields
    if response is not None:
        part = {"functionResponse": {"id": call_id, "name": "shell", "response": response}}
        made["result"] = [part]
    return made


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (
            {"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 3, "total": 118},
            {"prompt_tokens": 103, "completion_tokens": 15, "cached_tokens": 40},
        ),
        (
            {"input": 100, "output": 10, "cached": 0, "total": 110},
            {"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 0},
        ),
        ({"input": 0, "output": 0, "cached": 0, "thoughts": 0, "tool": 0, "total": 0}, {}),
        (None, {}),
    ],
)
def test_prompt_and_completion_make_the_total(tokens: Any, expected: dict[str, int]) -> None:
    assert tokens_of(tokens) == expected


def test_parallel_calls_of_one_message_are_one_step() -> None:
    (step,) = steps(gemini("Both.", toolCalls=[call("a", {"output": "A"}), call("b")]))
    assert [c.call_id for c in step.tool_calls] == ["a", "b"]
    assert [(o.call_id, o.text) for o in step.observations] == [("a", "A")]
    assert step.text == "Both."


@pytest.mark.parametrize(
    ("response", "status", "text", "failed"),
    [
        ({"output": "fine"}, "success", "fine", False),
        ({"error": "ENOENT"}, "error", "ENOENT", True),
        ({"error": "not allowed"}, "cancelled", "not allowed", True),
        ({"output": "half"}, "cancelled", "half", None),
        ({"output": {"n": 1}}, "success", '{"n":1}', False),
        ({"other": 1}, None, '{"other":1}', None),
    ],
)
def test_a_result_failed_where_the_status_or_the_response_says_so(
    response: Any, status: str | None, text: str, *, failed: bool | None
) -> None:
    (step,) = steps(gemini(toolCalls=[call("a", response, status=status)]))
    assert (step.observations[0].text, step.observations[0].is_error) == (text, failed)


def test_media_in_a_result_stay_as_parts() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    made = call("a", {"output": "see"})
    made["result"].append(image)
    (step,) = steps(gemini(toolCalls=[made]))
    assert step.observations[0].text == "see"
    assert json.loads(step.observations[0].content or "") == [image]


@pytest.mark.parametrize("content", ["hello", [{"text": "hello"}], ["hello"], {"text": "hello"}])
def test_content_has_many_shapes(content: Any) -> None:
    (step,) = steps(user(content))
    assert (step.actor, step.text, step.content) == ("user", "hello", None)


def test_null_and_empty_text_stay_apart() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    found = steps(user(""), user([image]))
    assert [s.text for s in found] == ["", None]
    assert json.loads(found[1].content or "") == [image]


def test_thought_parts_are_reasoning_and_never_text() -> None:
    content = [{"text": "hm", "thought": True}, {"text": "So."}]
    (step,) = steps(gemini(content))
    assert (step.reasoning, step.text) == ("hm", "So.")


def test_thoughts_win_over_the_parts_that_repeat_them() -> None:
    thoughts = [{"subject": "Plan", "description": "look first"}, {"subject": "Act"}]
    (step,) = steps(gemini([{"text": "Plan", "thought": True}], thoughts=thoughts))
    assert step.reasoning == "Plan\nlook first\n\nAct"


def test_calls_and_results_that_stand_in_the_content_are_read_once() -> None:
    """A rewritten file may hold a call in the content and its result in a user message."""
    asked = [{"text": "I look."}, {"functionCall": {"id": "f", "name": "read", "args": {"p": 1}}}]
    result = {"functionResponse": {"id": "f", "name": "read", "response": {"output": "body"}}}
    (step,) = steps(gemini(asked), user([result]))
    assert [c.name for c in step.tool_calls] == ["read"]
    assert [o.text for o in step.observations] == ["body"]
    (both,) = steps(gemini(asked, toolCalls=[call("f")]))
    assert [c.name for c in both.tool_calls] == ["shell"]


def test_notes_of_the_cli_are_events() -> None:
    found = steps({"id": "i", "type": "info", "content": "Request cancelled."})
    assert (found[0].actor, found[0].text) == ("environment", "Request cancelled.")
    assert json.loads(found[0].metadata or "") == {"event": "info", "id": "i"}


def test_a_summary_of_a_compressed_context_is_an_event() -> None:
    (step,) = steps({"type": "compression", "content": "so far"})
    assert (step.actor, step.text) == ("environment", "so far")


def test_what_has_no_column_is_kept() -> None:
    made = call("a", {"output": "x"}, status="success")
    (step,) = steps(gemini(toolCalls=[made], tokens={"input": 1, "thoughts": 2}, extra="y"))
    assert json.loads(step.metadata or "") == {
        "id": "g",
        "extra": "y",
        "tokens": {"input": 1, "thoughts": 2},
        "tool_status": {"a": "success"},
    }
