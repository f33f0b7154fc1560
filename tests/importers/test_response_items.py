"""Responses items: what one model call is, and that nothing of an item is lost."""

from __future__ import annotations

import json
from typing import Any

from trajstore.importers.building import StepBuilder
from trajstore.importers.response_items import response_steps, usage_fields
from trajstore.schema import Step


def steps(items: Any, *, one_call: bool = False) -> tuple[Step, ...]:
    return response_steps(items, StepBuilder(), one_call=one_call).steps()


def said(text: str, role: str = "assistant", **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **more}


def call(call_id: str, arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "name": "f",
        "call_id": call_id,
        "arguments": arguments,
        **more,
    }


def output(call_id: str, value: Any = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def test_plain_string_is_one_user_message() -> None:
    (step,) = steps("hello")
    assert (step.actor, step.text) == ("user", "hello")


def test_siblings_of_one_model_call_make_one_step() -> None:
    (step,) = steps(
        [thought("hm"), said("look"), call("a"), call("b"), output("b", "B"), output("a")]
    )
    assert (step.reasoning, step.text) == ("hm", "look")
    assert [c.call_id for c in step.tool_calls] == ["a", "b"]
    assert [(o.call_id, o.text) for o in step.observations] == [("b", "B"), ("a", "ok")]


def test_output_ends_a_model_call() -> None:
    found = steps([call("a"), output("a"), call("b"), output("b"), said("done")])
    assert [len(s.tool_calls) for s in found] == [1, 1, 0]


def test_user_message_ends_a_model_call() -> None:
    found = steps([said("one"), said("hit me", "user"), said("two")])
    assert [(s.actor, s.text) for s in found] == [
        ("agent", "one"),
        ("user", "hit me"),
        ("agent", "two"),
    ]


def test_token_ids_end_a_model_call() -> None:
    ids = {
        "prompt_token_ids": [1, 2],
        "generation_token_ids": [3],
        "generation_log_probs": [-0.5],
    }
    first, second = steps([said("one", **ids), said("two")])
    assert (first.prompt_token_ids, first.completion_token_ids) == ((1, 2), (3,))
    assert first.logprobs == (-0.5,)
    assert (second.text, second.completion_token_ids) == ("two", None)


def test_empty_token_ids_are_no_token_ids() -> None:
    (step,) = steps([said("x", prompt_token_ids=[], generation_token_ids=[])])
    assert step.prompt_token_ids is None
    assert step.completion_token_ids is None


def test_one_call_keeps_server_side_outputs_inside() -> None:
    items = [call("a"), output("a"), thought("so"), said("done")]
    assert len(steps(items)) == 2
    (step,) = steps(items, one_call=True)
    assert (step.text, step.reasoning, len(step.observations)) == ("done", "so", 1)


def test_nested_lists_are_read_in_order() -> None:
    found = steps([[said("a"), [said("u", "user")]], [said("b")]])
    assert [s.text for s in found] == ["a", "u", "b"]


def test_unanswered_call_and_orphan_output_stay() -> None:
    (step,) = steps([said("x"), call("a"), output("zzz", "lost")])
    assert [c.call_id for c in step.tool_calls] == ["a"]
    assert [(o.call_id, o.text) for o in step.observations] == [("zzz", "lost")]


def test_broken_arguments_stay_raw() -> None:
    (step,) = steps([call("a", '{"x": ')])
    assert step.tool_calls[0].arguments is None
    assert step.tool_calls[0].arguments_raw == '{"x": '


def test_custom_call_has_free_text_input() -> None:
    (step,) = steps(
        [
            {"type": "custom_tool_call", "name": "patch", "call_id": "c", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "Done"},
        ]
    )
    assert (step.tool_calls[0].name, step.tool_calls[0].arguments_raw) == ("patch", "*** Begin")
    assert step.observations[0].text == "Done"


def test_built_in_call_brings_its_own_result() -> None:
    item = {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": "1+1",
        "container_id": "k",
        "outputs": [{"type": "logs", "logs": "2"}],
    }
    (step,) = steps([item])
    (made,), (result,) = step.tool_calls, step.observations
    assert (made.name, made.call_id) == ("code_interpreter", "ci_1")
    assert json.loads(made.arguments or "") == {"code": "1+1", "container_id": "k"}
    assert (result.call_id, result.text) == ("ci_1", '[{"type":"logs","logs":"2"}]')


def test_failed_mcp_call_is_an_error() -> None:
    item = {
        "type": "mcp_call",
        "id": "m",
        "name": "roll",
        "server_label": "dice",
        "arguments": "{}",
        "error": "server gone",
    }
    (step,) = steps([item])
    assert (step.observations[0].text, step.observations[0].is_error) == ("server gone", True)
    assert "dice" in (step.metadata or "")


def test_search_call_without_a_result_is_unanswered() -> None:
    item = {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "x"}}
    (step,) = steps([item])
    assert json.loads(step.tool_calls[0].arguments or "")["query"] == "x"
    assert step.observations == ()


def test_generated_image_is_content_and_not_text() -> None:
    (step,) = steps([{"type": "image_generation_call", "id": "i", "result": "aGk="}])
    assert step.observations[0].text is None
    assert "data:image/png;base64,aGk=" in (step.observations[0].content or "")


def test_output_parts_with_an_image_keep_the_parts() -> None:
    parts = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "http://x/1.png"},
    ]
    (step,) = steps([call("a"), output("a", parts)])
    assert step.observations[0].text == "see"
    assert json.loads(step.observations[0].content or "") == parts


def test_screenshot_output_is_content() -> None:
    shot = {"type": "computer_screenshot", "image_url": "http://x/1.png"}
    (step,) = steps([call("a"), {"type": "computer_call_output", "call_id": "a", "output": shot}])
    assert step.observations[0].text is None
    assert "1.png" in (step.observations[0].content or "")


def test_object_output_is_json_text_and_success_false_an_error() -> None:
    (step,) = steps([call("a"), output("a", {"success": False, "rows": 0})])
    assert json.loads(step.observations[0].text or "") == {"success": False, "rows": 0}
    assert step.observations[0].is_error is True


def test_null_output_differs_from_empty_output() -> None:
    (step,) = steps([call("a"), call("b"), output("a", None), output("b", "")])
    assert [o.text for o in step.observations] == [None, ""]


def test_encrypted_reasoning_is_never_text() -> None:
    (step,) = steps([{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}])
    assert step.reasoning is None
    assert "gAAA" in (step.metadata or "")


def test_full_reasoning_wins_over_its_summary_and_both_are_kept() -> None:
    item = {**thought("short"), "content": [{"type": "reasoning_text", "text": "long"}]}
    (step,) = steps([item])
    assert step.reasoning == "long"
    assert "short" in (step.metadata or "")


def test_refusal_is_said() -> None:
    item = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not"}]}
    (step,) = steps([item])
    assert step.text == "I will not"
    assert "refusal" in (step.content or "")


def test_citations_and_ids_stay_in_metadata() -> None:
    part = {"type": "output_text", "text": "x", "annotations": [{"url": "http://a"}]}
    (step,) = steps([{"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}])
    (kept,) = json.loads(step.metadata or "")["items"]
    assert kept == {"type": "message", "id": "msg_1", "annotations": [[{"url": "http://a"}]]}


def test_incomplete_status_stays_and_completed_does_not() -> None:
    first, second = steps(
        [said("a", status="incomplete"), said("u", "user"), said("b", status="completed")]
    )[::2]
    assert "incomplete" in (first.metadata or "")
    assert second.metadata is None


def test_unknown_items_are_kept_whole() -> None:
    found = steps([{"type": "compaction", "encrypted_content": "zz"}, None])
    assert [s.actor for s in found] == ["environment", "environment"]
    assert json.loads(found[0].metadata or "")["encrypted_content"] == "zz"
    assert json.loads(found[1].metadata or "") == {"item": None}


def test_chat_style_messages_among_items_are_read() -> None:
    found = steps(
        [
            {"role": "developer", "content": "be kind"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "function": {"name": "g", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "G"},
        ]
    )
    assert [s.actor for s in found] == ["system", "agent"]
    assert found[1].observations[0].text == "G"


def test_usage_of_zeros_is_unknown() -> None:
    assert usage_fields({"input_tokens": 0, "output_tokens": 0}) == {}
    assert usage_fields(None) == {}


def test_usage_names_cached_tokens() -> None:
    usage = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    assert usage_fields(usage) == {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4}
