from __future__ import annotations

from typing import Any

import pytest

from trajstore.importers.other_cli_events import CopilotSession, KimiSession
from trajstore.importers.other_cli_session import CliSession
from trajstore.schema import Trajectory, finish


def read(session: CliSession, *records: dict[str, Any]) -> list[Trajectory]:
    for record in records:
        session.add(record)
    return [finish(run) for run in session.trajectories("file")]


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "parentId": None}


START = event("session.start", sessionId="s")


def request(call_id: str) -> dict[str, Any]:
    return {"toolCallId": call_id, "name": "shell", "arguments": '{"c": 1}'}


def test_copilot_links_results_to_requests() -> None:
    done = {"success": False, "result": {"content": "boom"}}
    (run,) = read(
        CopilotSession(),
        START,
        event("user.message", content="go"),
        event("assistant.message", content="ok", toolRequests=[request("a"), request("b")]),
        event("tool.execution_complete", toolCallId="b", **done),
    )
    step = run.steps[1]
    assert [c.arguments for c in step.tool_calls] == ['{"c":1}', '{"c":1}']
    assert [(o.call_id, o.text, o.is_error) for o in step.observations] == [("b", "boom", True)]


def test_copilot_reasoning_of_a_message_wins_over_an_event_before_it() -> None:
    (run,) = read(
        CopilotSession(),
        START,
        event("assistant.reasoning", content="event"),
        event("assistant.message", content="a", reasoningText="own"),
        event("assistant.message", content="b"),
    )
    assert [s.reasoning for s in run.steps] == ["own", None]


def test_copilot_sub_agents_are_told_apart_by_their_call() -> None:
    main, first, second = read(
        CopilotSession(),
        START,
        event("assistant.message", content="both", toolRequests=[request("a"), request("b")]),
        event("assistant.message", content="A", parentToolCallId="a"),
        event("assistant.message", content="B", parentToolCallId="b"),
    )
    assert [s.text for s in main.steps] == ["both"]
    assert [first.task_id, second.task_id] == ["copilot/s/a", "copilot/s/b"]
    assert {first.parent_id, second.parent_id} == {main.trajectory_id}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (START, True),
        (event("assistant.turn_start"), True),
        ({"type": "session.start", "parentId": None}, False),
        ({"type": "message", "data": {}, "parentId": None}, False),
        ({"type": 1, "data": {}, "parentId": None}, False),
    ],
)
def test_what_is_a_copilot_event(record: dict[str, Any], *, expected: bool) -> None:
    assert CopilotSession.opens(record) is expected


OPENED = {"type": "metadata", "protocol_version": "1.4", "created_at": 1_785_612_803_281}


def typed(text: str, kind: str = "user") -> dict[str, Any]:
    message = {
        "role": "user",
        "content": [{"type": "text", "text": text}],
        "origin": {"kind": kind},
    }
    return {"type": "context.append_message", "message": message, "time": 1_785_612_812_820}


def loop(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": {"type": kind} | fields, "time": 1}


def test_kimi_parts_of_a_step_gather_and_an_empty_step_is_none() -> None:
    (run,) = read(
        KimiSession(),
        OPENED,
        typed("go"),
        loop("step.begin", uuid="given-up"),
        loop("step.begin", uuid="u"),
        loop("content.part", stepUuid="u", part={"type": "think", "think": "hm"}),
        loop("content.part", stepUuid="u", part={"type": "text", "text": "I look."}),
        loop("tool.call", stepUuid="u", toolCallId="a", name="Bash", args={"c": "ls"}),
        loop("tool.result", toolCallId="a", result={"output": "x", "isError": True}),
        loop("step.end", uuid="u", usage={"inputOther": 5, "inputCacheRead": 7, "output": 2}),
    )
    _, step = run.steps
    assert (step.reasoning, step.text, step.tool_calls[0].name) == ("hm", "I look.", "Bash")
    assert (step.observations[0].text, step.observations[0].is_error) == ("x", True)
    assert (step.prompt_tokens, step.cached_tokens, step.completion_tokens) == (12, 7, 2)


def test_kimi_calls_know_the_model_that_was_asked() -> None:
    (run,) = read(
        KimiSession(),
        OPENED,
        typed("go"),
        {"type": "llm.request", "model": "k2"},
        loop("content.part", stepUuid="u", part={"type": "text", "text": "a"}),
    )
    assert [s.model for s in run.steps] == [None, "k2"]


def test_a_growing_kimi_log_keeps_its_id_and_another_log_has_another() -> None:
    answer = loop("content.part", stepUuid="u", part={"type": "text", "text": "a"})
    (short,) = read(KimiSession(), OPENED, typed("go"))
    (longer,) = read(KimiSession(), OPENED, typed("go"), answer, typed("more"))
    (other,) = read(KimiSession(), OPENED | {"created_at": 5}, typed("go"))
    assert short.trajectory_id == longer.trajectory_id
    assert short.trajectory_id != other.trajectory_id


def test_kimi_injections_are_not_the_users() -> None:
    (run,) = read(KimiSession(), OPENED, typed("remember", kind="injection"), typed("go"))
    assert [s.actor for s in run.steps] == ["environment", "user"]
    assert run.goal == "go"
