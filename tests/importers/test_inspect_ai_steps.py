"""Steps of an Inspect sample: actors, calls, results, and the model event of each answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.inspect_ai_steps import ModelCalls, message_steps, token_counts
from trajstore.schema import Step


def steps(
    *messages: dict[str, Any], events: list[dict[str, Any]] | None = None
) -> tuple[Step, ...]:
    return message_steps(messages, ModelCalls().read(events or []))


def asked(text: str = "Do it") -> dict[str, Any]:
    return {"role": "user", "content": text, "source": "input"}


def answer(content: Any = "ok", *calls: str, **more: Any) -> dict[str, Any]:
    tools = [{"id": c, "function": "bash", "arguments": {"cmd": c}} for c in calls]
    message = {"role": "assistant", "content": content, "source": "generate"}
    return {**message, **({"tool_calls": tools} if tools else {}), **more}


def result(call_id: str, content: Any = "fine", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "function": "bash", "content": content, **more}


def model_event(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    choice = {"message": message, "stop_reason": "stop"}
    output = {"model": "m-1", "choices": [choice], "usage": usage, "time": 0.5}
    event = {"event": "model", "model": "p/m", "timestamp": "2025-01-02T03:04:05+00:00"}
    return {**event, "config": {"temperature": 0.5}, "input": [], "output": output, **more}


def about(step: Step) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(step.metadata or "{}")
    return kept


def test_an_answer_with_its_calls_and_results_is_one_step() -> None:
    found = steps(asked(), answer("look", "a", "b"), result("b", "B"), result("a", "A"))
    assert [s.actor for s in found] == ["user", "agent"]
    step = found[1]
    assert [(c.call_id, c.name, c.arguments) for c in step.tool_calls] == [
        ("a", "bash", '{"cmd":"a"}'),
        ("b", "bash", '{"cmd":"b"}'),
    ]
    assert [(o.call_id, o.text, o.is_error) for o in step.observations] == [
        ("b", "B", False),
        ("a", "A", False),
    ]


def test_repeated_call_ids_are_answered_in_order() -> None:
    found = steps(answer("1", "a"), result("a", "first"), answer("2", "a"), result("a", "second"))
    assert [s.observations[0].text for s in found] == ["first", "second"]


def test_a_failed_result_shows_what_the_model_was_shown() -> None:
    error = {"type": "timeout", "message": "Timed out after 5 s"}
    found = steps(answer("x", "a"), result("a", "half an outp", error=error))
    (seen,) = found[0].observations
    assert (seen.text, seen.is_error) == ("Timed out after 5 s", True)
    (note,) = about(found[0])["results"]
    assert (note["call_id"], note["error"], note["output"]) == ("a", "timeout", "half an outp")


def test_the_tool_error_of_old_logs_is_an_error() -> None:
    found = steps(answer("x", "a"), result("a", "", tool_error="boom"))
    assert (found[0].observations[0].text, found[0].observations[0].is_error) == ("boom", True)


def test_a_result_without_any_call_stands_alone() -> None:
    found = steps(result("a", "A"), result("b", "B"))
    assert [(s.actor, s.observations[0].text) for s in found] == [
        ("environment", "A"),
        ("environment", "B"),
    ]


def test_pictures_in_a_result_stay_parts() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image", "image": "data:image/png;base64,A"}]
    (step,) = steps(answer("x", "a"), result("a", parts))
    assert step.observations[0].text == "see"
    assert json.loads(step.observations[0].content or "") == parts


def test_reasoning_parts_are_reasoning() -> None:
    parts = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "ok"}]
    (step,) = steps(answer(parts))
    assert (step.reasoning, step.text, step.content) == ("Hm.", "ok", None)


def test_signed_reasoning_keeps_its_part() -> None:
    signed = {"type": "reasoning", "reasoning": "Hm.", "signature": "s"}
    (step,) = steps(answer([signed, {"type": "text", "text": "ok"}]))
    assert step.reasoning == "Hm."
    assert json.loads(step.content or "")[0] == signed


def test_redacted_reasoning_is_not_shown_as_text() -> None:
    hidden = {"type": "reasoning", "reasoning": "gAAAA", "redacted": True}
    (step,) = steps(answer([hidden, {"type": "text", "text": "ok"}]))
    assert step.reasoning is None
    assert json.loads(step.content or "")[0] == hidden
    (told,) = steps(answer([{**hidden, "summary": "It thinks."}]))
    assert told.reasoning == "It thinks."


def test_the_reasoning_field_of_old_logs_is_reasoning() -> None:
    (step,) = steps(answer("ok", reasoning="Hm."))
    assert step.reasoning == "Hm."


def test_tools_of_the_models_server_are_calls_with_results() -> None:
    part = {
        "type": "tool_use",
        "tool_type": "web_search",
        "id": "s1",
        "name": "web_search",
        "arguments": '{"q": "x"}',
        "result": "found",
        "error": None,
    }
    (step,) = steps(answer([part, {"type": "text", "text": "ok"}]))
    assert [(c.name, c.arguments_raw) for c in step.tool_calls] == [("web_search", '{"q": "x"}')]
    assert [(o.call_id, o.text, o.is_error) for o in step.observations] == [("s1", "found", False)]
    assert step.content is None


def test_a_call_that_did_not_parse_is_a_format_error() -> None:
    bad = answer("x", "a")
    bad["tool_calls"][0] |= {"arguments": {}, "parse_error": "no JSON: {'cmd"}
    (step,) = steps(bad)
    assert step.format_error
    assert about(step)["parse_errors"] == {"a": "no JSON: {'cmd"}
    assert not steps(answer("x", "a"))[0].format_error


def test_the_model_event_of_an_answer_is_found_by_id() -> None:
    first, second = answer("same", id="1"), answer("same", id="2")
    usage = {"input_tokens": 99, "output_tokens": 9, "total_tokens": 108}
    late = model_event(second)
    late["output"]["usage"] = usage
    found = steps(first, second, events=[late, model_event(first)])
    assert [(s.prompt_tokens, s.completion_tokens) for s in found] == [(10, 2), (99, 9)]
    assert (found[0].model, found[0].latency_s) == ("m-1", 0.5)
    assert found[0].sampling == '{"temperature":0.5}'
    assert found[0].timestamp is not None


def test_without_ids_equal_answers_take_their_events_in_order() -> None:
    events = [model_event(answer("same")), model_event(answer("same"))]
    events[1]["output"]["usage"] = {"input_tokens": 20, "output_tokens": 4, "total_tokens": 24}
    calls = ModelCalls().read(events)
    found = message_steps([answer("same"), answer("same")], calls)
    assert [s.prompt_tokens for s in found] == [10, 20]
    assert calls.used == events


def test_events_of_graders_and_sub_agents_are_not_used() -> None:
    grader = model_event(answer("GRADE: C", id="g"))
    calls = ModelCalls().read([model_event(answer("ok", id="1")), grader, {"event": "info"}])
    (step,) = message_steps([answer("ok", id="1")], calls)
    assert step.prompt_tokens == 10
    assert grader not in calls.used


def test_an_answer_without_event_has_no_tokens() -> None:
    (step,) = steps(answer("ok", id="1", model="m"))
    assert (step.prompt_tokens, step.model) == (None, "m")


def test_logprobs_are_kept() -> None:
    event = model_event(answer("ok", id="1"))
    content = [{"token": "o", "logprob": -0.5}, {"token": "k", "logprob": -1.0}]
    event["output"]["choices"][0]["logprobs"] = {"content": content}
    (step,) = steps(answer("ok", id="1"), events=[event])
    assert step.logprobs == (-0.5, -1.0)


def test_what_has_no_column_is_kept_and_the_prompt_is_not() -> None:
    event = model_event(
        answer("ok", id="1"), input=[asked("long prompt")], retries=2, cache="read", call={"r": 1}
    )
    event["output"]["choices"].append({"message": answer("other")})
    (step,) = steps(answer("ok", id="1", metadata={"k": 1}), events=[event])
    kept = about(step)
    assert (kept["id"], kept["source"], kept["metadata"]) == ("1", "generate", {"k": 1})
    model = kept["model_event"]
    assert (model["retries"], model["cache"], model["stop_reason"]) == (2, "read", "stop")
    assert model["other_choices"][0]["message"]["content"] == "other"
    assert "long prompt" not in (step.metadata or "")
    assert "call" not in model


@pytest.mark.parametrize(
    ("usage", "prompt", "cached"),
    [
        ({"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}, 10, None),
        # an older log of OpenAI: the cached tokens are inside
        (
            {
                "input_tokens": 5915,
                "output_tokens": 207,
                "total_tokens": 6122,
                "input_tokens_cache_read": 3840,
            },
            5915,
            3840,
        ),
        # a newer log: they are outside, read and written
        (
            {
                "input_tokens": 10,
                "output_tokens": 2,
                "total_tokens": 112,
                "input_tokens_cache_read": 60,
                "input_tokens_cache_write": 40,
            },
            110,
            60,
        ),
        # thinking counted beside the output, cached tokens inside
        (
            {
                "input_tokens": 50,
                "output_tokens": 2,
                "total_tokens": 60,
                "reasoning_tokens": 8,
                "input_tokens_cache_read": 40,
            },
            50,
            40,
        ),
        # no total: the documented meaning
        ({"input_tokens": 10, "output_tokens": 2, "input_tokens_cache_read": 60}, 70, 60),
    ],
)
def test_the_prompt_holds_its_cached_tokens(
    usage: dict[str, int], prompt: int, cached: int | None
) -> None:
    counts = token_counts(usage)
    assert (counts["prompt_tokens"], counts.get("cached_tokens")) == (prompt, cached)


def test_no_usage_is_no_count() -> None:
    assert token_counts(None) == {}


def test_a_message_without_role_is_refused() -> None:
    with pytest.raises(KeyError):
        steps({"content": "x"})


def test_unknown_roles_are_events() -> None:
    (step,) = steps({"role": "narrator", "content": "Night falls."})
    assert (step.actor, step.text, about(step)["role"]) == (
        "environment",
        "Night falls.",
        "narrator",
    )
