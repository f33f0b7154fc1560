"""tau2-bench messages: whose call it is, where its result goes, and what speech becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.tau2_messages import message_steps, tick_steps
from trajstore.schema import Step

HELLO = {"role": "user", "content": "hi", "tool_calls": None}


def call(name: str, call_id: str, requestor: str = "assistant") -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": {"a": 1}, "requestor": requestor}


def asks(*calls: dict[str, Any], role: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": None, "tool_calls": list(calls), **more}


def result(text: str, call_id: str, requestor: str = "assistant", **more: Any) -> dict[str, Any]:
    given = {"id": call_id, "role": "tool", "content": text, "requestor": requestor}
    return {**given, "error": False, **more}


def seen(step: Step) -> list[str | None]:
    return [o.text for o in step.observations]


def test_call_with_its_result_is_one_agent_step() -> None:
    user, agent = message_steps([HELLO, asks(call("look", "x")), result("found", "x")])
    assert (user.actor, agent.actor, agent.text) == ("user", "agent", None)
    assert (agent.tool_calls[0].name, agent.tool_calls[0].arguments) == ("look", '{"a":1}')
    assert seen(agent) == ["found"]


def test_call_of_the_simulated_user_is_on_the_users_step() -> None:
    said = {"role": "assistant", "content": "Please restart it."}
    agent, user = message_steps(
        [said, asks(call("restart", "x", "user"), role="user"), result("ok", "x", "user")]
    )
    assert (agent.tool_calls, agent.observations) == ((), ())
    assert (user.actor, user.tool_calls[0].name, seen(user)) == ("user", "restart", ["ok"])


def test_user_and_agent_may_use_the_same_call_id() -> None:
    found = message_steps(
        [
            asks(call("agents", "x")),
            asks(call("users", "x", "user"), role="user"),
            result("for the user", "x", "user"),
            result("for the agent", "x"),
        ]
    )
    assert [seen(s) for s in found] == [["for the agent"], ["for the user"]]


def test_repeated_id_links_to_the_latest_open_call() -> None:
    found = message_steps(
        [
            asks(call("a", "x")),
            HELLO,
            asks(call("b", "x")),
            result("B", "x"),
        ]
    )
    assert [seen(s) for s in found] == [[], [], ["B"]]


def test_parallel_calls_stay_one_step_and_keep_their_ids() -> None:
    (step,) = message_steps(
        [asks(call("a", "1"), call("b", "2")), result("B", "2"), result("A", "1")]
    )
    assert [c.call_id for c in step.tool_calls] == ["1", "2"]
    assert [(o.call_id, o.text) for o in step.observations] == [("2", "B"), ("1", "A")]


def test_multi_tool_message_holds_several_results() -> None:
    both = {"role": "tool", "tool_messages": [result("A", "1"), result("B", "2")]}
    (step,) = message_steps([asks(call("a", "1"), call("b", "2")), both])
    assert seen(step) == ["A", "B"]


def test_result_without_a_call_is_kept() -> None:
    (step,) = message_steps([{"role": "assistant", "content": "hi"}, result("lost", "9")])
    assert seen(step) == ["lost"]


@pytest.mark.parametrize(("error", "flag"), [(True, True), (False, False), (None, None)])
def test_error_flag_is_the_sources(error: object, flag: object) -> None:
    (step,) = message_steps([asks(call("a", "1")), result("x", "1", error=error)])
    assert step.observations[0].is_error is flag


def test_tokens_and_model_are_the_agents_call() -> None:
    response = {
        "id": "r1",
        "model": "gpt-x",
        "usage": {"prompt_tokens_details": {"cached_tokens": 4}},
        "choices": [{"finish_reason": "stop", "message": {"reasoning_content": "I think"}}],
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    message = {"role": "assistant", "content": "ok", "usage": usage, "raw_data": response}
    (step,) = message_steps([message | {"generation_time_seconds": 0.5, "cost": 0.01}])
    assert (step.prompt_tokens, step.completion_tokens, step.cached_tokens) == (10, 2, 4)
    assert (step.model, step.latency_s, step.reasoning) == ("gpt-x", 0.5, "I think")
    kept = json.loads(step.metadata or "")
    assert kept == {
        "cost": 0.01,
        "response": {"id": "r1", "model": "gpt-x", "finish_reason": "stop"},
    }


def test_tokens_of_the_simulated_user_are_not_the_agents() -> None:
    usage = {"prompt_tokens": 400, "completion_tokens": 20}
    (step,) = message_steps([HELLO | {"usage": usage, "raw_data": {"model": "gpt-4o"}}])
    assert (step.prompt_tokens, step.model) == (None, None)
    assert json.loads(step.metadata or "")["usage"] == usage


def test_fields_that_say_nothing_are_left_out() -> None:
    usual = {"is_audio": False, "is_final_chunk": True, "contains_speech": True, "cost": 0.0}
    (step,) = message_steps([HELLO | usual | {"turn_idx": 3, "audio_path": None}])
    assert step.metadata is None


def test_sound_is_replaced_by_its_script() -> None:
    sound = {"role": "user", "content": "UklGRg==", "is_audio": True, "audio_script_gold": "Hello"}
    (step,) = message_steps([sound])
    assert step.text == "Hello"
    assert "UklGRg" not in (step.metadata or "")


def test_null_and_empty_text_differ() -> None:
    found = message_steps([{"role": "assistant", "content": t} for t in (None, "")])
    assert [s.text for s in found] == [None, ""]


# --- ticks ------------------------------------------------------------------------------------


def tick(agent: str | None = None, user: str | None = None, **more: Any) -> dict[str, Any]:
    chunks = {"agent_chunk": ("assistant", agent), "user_chunk": ("user", user)}
    made = {k: {"role": r, "content": t} for k, (r, t) in chunks.items()}
    return {"timestamp": "2026-06-30T11:40:29", **made, **more}


def test_chunks_of_an_utterance_are_one_step_and_silence_is_none() -> None:
    found = tick_steps([tick(), tick("Hel"), tick("lo."), tick(), tick(user="Hi"), tick()])
    assert [(s.actor, s.text) for s in found] == [("agent", "Hello."), ("user", "Hi")]


def test_overlapping_speech_is_told_apart_by_utterance() -> None:
    def chunk(role: str, text: str, utterance: str) -> dict[str, Any]:
        return {"role": role, "content": text, "utterance_ids": [utterance]}

    ticks = [
        {"agent_chunk": chunk("assistant", "I can", "a"), "user_chunk": chunk("user", "wa", "u")},
        {"agent_chunk": chunk("assistant", " help", "a"), "user_chunk": chunk("user", "it", "u")},
    ]
    assert [(s.actor, s.text) for s in tick_steps(ticks)] == [
        ("agent", "I can help"),
        ("user", "wait"),
    ]


def test_a_new_utterance_without_a_pause_is_set_off_by_a_space() -> None:
    ticks = [
        {"agent_chunk": {"role": "assistant", "content": text, "utterance_ids": [name]}}
        for text, name in (("One.", "a"), ("Two.", "b"))
    ]
    assert [s.text for s in tick_steps(ticks)] == ["One. Two."]


def test_calls_in_ticks_have_their_results() -> None:
    calls: dict[str, Any] = {
        "agent_tool_calls": [call("look", "x")],
        "agent_tool_results": [result("found", "x")],
    }
    users: dict[str, Any] = {
        "user_tool_calls": [call("restart", "y", "user")],
        "user_tool_results": [result("done", "y", "user")],
    }
    found = tick_steps([tick("Wait"), tick(**calls), tick("Here"), tick(**users)])
    assert [(s.actor, s.text, seen(s)) for s in found] == [
        ("agent", "Wait", []),
        ("agent", None, ["found"]),
        ("agent", "Here", []),
        ("user", None, ["done"]),
    ]
