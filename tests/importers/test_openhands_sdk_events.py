"""Events of the OpenHands SDK: which make a step, how calls and results meet, what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.openhands_sdk_events import Conversation, finished_steps, is_sdk_event
from trajstore.schema import Step


def conversation(*events: dict[str, Any]) -> Conversation:
    return Conversation().read(events)


def steps(*events: dict[str, Any]) -> tuple[Step, ...]:
    return finished_steps(conversation(*events), None)


def event(kind: str, number: int = 1, source: str = "agent", **more: Any) -> dict[str, Any]:
    stamp = f"2026-01-02T03:04:{number:02}"
    return {"id": f"e{number}", "timestamp": stamp, "source": source, "kind": kind, **more}


def text(value: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value, "cache_prompt": False}]


def said(value: str, number: int = 1, source: str = "user", **more: Any) -> dict[str, Any]:
    role = "assistant" if source == "agent" else "user"
    message = {"role": role, "content": text(value), "thinking_blocks": []}
    return event("MessageEvent", number, source, llm_message=message, **more)


def acted(number: int, response: str = "r1", thought: str | None = None, **more: Any) -> Any:
    call = {"id": f"c{number}", "name": "terminal", "arguments": f'{{"n": {number}}}'}
    fields = {
        "thought": [] if thought is None else text(thought),
        "action": {"kind": "TerminalAction", "n": number},
        "tool_name": "terminal",
        "tool_call_id": f"c{number}",
        "tool_call": call,
        "llm_response_id": response,
        "security_risk": "LOW",
    }
    return event("ActionEvent", number, **{**fields, **more})


def observed(number: int, value: str = "ok", **more: Any) -> dict[str, Any]:
    seen = {"kind": "TerminalObservation", "content": text(value), "is_error": False, **more}
    return event(
        "ObservationEvent",
        40 + number,
        "environment",
        observation=seen,
        tool_name="terminal",
        tool_call_id=f"c{number}",
        action_id=f"e{number}",
    )


def noted(step: Step) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(step.metadata or "{}")["events"]
    return events


def test_actions_of_one_response_are_one_step() -> None:
    (step,) = steps(acted(1, thought="Both."), acted(2), observed(2, "two"), observed(1, "one"))
    assert step.text == "Both."
    assert [(c.call_id, c.arguments_raw) for c in step.tool_calls] == [
        ("c1", '{"n": 1}'),
        ("c2", '{"n": 2}'),
    ]
    assert [(o.call_id, o.text) for o in step.observations] == [("c2", "two"), ("c1", "one")]


def test_another_response_is_another_step() -> None:
    found = steps(acted(1), observed(1), acted(2, "r2"), observed(2))
    assert [len(s.tool_calls) for s in found] == [1, 1]


def test_no_thought_is_none_and_an_empty_thought_stays_empty() -> None:
    found = steps(acted(1), acted(2, "r2", thought=""))
    assert [s.text for s in found] == [None, ""]


def test_a_call_that_could_not_be_validated_is_a_format_error() -> None:
    bad = {"id": "c1", "name": "terminal", "arguments": '{"n": '}
    error = event("AgentErrorEvent", 9, error="Bad JSON", tool_name="terminal", tool_call_id="c1")
    (step,) = steps(acted(1, action=None, tool_call=bad), error)
    assert step.format_error
    assert (step.tool_calls[0].arguments, step.tool_calls[0].arguments_raw) == (None, '{"n": ')
    assert (step.observations[0].text, step.observations[0].is_error) == ("Bad JSON", True)


def test_errors_are_what_the_observation_says() -> None:
    (step,) = steps(acted(1), acted(2), observed(1, is_error=True), observed(2))
    assert [o.is_error for o in step.observations] == [True, False]


def test_a_rejected_call_says_why() -> None:
    no = event("UserRejectObservation", 9, rejection_reason="no", tool_call_id="c1", action_id="e1")
    (step,) = steps(acted(1), no)
    assert (step.observations[0].text, step.observations[0].is_error) == (
        "Action rejected: no",
        None,
    )


def test_an_observation_whose_action_is_missing_is_kept() -> None:
    (step,) = steps(acted(1), observed(1, "mine"), observed(7, "orphan"))
    assert [(o.call_id, o.text) for o in step.observations] == [("c1", "mine"), ("c7", "orphan")]
    (alone,) = steps(observed(7, "orphan"))
    assert (alone.actor, alone.observations[0].call_id) == ("environment", "c7")


def test_repeated_call_ids_are_answered_in_their_own_step() -> None:
    def again(number: int, response: str) -> Any:
        call = {"id": "same", "name": "terminal", "arguments": "{}"}
        return acted(number, response, tool_call=call, tool_call_id="same")

    late = {**observed(2, "second"), "tool_call_id": "same"}
    early = {**observed(1, "first"), "tool_call_id": "same"}
    found = steps(again(1, "r1"), again(2, "r2"), late, early)
    assert [[o.text for o in s.observations] for s in found] == [["first"], ["second"]]


def test_the_system_prompt_holds_its_dynamic_part_and_the_tools() -> None:
    first = event(
        "SystemPromptEvent",
        system_prompt={"type": "text", "text": "You are"},
        dynamic_context={"type": "text", "text": "Host: h"},
        tools=[{"title": "terminal"}],
    )
    later = event(
        "SystemPromptUpdateEvent",
        2,
        system_prompt={"text": "You are"},
        tools=[{"title": "terminal"}, {"title": "editor"}],
        reason="tools_changed",
    )
    found = conversation(first, later)
    assert [(s.actor, s.text) for s in finished_steps(found, None)] == [
        ("system", "You are\nHost: h"),
        ("system", "You are"),
    ]
    assert [t["title"] for t in found.tools or ()] == ["terminal", "editor"]


def test_messages_belong_to_their_source_and_hold_what_skills_added() -> None:
    found = steps(
        said("Do it", extended_content=text("Skill says so")),
        said("Done", 2, "agent", llm_response_id="r1"),
        said("Go on", 3, "environment"),
        said("Blocked", 4, "hook"),
    )
    assert [(s.actor, s.text) for s in found] == [
        ("user", "Do it\nSkill says so"),
        ("agent", "Done"),
        ("environment", "Go on"),
        ("environment", "Blocked"),
    ]


def test_pictures_stay_parts() -> None:
    picture = {"type": "image", "image_urls": ["data:image/png;base64,AA"]}
    message = {"role": "user", "content": [*text("See"), picture]}
    (step,) = steps(event("MessageEvent", source="user", llm_message=message))
    assert step.text == "See"
    assert json.loads(step.content or "")[1] == picture


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"reasoning_content": "Hm."}, "Hm."),
        ({"thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]}, "Hm."),
        ({"thinking_blocks": [{"type": "redacted_thinking", "data": "x"}]}, None),
        ({"responses_reasoning_item": {"summary": ["A", "B"], "encrypted_content": "x"}}, "A\nB"),
        ({}, None),
    ],
)
def test_only_readable_thinking_is_reasoning(fields: dict[str, Any], reasoning: str | None) -> None:
    (step,) = steps(acted(1, **fields))
    assert step.reasoning == reasoning


def test_signed_blocks_are_kept_beside_the_reasoning() -> None:
    block = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    (step,) = steps(acted(1, thinking_blocks=[block]))
    assert noted(step)[0]["thinking_blocks"] == [block]


def test_a_condensation_is_an_event_and_removes_nothing() -> None:
    gone = event(
        "Condensation", 2, "environment", forgotten_event_ids=["e1"], summary="They said hi"
    )
    found = steps(said("hi"), gone)
    assert [(s.actor, s.text) for s in found] == [("user", "hi"), ("environment", "They said hi")]
    assert noted(found[1])[0]["forgotten_event_ids"] == ["e1"]


@pytest.mark.parametrize("kind", ["PauseEvent", "CondensationRequest", "SomethingNew"])
def test_other_kinds_are_events_and_kept_whole(kind: str) -> None:
    (step,) = steps(event(kind, 1, "user", detail_level=3))
    assert (step.actor, step.text) == ("environment", None)
    assert noted(step)[0] == {
        "id": "e1",
        "kind": kind,
        "detail_level": 3,
        "timestamp": "2026-01-02T03:04:01",
    }


def test_an_error_of_the_conversation_ends_the_run() -> None:
    found = conversation(event("ConversationErrorEvent", code="LLMTimeout", detail="no answer"))
    assert (found.error, found.reason) == ("no answer", "LLMTimeout")
    assert finished_steps(found, None)[0].text == "no answer"


def test_reports_and_pieces_make_no_step() -> None:
    found = conversation(
        event("ConversationStateUpdateEvent", key="execution_status", value="running"),
        event("StreamingDeltaEvent", 2, content="Do"),
        event("ConversationStateUpdateEvent", 3, key="execution_status", value="finished"),
    )
    assert found.builder.drafts == []
    assert found.state == {"execution_status": "finished"}
    assert found.first_id is None


def test_token_ids_belong_to_the_response_before_them() -> None:
    ids = event("TokenEvent", 9, prompt_token_ids=[1, 2], response_token_ids=[3])
    (step,) = steps(acted(1), observed(1), ids)
    assert (step.prompt_token_ids, step.completion_token_ids) == ((1, 2), (3,))


def test_completion_logs_in_the_stream_give_usage() -> None:
    data = {
        "response": {"id": "r1", "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        "latency_sec": 1.5,
    }
    found = conversation(
        acted(1), event("LLMCompletionLogEvent", 9, filename="f", log_data=json.dumps(data))
    )
    assert found.logged == {"r1": {"prompt_tokens": 7, "completion_tokens": 2, "latency": 1.5}}
    assert len(found.builder.drafts) == 1


def test_calls_behind_the_agent_protocol_are_updated_in_place() -> None:
    begun = event("ACPToolCallEvent", tool_call_id="x", title="Read f", raw_input={"path": "f"})
    done = {**begun, "id": "e2", "status": "failed", "raw_output": "no such file"}
    (step,) = steps(begun, done)
    assert [(c.name, c.arguments) for c in step.tool_calls] == [("Read f", '{"path":"f"}')]
    assert [(o.text, o.is_error) for o in step.observations] == [("no such file", True)]


def test_what_has_no_column_is_noted() -> None:
    (step,) = steps(acted(1, summary="lists"), observed(1, exit_code=0, metadata={"pid": 4}))
    action, result = noted(step)
    assert (action["security_risk"], action["summary"]) == ("LOW", "lists")
    assert (result["result"]["exit_code"], result["result"]["metadata"]) == (0, {"pid": 4})
    assert "arguments" not in json.dumps(action)


def test_the_first_question_is_the_goal() -> None:
    assert conversation(said("One"), said("Two", 2)).goal == "One"


def test_an_event_without_its_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks"):
        conversation({"kind": "MessageEvent", "id": "1"})


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"id": "1", "timestamp": "t", "source": "assistant", "kind": "MessageEvent"},
        {"id": "1", "timestamp": "t", "source": "agent", "action": "run"},
    ],
)
def test_other_values_are_no_events(value: Any) -> None:
    assert not is_sdk_event(value)
