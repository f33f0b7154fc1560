"""Small OTLP exports for the tests of the span importers."""

from __future__ import annotations

import json
from typing import Any

NANO = 1_700_000_000_000_000_000


def typed(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [typed(v) for v in value]}}
    return {"stringValue": value}


def span(
    span_id: str,
    parent: str | None = None,
    *,
    at: int = 0,
    trace: str = "aa" * 16,
    **attributes: Any,
) -> dict[str, Any]:
    """One OTLP span; ``at`` is its second, double underscores in names are dots."""
    named = {k.replace("__", "."): v for k, v in attributes.items()}
    return {
        "traceId": trace,
        "spanId": span_id,
        "parentSpanId": parent or "",
        "name": named.pop("name", "span"),
        "startTimeUnixNano": str(NANO + at * 10**9),
        "endTimeUnixNano": str(NANO + (at + 1) * 10**9),
        "attributes": [{"key": k, "value": typed(v)} for k, v in named.items()],
        "status": {},
    }


def chat(
    span_id: str, prompt: Any, answer: Any, parent: str | None = None, **more: Any
) -> dict[str, Any]:
    return span(
        span_id,
        parent,
        gen_ai__operation__name="chat",
        gen_ai__request__model="m",
        gen_ai__input__messages=json.dumps(prompt),
        gen_ai__output__messages=json.dumps(answer),
        **more,
    )


def export(*spans: dict[str, Any], resource: dict[str, Any] | None = None) -> dict[str, Any]:
    attributes = [{"key": k, "value": typed(v)} for k, v in (resource or {}).items()]
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": attributes},
                "scopeSpans": [{"scope": {"name": "lib"}, "spans": list(spans)}],
            }
        ]
    }


def says(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def asks(call_id: str, name: str = "w") -> dict[str, Any]:
    call = {"type": "tool_call", "id": call_id, "name": name, "arguments": {"city": "Rome"}}
    return {"role": "assistant", "parts": [call], "finish_reason": "tool_call"}


def told(call_id: str, text: str) -> dict[str, Any]:
    part = {"type": "tool_call_response", "id": call_id, "response": text}
    return {"role": "tool", "parts": [part]}


def weather(trace: str = "aa" * 16) -> list[dict[str, Any]]:
    """A run of two model calls and a tool under an agent span."""
    first = [says("weather?")]
    second = [*first, asks("c1"), told("c1", "sunny")]
    return [
        span(
            "01",
            at=0,
            trace=trace,
            gen_ai__operation__name="invoke_agent",
            gen_ai__agent__name="bot",
        ),
        chat("02", first, [asks("c1")], "01", at=1, trace=trace, gen_ai__usage__input_tokens=10),
        span(
            "03",
            "01",
            at=2,
            trace=trace,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name="w",
            gen_ai__tool__call__id="c1",
        ),
        chat(
            "04",
            second,
            [says("Sunny.", "assistant")],
            "01",
            at=3,
            trace=trace,
            gen_ai__usage__output_tokens=4,
        ),
    ]
