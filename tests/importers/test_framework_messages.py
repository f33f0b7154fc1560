"""Messages of many frameworks: the same talk has the same form, whoever wrote it down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.framework_messages import (
    Said,
    decoded,
    output_messages,
    prompt_messages,
    result_text,
    same_action,
    tools_of,
)
from trajstore.schema import ToolCall

ARGUMENTS = {"city": "Tokyo"}
TEXT = json.dumps(ARGUMENTS)

OPENAI = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "w", "arguments": TEXT}}],
}
GENAI = {
    "role": "assistant",
    "parts": [
        {"type": "text", "content": "I look."},
        {"type": "tool_call", "id": "c1", "name": "w", "arguments": ARGUMENTS},
    ],
    "finish_reason": "tool_call",
}
ANTHROPIC = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "w", "input": ARGUMENTS},
    ],
}
VERCEL = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool-call", "toolCallId": "c1", "toolName": "w", "input": TEXT},
    ],
}
BEDROCK = {
    "role": "assistant",
    "content": [
        {"text": "I look."},
        {"toolUse": {"toolUseId": "c1", "name": "w", "input": ARGUMENTS}},
    ],
}
GEMINI = {
    "role": "model",
    "parts": [
        {"text": "I look."},
        {"function_call": {"id": "c1", "name": "w", "args": ARGUMENTS}},
    ],
}
LANGCHAIN = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "AIMessageChunk"],
    "kwargs": {
        "content": "I look.",
        "tool_calls": [{"name": "w", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}],
    },
}
LANGCHAIN_EXTRA = {
    "role": "assistant",
    "content": "I look.",
    "additional_kwargs": {"tool_calls": OPENAI["tool_calls"], "refusal": None},
}
RESPONSE = {
    "object": "response",
    "output": [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look."}],
        },
        {"type": "function_call", "call_id": "c1", "name": "w", "arguments": TEXT},
    ],
}
ALL = {
    "openai": OPENAI,
    "openai completion": {"choices": [{"index": 0, "message": OPENAI, "finish_reason": "stop"}]},
    "openai choice": {"index": 0, "message": OPENAI, "finish_reason": "stop"},
    "genai": GENAI,
    "anthropic": ANTHROPIC,
    "vercel": VERCEL,
    "bedrock": BEDROCK,
    "gemini": GEMINI,
    "gemini response": {"candidates": [{"content": GEMINI, "finishReason": "STOP"}]},
    "google adk": {"content": GEMINI, "finish_reason": "STOP"},
    "langchain": LANGCHAIN,
    "langchain result": {"generations": [[{"text": "I look.", "message": LANGCHAIN}]]},
    "langchain extra": LANGCHAIN_EXTRA,
    "responses": RESPONSE,
}


@pytest.mark.parametrize("value", ALL.values(), ids=ALL.keys())
@pytest.mark.parametrize("levels", [0, 1, 2])
def test_one_answer_in_every_form_and_encoding(value: Any, levels: int) -> None:
    for _ in range(levels):
        value = json.dumps(value)
    (said,) = output_messages(value)
    (call,) = said.calls
    assert (said.actor, said.text) == ("agent", "I look.")
    assert (call.call_id, call.name, call.arguments) == ("c1", "w", '{"city":"Tokyo"}')


def test_all_forms_of_one_answer_have_one_key() -> None:
    assert len({output_messages(value)[0].key for value in ALL.values()}) == 1


RESULTS = {
    "openai": {"role": "tool", "tool_call_id": "c1", "name": "w", "content": "sunny"},
    "genai": {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c1", "response": "sunny"}],
    },
    "anthropic": {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}],
    },
    "anthropic parts": {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "sunny"}],
            }
        ],
    },
    "vercel": {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "toolName": "w",
                "output": {"type": "text", "value": "sunny"},
            }
        ],
    },
    "bedrock": {
        "role": "user",
        "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "sunny"}]}}],
    },
    "gemini": {
        "role": "user",
        "parts": [{"function_response": {"id": "c1", "name": "w", "response": "sunny"}}],
    },
    "langchain": {"type": "tool", "tool_call_id": "c1", "name": "w", "content": "sunny"},
    "responses": {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
}


@pytest.mark.parametrize("value", RESULTS.values(), ids=RESULTS.keys())
def test_one_result_in_every_form(value: Any) -> None:
    (said,) = prompt_messages([value])
    assert said.result is not None
    assert (said.result.call_id, said.result.text) == ("c1", "sunny")
    assert said.key == ("result", "c1")


def test_results_of_parallel_calls_come_before_what_the_user_says() -> None:
    content = [
        {"type": "tool_result", "tool_use_id": "a", "content": "A"},
        {"type": "tool_result", "tool_use_id": "b", "content": "B", "is_error": True},
        {"type": "text", "text": "and now?"},
    ]
    found = prompt_messages([{"role": "user", "content": content}])
    assert [s.result.text if s.result else s.text for s in found] == ["A", "B", "and now?"]
    assert [s.result.is_error for s in found if s.result] == [None, True]


def test_plain_text_is_a_user_message_in_a_prompt_and_an_answer_in_an_output() -> None:
    assert [(s.actor, s.text) for s in prompt_messages("hi")] == [("user", "hi")]
    assert [(s.actor, s.text) for s in output_messages("hi")] == [("agent", "hi")]
    assert prompt_messages("") == []
    assert prompt_messages(None) == output_messages(None) == []


def test_unreliable_input_object_is_no_message() -> None:
    assert prompt_messages('{"content":"role"}') == []
    assert prompt_messages({"args": ["programming"], "kwargs": {}}) == []


def test_structured_output_is_the_answers_text_as_written() -> None:
    (said,) = output_messages('{"quality": "good"}')
    assert said.text == '{"quality": "good"}'


def test_request_objects_give_their_messages_with_the_system_prompt() -> None:
    request = {"system": "Be kind.", "prompt": "hello"}
    assert [(s.actor, s.text) for s in prompt_messages(request)] == [
        ("system", "Be kind."),
        ("user", "hello"),
    ]


def test_gemini_request_gives_instruction_and_contents() -> None:
    request = {
        "model": "gemini",
        "config": {"system_instruction": "Greet.", "tools": [{"name": "t"}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }
    assert [(s.actor, s.text) for s in prompt_messages(request)] == [
        ("system", "Greet."),
        ("user", "hi"),
    ]
    assert tools_of(json.dumps(request)) == [{"name": "t"}]


def test_batches_of_messages_are_flattened() -> None:
    found = prompt_messages(
        [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]]
    )
    assert [s.text for s in found] == ["a", "b"]


def test_tool_definitions_among_the_messages_are_no_messages() -> None:
    definition = {"type": "function", "function": {"name": "search"}}
    messages = [{"role": "user", "content": "hi"}, {"role": "tool", "content": definition}]
    assert [s.text for s in prompt_messages(messages)] == ["hi"]
    assert tools_of(messages) == [definition]


def test_responses_items_in_a_prompt_are_split_into_call_and_result() -> None:
    items = [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c1", "name": "w", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    ]
    found = prompt_messages(items)
    assert [s.actor for s in found] == ["user", "agent", "environment"]
    assert found[2].result is not None


def test_thinking_is_reasoning_and_not_text() -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]
    (said,) = output_messages({"role": "assistant", "content": parts})
    assert (said.text, said.reasoning) == ("yes", "hm")
    (said,) = output_messages(
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "r"}]}
    )
    assert (said.text, said.reasoning) == (None, "r")


def test_images_stay_in_the_content() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "blob", "mime_type": "image/png"}]
    (said,) = prompt_messages([{"role": "user", "parts": parts}])
    assert said.text == "see"
    assert json.loads(said.content or "") == parts


def test_null_text_and_empty_text_differ() -> None:
    assert output_messages({"role": "assistant", "content": None, **CALL})[0].text is None
    assert output_messages({"role": "assistant", "content": "", **CALL})[0].text == ""


CALL = {"tool_calls": OPENAI["tool_calls"]}


def test_broken_arguments_stay_raw() -> None:
    call = {"id": "c", "function": {"name": "w", "arguments": '{"city'}}
    (said,) = output_messages({"role": "assistant", "tool_calls": [call]})
    assert (said.calls[0].arguments, said.calls[0].arguments_raw) == (None, '{"city')


def test_legacy_function_call_and_vercel_call_lists_are_read() -> None:
    legacy = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "w", "arguments": TEXT},
    }
    assert output_messages(legacy)[0].calls[0].name == "w"
    calls = [{"toolCallId": "c1", "toolName": "w", "input": TEXT}]
    assert output_messages(json.dumps(calls))[0].calls[0].call_id == "c1"


def test_calls_without_ids_are_told_apart_by_text_and_name() -> None:
    one = Said(actor="agent", calls=[ToolCall.of("w", {})])
    same = Said(actor="agent", text=" ", calls=[ToolCall.of("w", None)])
    other = Said(actor="agent", calls=[ToolCall.of("v", {})])
    assert one.key == same.key
    assert one.key != other.key


def test_decoding_stops_after_its_levels_and_at_plain_text() -> None:
    assert decoded(json.dumps(json.dumps({"a": 1}))) == {"a": 1}
    assert decoded(json.dumps(json.dumps({"a": 1})), levels=1) == '{"a": 1}'
    assert decoded("{not json") == "{not json"
    assert decoded(7) == 7


def test_actions_are_compared_as_values() -> None:
    call = ToolCall.of("w", '{"b": 1, "a": 2}')
    assert same_action(call, "w", {"a": 2, "b": 1})
    assert same_action(call, "w", json.dumps({"input": {"a": 2, "b": 1}}))
    assert not same_action(call, "w", None)
    assert not same_action(call, "v", {"a": 2, "b": 1})


def test_results_that_are_no_text_are_json() -> None:
    assert result_text({"a": 1}) == '{"a":1}'
    assert result_text([1, 2]) == "[1,2]"
    assert result_text("x") == "x"
    assert result_text(None) is None
