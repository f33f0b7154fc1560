"""Attribute names of several conventions, old and new, alone and mixed in one span."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.span_attributes import Events, fill
from trajstore.importers.span_messages import event_messages, indexed
from trajstore.importers.spans import Span

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "function": {"name": "w", "arguments": "{}"}}
GENAI_IN = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}])
GENAI_OUT = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "yes"}]}])


def filled(
    attributes: dict[str, Any], *events: tuple[str, dict[str, Any]], name: str = "n"
) -> Span:
    given: Events = list(events)
    return fill(Span(span_id="s", trace_id="t", name=name), attributes, given)


def talk(span: Span) -> list[tuple[str, str | None]]:
    return [(m.actor, m.text) for m in (*span.prompt_said(), *span.output_said())]


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"gen_ai.operation.name": "chat"}, "model"),
        ({"gen_ai.operation.name": "generate_content"}, "model"),
        ({"gen_ai.operation.name": "execute_tool"}, "tool"),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m"}, "agent"),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"}, "other"),
        ({"openinference.span.kind": "LLM"}, "model"),
        ({"openinference.span.kind": "TOOL"}, "tool"),
        ({"openinference.span.kind": "AGENT"}, "agent"),
        ({"openinference.span.kind": "RETRIEVER", "input.value": "q"}, "other"),
        ({"traceloop.span.kind": "tool"}, "tool"),
        ({"traceloop.span.kind": "workflow"}, "other"),
        ({"langsmith.span.kind": "llm"}, "model"),
        ({"langfuse.observation.type": "generation"}, "model"),
        ({"ai.operationId": "ai.generateText", "ai.model.id": "m"}, "other"),
        ({"ai.operationId": "ai.generateText.doGenerate"}, "model"),
        ({"ai.operationId": "ai.streamText.doStream"}, "model"),
        ({"ai.operationId": "ai.toolCall"}, "tool"),
        ({"gen_ai.tool.name": "w"}, "tool"),
        ({"gen_ai.prompt.0.role": "user"}, "model"),
        ({"llm.request.type": "chat"}, "model"),
        ({"gen_ai.agent.name": "bot"}, "agent"),
        ({"http.method": "GET"}, "other"),
    ],
)
def test_kind_of_a_span(attributes: dict[str, Any], kind: str) -> None:
    assert filled(attributes).kind == kind


def test_new_names() -> None:
    span = filled(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": GENAI_IN,
            "gen_ai.output.messages": GENAI_OUT,
            "gen_ai.system_instructions": '[{"type": "text", "content": "Be kind."}]',
            "gen_ai.response.model": "m-1",
            "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.output_tokens": "3",
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.request.temperature": 0.2,
            "gen_ai.tool.definitions": '[{"name": "w"}]',
            "gen_ai.conversation.id": "k",
        }
    )
    assert talk(span) == [("system", "Be kind."), ("user", "hi"), ("agent", "yes")]
    assert (span.model, span.conversation, span.finish_reason) == ("m-1", "k", "stop")
    assert (span.prompt_tokens, span.completion_tokens, span.cached_tokens) == (7, 3, 2)
    assert span.sampling == {"temperature": 0.2}
    assert span.tools == [{"name": "w"}]


def test_old_names() -> None:
    span = filled(
        {
            "gen_ai.system": "openai",
            "gen_ai.prompt": json.dumps([USER]),
            "gen_ai.completion": '{"text": "yes", "finish_reason": "stop"}',
            "gen_ai.request.model": "m",
            "gen_ai.usage.prompt_tokens": 7,
            "gen_ai.usage.completion_tokens": 3,
        }
    )
    assert talk(span) == [("user", "hi"), ("agent", "yes")]
    assert (span.kind, span.prompt_tokens, span.completion_tokens) == ("model", 7, 3)


def test_openllmetry_indexed_names() -> None:
    span = filled(
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "Be kind.",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": '[{"type": "text", "text": "hi"}]',
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.finish_reason": "tool_calls",
            "gen_ai.completion.0.tool_calls.0.id": "c1",
            "gen_ai.completion.0.tool_calls.0.name": "w",
            "gen_ai.completion.0.tool_calls.0.arguments": '{"a": 1}',
            "llm.request.functions.0.name": "w",
            "llm.request.functions.0.description": "weather",
        }
    )
    assert talk(span) == [("system", "Be kind."), ("user", "hi"), ("agent", None)]
    (call,) = span.output_said()[0].calls
    assert (call.call_id, call.name, call.arguments) == ("c1", "w", '{"a":1}')
    assert span.tools == [{"name": "w", "description": "weather"}]


def test_openllmetry_tool_message_is_a_result() -> None:
    span = filled(
        {
            "gen_ai.prompt.0.role": "tool",
            "gen_ai.prompt.0.content": "sunny",
            "gen_ai.prompt.0.tool_call_id": "c1",
        }
    )
    (said,) = span.prompt_said()
    assert said.result is not None
    assert (said.result.call_id, said.result.text) == ("c1", "sunny")


def test_openinference_names_keep_the_order_of_more_than_ten_messages() -> None:
    attributes = {"openinference.span.kind": "LLM"}
    for i in range(12):
        attributes[f"llm.input_messages.{i}.message.role"] = "user"
        attributes[f"llm.input_messages.{i}.message.content"] = str(i)
    assert [t for _, t in talk(filled(attributes))] == [str(i) for i in range(12)]


def test_openinference_parts_calls_and_tools() -> None:
    start = "llm.output_messages.0.message"
    span = filled(
        {
            "openinference.span.kind": "LLM",
            "llm.invocation_parameters": '{"temperature": 0.5, "model": "m"}',
            "llm.token_count.prompt": 97,
            "llm.token_count.completion": 52,
            "llm.token_count.prompt_details.cache_read": 5,
            "llm.tools.0.tool.json_schema": '{"name": "w"}',
            f"{start}.role": "assistant",
            f"{start}.contents.0.message_content.type": "text",
            f"{start}.contents.0.message_content.text": "I look.",
            f"{start}.tool_calls.0.tool_call.id": "c1",
            f"{start}.tool_calls.0.tool_call.function.name": "w",
            f"{start}.tool_calls.0.tool_call.function.arguments": "{}",
        }
    )
    (said,) = span.output_said()
    assert (said.text, said.calls[0].call_id) == ("I look.", "c1")
    assert (span.prompt_tokens, span.completion_tokens, span.cached_tokens) == (97, 52, 5)
    assert span.sampling == {"temperature": 0.5}
    assert span.tools == [{"name": "w"}]


def test_message_events() -> None:
    span = filled(
        {"gen_ai.request.model": "m"},
        ("gen_ai.system.message", {"content": "Be kind."}),
        ("gen_ai.user.message", {"content": "hi"}),
        ("gen_ai.assistant.message", {"tool_calls": json.dumps([CALL])}),
        ("gen_ai.tool.message", {"id": "c1", "content": "sunny"}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": '{"content": "yes"}'}),
    )
    said = span.prompt_said()
    assert [m.actor for m in said] == ["system", "user", "agent", "environment"]
    assert said[2].calls[0].call_id == "c1"
    assert said[3].result is not None
    assert said[3].result.call_id == "c1"
    assert [m.text for m in span.output_said()] == ["yes"]


def test_events_whose_message_is_one_json_attribute() -> None:
    body = {"gen_ai.event.content": json.dumps({"role": "user", "content": "hi"})}
    said, answered = event_messages([("gen_ai.user.message", body)])
    assert said == [USER]
    assert answered == []


def test_details_event_carries_the_messages() -> None:
    details = {"gen_ai.input.messages": GENAI_IN, "gen_ai.output.messages": GENAI_OUT}
    span = filled(
        {"gen_ai.operation.name": "chat"}, ("gen_ai.client.inference.operation.details", details)
    )
    assert talk(span) == [("user", "hi"), ("agent", "yes")]


def test_vercel_names() -> None:
    span = filled(
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.prompt.messages": json.dumps([USER]),
            "ai.response.text": "I look.",
            "ai.response.toolCalls": json.dumps(
                [{"toolCallId": "c1", "toolName": "w", "args": '{"a": 1}'}]
            ),
            "ai.usage.promptTokens": 5,
            "ai.usage.completionTokens": 6,
            "ai.response.finishReason": "tool-calls",
            "ai.model.id": "m",
        }
    )
    (said,) = span.output_said()
    assert (said.text, said.calls[0].arguments) == ("I look.", '{"a":1}')
    assert (span.model, span.prompt_tokens, span.completion_tokens) == ("m", 5, 6)
    assert span.finish_reason == "tool-calls"


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "w",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.arguments": '{"a": 1}',
            "gen_ai.tool.call.result": "sunny",
        },
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "w",
            "tool_call.id": "c1",
            "input.value": '{"a": 1}',
            "output.value": "sunny",
        },
        {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "w",
            "ai.toolCall.id": "c1",
            "ai.toolCall.args": '{"a": 1}',
            "ai.toolCall.result": "sunny",
        },
        {
            "gen_ai.tool.name": "w",
            "gen_ai.tool.call.id": "c1",
            "tool_arguments": '{"a": 1}',
            "tool_response": "sunny",
        },
    ],
)
def test_tool_spans_of_every_convention(attributes: dict[str, Any]) -> None:
    span = filled(attributes)
    assert (span.kind, span.tool, span.call_id) == ("tool", "w", "c1")
    assert (span.prompt, span.output) == ('{"a": 1}', "sunny")


def test_mixed_names_in_one_span() -> None:
    span = filled(
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "gen_ai.input.messages": GENAI_IN,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "yes",
            "gen_ai.usage.prompt_tokens": 4,
            "llm.token_count.completion": 2,
        }
    )
    assert talk(span) == [("user", "hi"), ("agent", "yes")]
    assert (span.model, span.prompt_tokens, span.completion_tokens) == ("m", 4, 2)


def test_span_without_captured_content_keeps_its_numbers() -> None:
    span = filled({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 9})
    assert talk(span) == []
    assert span.prompt_tokens == 9


def test_attributes_without_a_place_are_kept_and_messages_are_not_repeated() -> None:
    span = filled(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": GENAI_IN,
            "input.value": "the whole prompt again",
            "server.address": "api.example.com",
        }
    )
    assert span.extra["attributes"]["server.address"] == "api.example.com"
    assert "input.value" not in span.extra["attributes"]
    assert "gen_ai.input.messages" not in span.extra["attributes"]


def test_token_ids_and_logprobs() -> None:
    span = filled(
        {
            "gen_ai.operation.name": "chat",
            "prompt_token_ids": "[1, 2]",
            "response_token_ids": [[3, 4]],
            "logprobs.content": json.dumps([{"logprob": -0.5}, {"logprob": -1}]),
        }
    )
    assert (span.prompt_token_ids, span.completion_token_ids) == ((1, 2), (3, 4))
    assert span.logprobs == (-0.5, -1.0)


def test_indexed_names_become_lists_in_numeric_order() -> None:
    flat = {"p.10.a": "k", "p.2.a": "c", "p.2.b.0.x": 1, "q.0.a": "no", "p.1.a": "b"}
    assert indexed(flat, "p") == [{"a": "b"}, {"a": "c", "b": [{"x": 1}]}, {"a": "k"}]
    assert indexed({"p": [1]}, "p") == [1]
    assert indexed({"p.name": 1}, "p") == []
