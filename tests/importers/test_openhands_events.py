"""The event stream of OpenHands V0: which events make a step, and what each step holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.openhands_events import Stream, flatten, is_event
from trajstore.schema import Step


def steps(*events: dict[str, Any], latencies: dict[str, float] | None = None) -> tuple[Step, ...]:
    return Stream().read(events).steps(latencies or {})


def action(kind: str, number: int = 1, source: str = "agent", **args: Any) -> dict[str, Any]:
    return {
        "id": number,
        "timestamp": f"2025-01-02T03:04:{number:02}",
        "source": source,
        "action": kind,
        "args": args,
    }


def result(
    cause: int | None, content: str = "ok", kind: str = "run", **more: Any
) -> dict[str, Any]:
    event = {"id": 90, "timestamp": "2025-01-02T03:05:00", "source": "agent", "observation": kind}
    event |= {"content": content, "extras": {}} | more
    return event if cause is None else {**event, "cause": cause}


def answered(
    event: dict[str, Any],
    call_id: str = "t1",
    *,
    response: str = "r1",
    content: str | None = "Let me look.",
    arguments: str = '{"command": "ls"}',
    total: int = 1,
) -> dict[str, Any]:
    """The event with the model response that it came from."""
    call = {"id": call_id, "function": {"name": "execute_bash", "arguments": arguments}}
    about = {
        "function_name": "execute_bash",
        "tool_call_id": call_id,
        "total_calls_in_response": total,
        "model_response": {
            "id": response,
            "model": "m",
            "choices": [{"message": {"content": content, "tool_calls": [call]}}],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 60},
            },
        },
    }
    return {**event, "tool_call_metadata": about}


def noted(step: Step) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(step.metadata or "{}")["events"]
    return events


def test_an_action_and_its_observation_are_one_step() -> None:
    (step,) = steps(action("run", 1, command="ls", thought="Look."), result(1, "a.txt"))
    (call,) = step.tool_calls
    (seen,) = step.observations
    assert (step.actor, step.text) == ("agent", "Look.")
    assert (call.name, call.arguments, call.call_id) == ("run", '{"command":"ls"}', "1")
    assert (seen.text, seen.call_id) == ("a.txt", "1")


def test_the_model_response_gives_text_call_and_tokens() -> None:
    event = answered(action("run", 1, command="ls", thought="other words", blocking=False))
    (step,) = steps(event, result(1), latencies={"r1": 2.5})
    (call,) = step.tool_calls
    assert (step.text, step.model, step.latency_s) == ("Let me look.", "m", 2.5)
    assert (call.name, call.arguments_raw, call.call_id) == (
        "execute_bash",
        '{"command": "ls"}',
        "t1",
    )
    assert (step.prompt_tokens, step.completion_tokens, step.cached_tokens) == (100, 7, 60)


def test_no_text_in_the_response_is_none_and_empty_text_stays_empty() -> None:
    found = steps(
        answered(action("run", 1, thought=""), content=None),
        answered(action("run", 2, thought=""), "t2", response="r2", content=""),
    )
    assert [s.text for s in found] == [None, ""]


def test_parallel_calls_of_one_response_are_one_step_with_tokens_once() -> None:
    first = answered(action("run", 1), "t1", total=2)
    second = answered(action("run", 2), "t2", total=2, arguments='{"command": "pwd"}')
    (step,) = steps(first, second, result(2, "two"), result(1, "one"))
    assert [c.call_id for c in step.tool_calls] == ["t1", "t2"]
    assert [c.name for c in step.tool_calls] == ["execute_bash", "execute_bash"]
    assert [(o.call_id, o.text) for o in step.observations] == [("t2", "two"), ("t1", "one")]
    assert (step.prompt_tokens, step.completion_tokens, step.text) == (100, 7, "Let me look.")


def test_the_response_repeated_on_the_observation_is_not_counted_again() -> None:
    found = steps(answered(action("run", 1)), answered(result(1)))
    assert [s.prompt_tokens for s in found] == [100]


def test_broken_arguments_are_kept_as_written() -> None:
    (step,) = steps(answered(action("run", 1), arguments='{"command": "ls'))
    (call,) = step.tool_calls
    assert (call.arguments, call.arguments_raw) == (None, '{"command": "ls')


def test_an_observation_without_cause_goes_by_its_call_id() -> None:
    late = answered(result(None, "late"), "t1")
    found = steps(answered(action("run", 1)), answered(action("run", 2), "t2", response="r2"), late)
    assert [[o.text for o in s.observations] for s in found] == [["late"], []]


def test_orphan_observations_are_kept() -> None:
    (alone,) = steps(result(7, "from nowhere"))
    assert (alone.actor, alone.observations[0].text) == ("environment", "from nowhere")
    (step,) = steps(action("run", 1), result(1, "mine"), result(7, "from nowhere"))
    assert [o.text for o in step.observations] == ["mine", "from nowhere"]


def test_a_call_without_an_observation_is_kept() -> None:
    (step,) = steps(action("finish", 1, outputs={}, thought="Done."))
    assert [c.name for c in step.tool_calls] == ["finish"]
    assert step.observations == ()


def test_system_event_gives_the_prompt_and_the_tools() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    event = action(
        "system", 1, content="You are", tools=tools, agent_class="C", openhands_version="0.5"
    )
    stream = Stream().read([event])
    (step,) = stream.steps({})
    assert (step.actor, step.text) == ("system", "You are")
    assert (stream.tools, stream.agent_class, stream.version) == (tools, "C", "0.5")


def test_messages_belong_to_their_source() -> None:
    found = steps(
        action("message", 1, "user", content="Do it"),
        action("message", 2, "agent", content="Which one?", wait_for_response=True),
        action("message", 3, "environment", content="Hint"),
    )
    assert [(s.actor, s.text) for s in found] == [
        ("user", "Do it"),
        ("agent", "Which one?"),
        ("environment", "Hint"),
    ]


def test_pictures_of_a_message_become_parts() -> None:
    (step,) = steps(
        action("message", 1, "user", content="See", image_urls=["data:image/png;base64,AA"])
    )
    assert json.loads(step.content or "") == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]


def test_a_screenshot_becomes_a_part_of_the_observation() -> None:
    shown = result(1, "page", "browse", extras={"screenshot": "AA", "url": "http://x"})
    (step,) = steps(action("browse", 1, url="http://x"), shown)
    parts = json.loads(step.observations[0].content or "")
    assert parts[1]["image_url"]["url"] == "data:image/png;base64,AA"
    assert "screenshot" not in (step.metadata or "")


@pytest.mark.parametrize(
    "event",
    [
        action("recall", 1, "user", query="Do it"),
        action("change_agent_state", 1, agent_state="running"),
        action("condensation", 1, forgotten_event_ids=[2], summary="Before: much"),
        result(1, "Added context", "recall", extras={"date": "2025"}),
        result(None, "", "agent_state_changed", extras={"agent_state": "finished"}),
        result(1, "", "null"),
        result(None, "Bad call", "error", extras={"error_id": ""}),
    ],
)
def test_what_nobody_said_is_an_event(event: dict[str, Any]) -> None:
    (step,) = steps(event)
    assert (step.actor, step.tool_calls, step.observations) == ("environment", (), ())
    assert noted(step)[0]["id"] == event["id"]


def test_a_condensation_says_its_summary() -> None:
    (step,) = steps(action("condensation", 1, forgotten_event_ids=[2, 3], summary="Before: much"))
    assert step.text == "Before: much"
    assert noted(step)[0]["forgotten_event_ids"] == [2, 3]


def test_a_recall_does_not_repeat_the_question() -> None:
    said = "Do it, please."
    (_, step) = steps(
        action("message", 1, "user", content=said), action("recall", 2, "user", query=said)
    )
    assert said not in (step.metadata or "")


def test_the_last_state_and_the_last_action_are_known() -> None:
    stream = Stream().read(
        [
            action("run", 1, command="ls"),
            result(None, "", "agent_state_changed", extras={"agent_state": "error"}),
        ]
    )
    assert (stream.state, stream.last_action) == ("error", "run")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (result(1, kind="error"), True),
        (result(1, success=False), True),
        (result(1, success=True), False),
        (result(1, extras={"metadata": {"exit_code": 2}}), True),
        (result(1, extras={"exit_code": 0}), False),
        (result(1, "ERROR:\nNo match", "edit", extras={"impl_source": "oh_aci"}), True),
        (result(1, "Done", "edit", extras={"impl_source": "oh_aci"}), False),
        (result(1, "text", "read"), None),
    ],
)
def test_errors_are_what_the_event_says(event: dict[str, Any], expected: object) -> None:
    (step,) = steps(action("run", 1, command="ls"), event)
    assert step.observations[0].is_error is expected


def test_a_thought_is_the_argument_of_the_think_tool() -> None:
    (step,) = steps(action("think", 1, thought="Hm."))
    assert (step.text, step.tool_calls[0].arguments) == (None, '{"thought":"Hm."}')


def test_an_mcp_call_has_the_name_and_arguments_of_its_tool() -> None:
    event = action("call_tool_mcp", 1, name="fetch", arguments={"url": "u"}, thought="")
    (step,) = steps(event)
    assert (step.tool_calls[0].name, step.tool_calls[0].arguments) == ("fetch", '{"url":"u"}')


def test_a_command_of_the_user_is_a_user_step() -> None:
    (step,) = steps(action("run", 1, "user", command="ls"), result(1, "a.txt"))
    assert (step.actor, step.observations[0].text) == ("user", "a.txt")


def test_what_has_no_column_is_noted_and_copies_are_not() -> None:
    before = action("edit", 1, path="/f", content="", impl_source="oh_aci")
    extras = {"path": "/f", "old_content": "A" * 99, "new_content": "B", "diff": "-A", "kept": 1}
    (step,) = steps(before, result(1, "-A", "edit", extras=extras))
    (_, seen) = noted(step)
    assert seen == {
        "id": 90,
        "observation": "edit",
        "kept": 1,
        "timestamp": "2025-01-02T03:05:00",
    }


def flat(*entries: dict[str, Any]) -> tuple[Step, ...]:
    return steps(*flatten(entries))


def test_flat_events_of_2024_are_read() -> None:
    found = flat(
        {"action": "message", "content": "Fix it", "wait_for_response": False},
        {"action": "run", "command": "ls", "thought": "Look.", "is_confirmed": "confirmed"},
        {"observation": "run", "content": "a.txt", "command": "ls", "exit_code": 1},
        {"action": "message", "content": "Which?", "wait_for_response": True},
        {"action": "message", "content": "That one", "wait_for_response": False},
        {"action": "finish", "outputs": {}, "thought": "Done."},
    )
    assert [s.actor for s in found] == ["user", "agent", "agent", "user", "agent"]
    assert found[1].tool_calls[0].arguments == '{"command":"ls"}'
    assert (found[1].observations[0].text, found[1].observations[0].is_error) == ("a.txt", True)


def test_pairs_of_old_outputs_are_taken_apart() -> None:
    pair = [
        {"action": "run", "command": "ls", "thought": ""},
        {"observation": "run", "content": "a.txt", "exit_code": 0},
    ]
    (step,) = steps(*flatten([pair]))
    assert (step.tool_calls[0].name, step.observations[0].text) == ("run", "a.txt")


def test_flatten_refuses_what_is_no_event() -> None:
    with pytest.raises(ValueError, match="no event"):
        list(flatten([{"role": "user", "content": "x"}]))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"action": "run"},
        {"action": "run", "observation": "ok", "thought": "x"},
        {"role": "assistant", "action": "run", "thought": "x"},
        {"kind": "ActionEvent", "action": "run", "args": {}},
        {"observation": {"text": 1}, "content": "x"},
    ],
)
def test_other_values_are_no_events(value: Any) -> None:
    assert not is_event(value)
