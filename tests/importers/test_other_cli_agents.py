from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.other_cli_agents import HermesSession, PiSession, QwenSession
from trajstore.importers.other_cli_session import CliSession
from trajstore.schema import Trajectory, finish


def read(session: CliSession, *records: dict[str, Any]) -> Trajectory:
    for record in records:
        session.add(record)
    (run,) = session.trajectories("file")
    return finish(run)


def entry(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": role, "content": content} | fields
    return {"type": "message", "parentId": None, "message": message}


PI = {"type": "session", "version": 3, "id": "s", "cwd": "/", "timestamp": "2026-01-01T00:00:00Z"}


def test_pi_thinking_and_calls_are_parts_of_one_step() -> None:
    content = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I look."},
        {"type": "toolCall", "id": "a", "name": "ls", "arguments": {"p": "."}},
        {"type": "toolCall", "id": "b", "name": "ls", "arguments": {"p": "/"}},
    ]
    run = read(
        PiSession(),
        PI,
        entry("assistant", content, model="m"),
        entry("toolResult", [{"type": "text", "text": "B"}], toolCallId="b", isError=True),
        entry("toolResult", "A", toolCallId="a", isError=False),
    )
    (step,) = run.steps
    assert (step.reasoning, step.text, step.content) == ("hm", "I look.", None)
    assert [c.call_id for c in step.tool_calls] == ["a", "b"]
    assert [(o.call_id, o.text, o.is_error) for o in step.observations] == [
        ("b", "B", True),
        ("a", "A", False),
    ]


def test_pi_usage_counts_what_the_cache_gave_and_took_as_read() -> None:
    usage = {"input": 5, "output": 7, "cacheRead": 100, "cacheWrite": 20, "cost": {"total": 0.5}}
    run = read(
        PiSession(),
        PI,
        entry("assistant", "a", usage=usage),
        entry("assistant", "b", usage=usage),
    )
    assert (run.prompt_tokens, run.completion_tokens, run.cached_tokens) == (250, 14, 200)
    assert run.cost_usd == 1.0


def test_pi_images_stay_as_parts() -> None:
    image = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    run = read(PiSession(), PI, entry("user", [{"type": "text", "text": "see"}, image]))
    assert json.loads(run.steps[0].content or "")[1] == image
    assert run.goal == "see"


def test_pi_roles_beside_the_conversation_are_events() -> None:
    run = read(PiSession(), PI, entry("user", "go"), entry("bashExecution", "ls"))
    assert [s.actor for s in run.steps] == ["user", "environment"]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (PI, True),
        (entry("user", "x"), True),
        ({"type": "session", "id": "s"}, False),
        ({"type": "message", "role": "user", "content": "x"}, False),
    ],
)
def test_what_opens_a_pi_session(record: dict[str, Any], *, expected: bool) -> None:
    assert PiSession.opens(record) is expected


def qwen(kind: str, *parts: Any, **fields: Any) -> dict[str, Any]:
    head = {"uuid": "u", "parentUuid": None, "sessionId": "s", "type": kind}
    return head | {"message": {"parts": list(parts)}} | fields


def test_qwen_thoughts_are_reasoning_and_calls_have_their_results() -> None:
    response = {"id": "a", "name": "ls", "response": {"output": "x.txt"}}
    run = read(
        QwenSession(),
        qwen("user", {"text": "go"}),
        qwen(
            "assistant",
            {"text": "hm", "thought": True},
            {"text": "I look."},
            {"functionCall": {"id": "a", "name": "ls", "args": {"p": "."}}},
        ),
        qwen("tool_result", {"functionResponse": response}, toolCallResult={"status": "success"}),
    )
    step = run.steps[1]
    assert (run.goal, step.reasoning, step.text) == ("go", "hm", "I look.")
    assert (step.tool_calls[0].arguments, step.observations[0].text) == ('{"p":"."}', "x.txt")
    assert step.observations[0].is_error is False


@pytest.mark.parametrize(
    ("response", "outcome", "text", "failed"),
    [
        ({"error": "ENOENT"}, None, "ENOENT", True),
        ({"output": "x"}, {"status": "error"}, "x", True),
        ({"output": {"n": 1}}, None, '{"n":1}', None),
        ({"rows": 2}, None, '{"rows":2}', None),
        ("plain", None, "plain", None),
    ],
)
def test_qwen_results_of_all_shapes(
    response: Any, outcome: Any, text: str, *, failed: bool | None
) -> None:
    part = {"functionResponse": {"id": "a", "response": response}}
    run = read(
        QwenSession(),
        qwen("assistant", {"functionCall": {"id": "a", "name": "t"}}),
        qwen("tool_result", part, toolCallResult=outcome),
    )
    (observation,) = run.steps[0].observations
    assert (observation.text, observation.is_error) == (text, failed)


def test_qwen_writes_what_is_not_read() -> None:
    """130 in all, 100 read: 30 written, whether or not thoughts are inside the candidates."""
    usage = {
        "promptTokenCount": 100,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 10,
        "cachedContentTokenCount": 60,
        "totalTokenCount": 130,
    }
    run = read(QwenSession(), qwen("assistant", {"text": "a"}, usageMetadata=usage))
    assert (run.prompt_tokens, run.completion_tokens, run.cached_tokens) == (100, 30, 60)


def test_hermes_without_prompt_or_tools_is_read() -> None:
    record = {
        "session_id": "s",
        "platform": "cli",
        "session_start": "2026-01-01T00:00:00Z",
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
    }
    assert HermesSession.opens(record)
    assert not HermesSession.opens({k: v for k, v in record.items() if k != "platform"})
    run = read(HermesSession(), record)
    assert [(s.actor, s.text) for s in run.steps] == [("user", "hi"), ("agent", "ho")]
    assert (run.task_id, run.tools) == ("hermes/s", None)
