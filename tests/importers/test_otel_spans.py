"""Spans in other layouts than OTLP: SDK dumps, data-frame rows, Agent-lightning."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.importers.otlp import asks, export, says, told, weather
from tests.importers.reading import document, jsonl, read
from trajstore.importers.otel import IMPORTER
from trajstore.importers.otel_spans import (
    bare_span,
    flattened,
    is_bare,
    is_span,
    spans_in,
    typed_value,
)
from trajstore.importers.spans import Span

MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
MESSAGES = json.dumps([says("hi")])


def only(value: dict[str, Any]) -> Span:
    (span,) = spans_in(value)
    return span


def sdk(**changes: Any) -> dict[str, Any]:
    """A span as the Python SDK writes it with ``to_json``."""
    return {
        "name": "chat m",
        "context": {"trace_id": "0xAB", "span_id": "0x01", "trace_state": "[]"},
        "kind": "SpanKind.CLIENT",
        "parent_id": "0x02",
        "start_time": "2023-11-14T22:13:20.000000Z",
        "end_time": "2023-11-14T22:13:21.500000Z",
        "status": {"status_code": "UNSET"},
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": MESSAGES},
        "events": [],
        "resource": {"attributes": {"service.name": "s"}},
    } | changes


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"stringValue": "a"}, "a"),
        ({"intValue": "7"}, 7),
        ({"intValue": 7}, 7),
        ({"doubleValue": 0.5}, 0.5),
        ({"boolValue": False}, False),
        ({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "b"}]}}, [1, "b"]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}]}}, {"k": True}),
        ("plain already", "plain already"),
    ],
)
def test_typed_values_become_plain(value: Any, plain: Any) -> None:
    assert typed_value(value) == plain


def test_python_sdk_dump() -> None:
    span = only(sdk())
    assert (span.trace_id, span.span_id, span.parent_id) == ("ab", "01", "02")
    assert (span.started, span.kind) == (MOMENT, "model")
    assert span.ended is not None
    assert (span.ended - MOMENT).total_seconds() == 1.5
    assert [m.text for m in span.prompt_said()] == ["hi"]


def test_javascript_times_are_seconds_and_nanoseconds() -> None:
    value = sdk(start_time=[1_700_000_000, 250_000_000], end_time=[1_700_000_001, 0])
    span = only(value)
    assert span.started == MOMENT.replace(microsecond=250_000)


def test_base64_ids_of_protobuf_json_are_hexadecimal() -> None:
    raw = export(*weather()[:1])
    span = raw["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span |= {"traceId": "qqqqqqqqqqqqqqqqqqqqqg==", "spanId": "AAAAAAAAAAE="}
    found = only(raw)
    assert (found.trace_id, found.span_id) == ("aa" * 16, "0000000000000001")


def test_data_frame_row_with_prefixed_columns() -> None:
    span = only(
        {
            "context.trace_id": "t",
            "context.span_id": "s",
            "parent_id": None,
            "name": "llm",
            "span_kind": "LLM",
            "start_time": "2023-11-14T22:13:20+00:00",
            "status_code": "OK",
            "attributes.llm.model_name": "m",
            "attributes.llm.token_count.prompt": 12.0,
            "attributes.llm.input_messages": [{"message.role": "user", "message.content": "hi"}],
            "attributes.llm.output_messages": [
                {
                    "message.role": "assistant",
                    "message.tool_calls": [
                        {
                            "tool_call.id": "c1",
                            "tool_call.function.name": "w",
                            "tool_call.function.arguments": "{}",
                        }
                    ],
                }
            ],
        }
    )
    assert (span.kind, span.model, span.prompt_tokens, span.failed) == ("model", "m", 12, False)
    assert [m.text for m in span.prompt_said()] == ["hi"]
    (answer,) = span.output_said()
    assert (answer.calls[0].call_id, answer.calls[0].name) == ("c1", "w")


def test_nested_attributes_are_flattened() -> None:
    assert flattened({"a": {"b": {"c": 1}}, "x": [1, 2]}) == {"a.b.c": 1, "x": [1, 2]}
    assert flattened({"llm": {"tools": [{"tool": {"json_schema": "{}"}}]}}) == {
        "llm.tools.0.tool.json_schema": "{}"
    }
    assert flattened({"gen_ai.input.messages": [{"role": "user"}]}) == {
        "gen_ai.input.messages": [{"role": "user"}]
    }


def test_structured_messages_need_no_encoding() -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [says("hi")]}
    assert [m.text for m in only(sdk(attributes=attributes)).prompt_said()] == ["hi"]


def test_twice_encoded_messages_are_read() -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(MESSAGES)}
    assert [m.text for m in only(sdk(attributes=attributes)).prompt_said()] == ["hi"]


@pytest.mark.parametrize(
    ("status", "failed"),
    [
        ({"code": 2}, True),
        ({"code": "STATUS_CODE_ERROR"}, True),
        ({"status_code": "ERROR", "description": "no"}, True),
        ({"code": 1}, False),
        ({"status_code": "OK"}, False),
        ({"status_code": "UNSET"}, None),
        ({}, None),
    ],
)
def test_status_in_every_spelling(status: dict[str, Any], *, failed: bool | None) -> None:
    assert only(sdk(status=status)).failed is failed


@pytest.mark.parametrize(
    ("status", "failed", "error"),
    [
        ({}, True, "timeout"),
        ({"code": 0, "message": "too slow"}, True, "too slow"),
        ({"code": 1}, False, None),
        ({"code": 2}, True, "the span has status ERROR"),
    ],
)
def test_a_span_with_an_error_type_failed_unless_its_status_says_otherwise(
    status: dict[str, Any], *, failed: bool, error: str | None
) -> None:
    span = only(sdk(status=status, attributes={"error.type": "timeout"}))
    assert (span.failed, span.error) == (failed, error)


def test_message_of_the_status_is_the_error() -> None:
    assert only(sdk(status={"code": 2, "message": "boom"})).error == "boom"
    assert only(sdk(status={"code": 2})).error == "the span has status ERROR"


def test_exception_event_is_the_error() -> None:
    values = {"exception.type": "E", "exception.message": "m", "exception.stacktrace": "tb"}
    events = [{"name": "exception", "attributes": values}]
    span = only(sdk(status={"code": 2}, events=events))
    assert span.error == "E: m"
    assert span.extra["stacktrace"] == "tb"


def test_what_is_no_span_says_so() -> None:
    with pytest.raises(TypeError, match="neither an OTLP export nor a span"):
        list(spans_in({"role": "user", "content": "hi"}))
    assert not is_span({"traceId": "t", "attributes": {}})
    assert not is_span(["traceId"])


def test_bare_attributes_are_told_from_spans() -> None:
    assert is_bare({"gen_ai.operation.name": "chat"})
    assert not is_bare(sdk())
    assert not is_bare({"llm": "x"})
    assert bare_span({"gen_ai.operation.name": "chat", "input": "hi"}).prompt == "hi"


def test_bare_attributes_line_by_line_are_runs_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"gen_ai.operation.name": "chat", "gen_ai.prompt": q, "gen_ai.completion": "ok"}
        for q in ("one", "two", "one")
    ]
    runs = read(IMPORTER, jsonl(tmp_path, *rows)).runs
    assert [r.goal for r in runs] in (["one", "two"], ["two", "one"])


def test_flat_spans_in_an_array_are_one_trace(tmp_path: Path) -> None:
    ids = {"trace_id": "ab", "trace_state": "[]"}
    first = sdk(parent_id=None, context={**ids, "span_id": "01"})
    first["attributes"] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": MESSAGES,
        "gen_ai.output.messages": json.dumps([asks("c1")]),
    }
    later = sdk(parent_id=None, context={**ids, "span_id": "02"}, start_time="2023-11-14T22:14:00Z")
    later["attributes"] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([says("hi"), asks("c1"), told("c1", "sunny")]),
        "gen_ai.output.messages": json.dumps([says("Sunny.", "assistant")]),
    }
    run = read(IMPORTER, document(tmp_path, [later, first])).run
    assert [s.text for s in run.steps] == ["hi", None, "Sunny."]
    assert run.steps[1].observations[0].text == "sunny"


def test_agent_lightning_attempts_have_reward_and_identity(tmp_path: Path) -> None:
    def lightning(attempt: str, reward: float) -> list[dict[str, Any]]:
        ids = {"rollout_id": "ro-1", "attempt_id": attempt, "trace_id": attempt}
        call = {
            **ids,
            "span_id": "01",
            "sequence_id": 1,
            "name": "openai.chat.completion",
            "start_time": 1_700_000_000.0,
            "end_time": 1_700_000_001.0,
            "status": {"status_code": "OK"},
            "attributes": {
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "2+2?",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": "4",
                "prompt_token_ids": [1, 2],
                "response_token_ids": [3],
            },
        }
        given = {"agentlightning.reward.0.name": "primary", "agentlightning.reward.0.value": reward}
        mark = {**ids, "span_id": "02", "sequence_id": 2, "name": "agentlightning.annotation"}
        return [call, {**mark, "start_time": 1_700_000_002.0, "attributes": given}]

    path = jsonl(tmp_path, *lightning("at-1", 0.0), *lightning("at-2", 1.0))
    runs = read(IMPORTER, path).runs
    assert [r.reward for r in runs] == [0.0, 1.0]
    assert {r.task_id for r in runs} == {"otel/ro-1"}
    assert len({r.trajectory_id for r in runs}) == 2
    assert runs[1].rewards == {"primary": 1.0}
    assert runs[1].steps[1].completion_token_ids == (3,)
    assert [r.success for r in runs] == [None, None]
    judged = read(IMPORTER, path, success_threshold=0.5).runs
    assert [r.success for r in judged] == [False, True]
