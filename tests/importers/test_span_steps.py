"""Steps from spans: outputs, and of each prompt only what is new."""

from __future__ import annotations

import json
from typing import Any

from tests.importers.reading import detail
from tests.importers.test_spans import span
from trajstore.importers.span_steps import SpanReader
from trajstore.importers.spans import Span, link, scopes
from trajstore.schema import Step


def steps_of(*spans: Span) -> tuple[Step, ...]:
    return SpanReader().read(scopes(link(spans))[0])


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def asks(*ids: str, name: str = "w", text: str | None = None) -> dict[str, Any]:
    calls = [{"id": i, "function": {"name": name, "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def answers(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def result(call_id: str | None, text: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text, **more}


def model(name: str, at: float, prompt: Any, output: Any, **more: Any) -> Span:
    return span(name, at=at, kind="model", prompt=prompt, output=output, **more)


def tool(name: str, at: float, output: Any = "sunny", **more: Any) -> Span:
    return span(name, at=at, kind="tool", tool=more.pop("tool", "w"), output=output, **more)


def shape(steps: tuple[Step, ...]) -> list[tuple[str, str | None]]:
    return [(s.actor, s.text) for s in steps]


def results(steps: tuple[Step, ...]) -> list[tuple[str | None, str | None]]:
    return [(o.call_id, o.text) for s in steps for o in s.observations]


def test_whole_prompts_are_not_repeated() -> None:
    first = [user("weather?")]
    second = [*first, asks("c1"), result("c1", "sunny")]
    found = steps_of(model("a", 0, first, asks("c1")), model("b", 1, second, answers("Sunny.")))
    assert shape(found) == [("user", "weather?"), ("agent", None), ("agent", "Sunny.")]
    assert results(found) == [("c1", "sunny")]


def test_user_who_says_the_same_twice_is_heard_twice() -> None:
    first = [user("yes")]
    second = [*first, answers("Sure?"), user("yes")]
    found = steps_of(
        model("a", 0, first, answers("Sure?")), model("b", 1, second, answers("Done."))
    )
    assert [t for a, t in shape(found) if a == "user"] == ["yes", "yes"]


def test_agent_message_that_no_span_wrote_is_copied_context() -> None:
    history = [user("hi"), answers("earlier"), user("and?")]
    found = steps_of(model("a", 0, history, answers("now")))
    assert [(s.text, s.is_copied) for s in found if s.actor == "agent"] == [
        ("earlier", True),
        ("now", False),
    ]


def test_tool_span_answers_the_call_and_the_prompt_is_not_a_second_result() -> None:
    found = steps_of(
        model("a", 0, [user("q")], asks("c1")),
        tool("t", 1, call_id="c1"),
        model("b", 2, [user("q"), asks("c1"), result("c1", "sunny")], answers("ok")),
    )
    assert results(found) == [("c1", "sunny")]
    (note,) = detail(found[1].metadata)["tool_spans"]
    assert note["span_id"] == "t"
    assert note["started"].startswith("2026-01-01")


def test_result_as_the_model_saw_it_wins_and_the_spans_own_is_kept() -> None:
    found = steps_of(
        model("a", 0, [user("q")], asks("c1")),
        tool("t", 1, output={"raw": 1}, call_id="c1"),
        model("b", 2, [user("q"), asks("c1"), result("c1", "short")], answers("ok")),
    )
    assert results(found) == [("c1", "short")]
    assert detail(found[1].metadata)["tool_spans"][1] == {"call_id": "c1", "output": '{"raw":1}'}


def test_error_flag_of_the_span_survives_the_message() -> None:
    found = steps_of(
        model("a", 0, [user("q")], asks("c1")),
        tool("t", 1, output=None, call_id="c1", failed=True, error="timeout"),
        model("b", 2, [user("q"), asks("c1"), result("c1", "it failed")], answers("ok")),
    )
    (observation,) = found[1].observations
    assert (observation.text, observation.is_error) == ("it failed", True)


def test_failed_tool_without_output_says_its_error() -> None:
    found = steps_of(
        model("a", 0, [user("q")], asks("c1")),
        tool("t", 1, output=None, call_id="c1", failed=True, error="timeout"),
    )
    assert results(found) == [("c1", "timeout")]


def test_tool_spans_without_ids_are_linked_by_name_and_arguments() -> None:
    calls = [
        {"id": i, "function": {"name": "w", "arguments": json.dumps({"city": c})}}
        for i, c in (("c1", "Berlin"), ("c2", "Tokyo"))
    ]
    found = steps_of(
        model("a", 0, [user("q")], {"role": "assistant", "tool_calls": calls}),
        tool("t2", 1, output="T", prompt={"input": {"city": "Tokyo"}}),
        tool("t1", 2, output="B", prompt='{"city": "Berlin"}'),
    )
    assert sorted(results(found)) == [("c1", "B"), ("c2", "T")]


def test_tool_spans_without_ids_and_arguments_are_linked_in_order() -> None:
    found = steps_of(
        model("a", 0, [user("q")], asks("c1", "c2")),
        tool("t1", 1, output="first"),
        tool("t2", 1.5, output="second"),
    )
    assert results(found) == [("c1", "first"), ("c2", "second")]


def test_repeated_call_ids_are_answered_in_order() -> None:
    one = [user("q"), asks("c1"), result("c1", "A")]
    two = [*one, asks("c1"), result("c1", "B")]
    found = steps_of(
        model("a", 0, one[:1], asks("c1")),
        model("b", 1, one, asks("c1")),
        model("c", 2, two, answers("ok")),
    )
    assert [[o.text for o in s.observations] for s in found if s.actor == "agent"] == [
        ["A"],
        ["B"],
        [],
    ]


def test_unanswered_call_stays_unanswered_and_orphan_result_stays() -> None:
    found = steps_of(
        model("a", 0, [user("q")], asks("c1")),
        model("b", 1, [user("q"), asks("c1"), result("zz", "lost")], answers("ok")),
    )
    assert results(found) == [("zz", "lost")]
    assert [len(s.tool_calls) for s in found] == [0, 1, 0]


def test_call_of_a_silent_model_span_is_known_from_the_tool_span() -> None:
    found = steps_of(
        model("a", 0, None, None, prompt_tokens=5),
        tool("t1", 1, prompt='{"q": 1}', call_id="c1"),
        tool("t2", 1.2, prompt='{"q": 2}', call_id="c2"),
    )
    (step,) = found
    assert [c.call_id for c in step.tool_calls] == ["c1", "c2"]
    assert len(step.observations) == 2
    assert step.prompt_tokens == 5


def test_tool_that_nobody_asked_for_is_an_event() -> None:
    found = steps_of(
        model("a", 0, [user("q")], answers("thinking done")),
        tool("memory", 1, tool="load_memory", output="m"),
    )
    assert [s.actor for s in found] == ["user", "agent", "environment"]
    assert found[2].tool_calls[0].name == "load_memory"


def test_lone_tool_span_is_an_agent_step() -> None:
    (step,) = steps_of(tool("t", 0, prompt='{"city": "NY"}', call_id="c1"))
    assert (step.actor, step.text) == ("agent", None)
    assert step.tool_calls[0].arguments == '{"city":"NY"}'
    assert results((step,)) == [("c1", "sunny")]


def test_mcp_content_and_message_envelopes_are_opened() -> None:
    mcp = '{"content": [{"type": "text", "text": "cloudy"}]}'
    message = {"type": "tool", "tool_call_id": "c2", "content": "[1]"}
    found = steps_of(
        model("a", 0, [user("q")], asks("c1", "c2")),
        tool("t1", 1, output=mcp, call_id="c1"),
        tool("t2", 2, output=message, call_id="c2"),
    )
    assert results(found) == [("c1", "cloudy"), ("c2", "[1]")]


def test_wrappers_speak_where_no_prompt_does() -> None:
    root = span("root", prompt={"system": "Be kind.", "prompt": "hello"})
    call = span("a", "root", at=1, kind="model", output=answers("hi"))
    assert shape(steps_of(root, call)) == [
        ("system", "Be kind."),
        ("user", "hello"),
        ("agent", "hi"),
    ]


def test_wrappers_are_not_heard_where_prompts_speak() -> None:
    root = span("root", prompt={"messages": [user("raw form of it")]})
    call = span("a", "root", at=1, kind="model", prompt=[user("it")], output=answers("hi"))
    assert shape(steps_of(root, call)) == [("user", "it"), ("agent", "hi")]


def test_other_choices_are_kept_beside_the_first() -> None:
    output = [{**answers("A"), "finish_reason": "stop"}, {**answers("B"), "finish_reason": "stop"}]
    (_, step) = steps_of(model("a", 0, [user("q")], output))
    assert step.text == "A"
    assert detail(step.metadata)["other_choices"] == [{"text": "B", "tool_calls": []}]


def test_parts_of_one_answer_in_several_messages_are_one_step() -> None:
    (_, step) = steps_of(model("a", 0, [user("q")], [answers("I look."), asks("c1")]))
    assert (step.text, len(step.tool_calls)) == ("I look.", 1)


def test_agent_level_output_with_results_becomes_several_steps() -> None:
    talk = [asks("c1"), result("c1", "sunny"), answers("Sunny.")]
    agent = span("agent", kind="agent", prompt=[user("q")], output=talk, prompt_tokens=9)
    found = steps_of(agent)
    assert shape(found) == [("user", "q"), ("agent", None), ("agent", "Sunny.")]
    assert [s.prompt_tokens for s in found] == [None, 9, None]
    assert results(found) == [("c1", "sunny")]


def test_numbers_times_and_ids_of_the_model_span_are_the_steps() -> None:
    (_, step) = steps_of(
        model(
            "a",
            0,
            [user("q")],
            answers("ok"),
            model="m",
            prompt_tokens=7,
            completion_tokens=2,
            cached_tokens=3,
            sampling={"temperature": 0.5},
            completion_token_ids=(1, 2),
            logprobs=(-0.1, -0.2),
            finish_reason="stop",
            cost_usd=0.25,
        )
    )
    assert (step.model, step.prompt_tokens, step.completion_tokens, step.cached_tokens) == (
        "m",
        7,
        2,
        3,
    )
    assert (step.latency_s, step.completion_token_ids, step.logprobs) == (1.0, (1, 2), (-0.1, -0.2))
    assert detail(step.sampling) == {"temperature": 0.5}
    told = detail(step.metadata)
    assert (told["span_id"], told["finish_reason"], told["cost_usd"]) == ("a", "stop", 0.25)


def test_step_of_a_span_is_found() -> None:
    reader = SpanReader()
    spans = (model("a", 0, [user("q")], asks("c1")), tool("t", 1, call_id="c1"))
    reader.read(scopes(link(spans))[0])
    assert (reader.step_of("a"), reader.step_of("t"), reader.step_of("zz")) == (1, 1, None)
