from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.atif_steps import add_steps
from trajstore.importers.building import StepBuilder
from trajstore.schema import Step


def built(*steps: dict[str, Any], **fields: Any) -> tuple[Step, ...]:
    builder = StepBuilder()
    numbered = [{"step_id": n, "message": "", **s} for n, s in enumerate(steps, 1)]
    add_steps({"steps": numbered, **fields}, builder)
    return builder.steps()


def call(call_id: str = "c1", name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"tool_call_id": call_id, "function_name": name, "arguments": arguments}


def results(*found: dict[str, Any]) -> dict[str, Any]:
    return {"results": list(found)}


def result(content: Any, call_id: str | None = None, **fields: Any) -> dict[str, Any]:
    named = {} if call_id is None else {"source_call_id": call_id}
    return {"content": content, **named, **fields}


def meta(step: Step) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(step.metadata or "{}")
    return found


def test_an_agent_step_keeps_its_calls_and_their_results() -> None:
    (step,) = built(
        {
            "source": "agent",
            "message": "Look.",
            "reasoning_content": "Why not.",
            "tool_calls": [call("a", "ls", path="/"), call("b", "cat", path="x")],
            "observation": results(result("file x", "b"), result("x y", "a")),
        }
    )
    assert (step.actor, step.text, step.reasoning) == ("agent", "Look.", "Why not.")
    assert [(c.name, c.arguments) for c in step.tool_calls] == [
        ("ls", '{"path":"/"}'),
        ("cat", '{"path":"x"}'),
    ]
    assert [(o.call_id, o.text) for o in step.observations] == [("b", "file x"), ("a", "x y")]


def test_two_calls_of_one_id_keep_two_results_in_order() -> None:
    (step,) = built(
        {
            "source": "agent",
            "tool_calls": [call("x", n=1), call("x", n=2)],
            "observation": results(result("one", "x"), result("two", "x")),
        }
    )
    assert [o.text for o in step.observations] == ["one", "two"]


def test_a_call_without_result_and_a_result_without_call_are_both_kept() -> None:
    first, second = built(
        {"source": "agent", "message": "x", "tool_calls": [call("a")]},
        {"source": "agent", "message": "y", "observation": results(result("lost", "zz"))},
    )
    assert (len(first.tool_calls), first.observations) == (1, ())
    assert [(o.call_id, o.text) for o in second.observations] == [("zz", "lost")]


def test_a_result_written_on_a_later_system_step_goes_to_its_call() -> None:
    steps = built(
        {"source": "agent", "message": "x", "tool_calls": [call("a")]},
        {"source": "system", "observation": results(result("late", "a"))},
        {"source": "agent", "message": "y"},
    )
    assert [s.actor for s in steps] == ["agent", "agent"]
    assert [o.text for o in steps[0].observations] == ["late"]


def test_a_late_result_beside_a_message_leaves_the_message() -> None:
    steps = built(
        {"source": "agent", "tool_calls": [call("a")]},
        {"source": "system", "message": "Timer rang.", "observation": results(result("r", "a"))},
    )
    assert [(s.actor, s.text, len(s.observations)) for s in steps] == [
        ("agent", "", 1),
        ("environment", "Timer rang.", 0),
    ]


@pytest.mark.parametrize(
    ("step", "actor"),
    [
        ({"source": "system", "message": "You are an agent."}, "system"),
        ({"source": "system", "observation": results(result("event"))}, "environment"),
        ({"source": "user", "message": "Go."}, "user"),
        ({"source": "agent", "message": "Yes."}, "agent"),
        ({"source": "agent", "observation": results(result("screen"))}, "environment"),
        ({"source": "agent", "metrics": {"prompt_tokens": 1}}, "agent"),
        ({"source": "agent", "message": "x", "llm_call_count": 0}, "environment"),
        ({"source": "agent", "message": "x", "llm_call_count": 2}, "agent"),
        ({"source": "tool", "message": "x"}, "environment"),
    ],
)
def test_who_acted(step: dict[str, Any], actor: str) -> None:
    assert [s.actor for s in built(step)] == [actor]


def test_an_unknown_source_is_not_lost() -> None:
    (step,) = built({"source": "tool", "message": "x"})
    assert meta(step)["source"] == "tool"


def test_an_observation_on_a_user_step_stays_there() -> None:
    (step,) = built({"source": "user", "message": "see", "observation": results(result("r"))})
    assert (step.actor, [o.text for o in step.observations]) == ("user", ["r"])


def test_media_in_messages_and_results_are_kept_by_reference() -> None:
    picture = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    sound = {"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav"}}
    words = {"type": "text", "text": "This one."}
    (step,) = built(
        {
            "source": "agent",
            "message": [words, picture],
            "tool_calls": [call()],
            "observation": results(result([sound], "c1")),
        }
    )
    assert step.text == "This one."
    assert json.loads(step.content or "") == [words, picture]
    assert step.observations[0].text is None
    assert json.loads(step.observations[0].content or "") == [sound]


def test_text_parts_alone_are_just_text() -> None:
    (step,) = built({"source": "user", "message": [{"type": "text", "text": "a"}]})
    assert (step.text, step.content) == ("a", None)


def test_null_and_empty_results_differ() -> None:
    (step,) = built(
        {
            "source": "agent",
            "tool_calls": [call("a"), call("b")],
            "observation": results(result(None, "a"), result("", "b")),
        }
    )
    assert [o.text for o in step.observations] == [None, ""]


def test_metrics_become_tokens_ids_and_logprobs() -> None:
    metrics = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "cached_tokens": 4,
        "cost_usd": 0.25,
        "prompt_token_ids": [1, 2],
        "completion_token_ids": [3, 4],
        "logprobs": [-0.5, -1],
        "extra": {"ttft": 1},
    }
    (step,) = built({"source": "agent", "message": "x", "metrics": metrics})
    assert (step.prompt_tokens, step.completion_tokens, step.cached_tokens) == (10, 2, 4)
    assert (step.prompt_token_ids, step.completion_token_ids) == ((1, 2), (3, 4))
    assert step.logprobs == (-0.5, -1.0)
    assert meta(step)["metrics"] == {"cost_usd": 0.25, "extra": {"ttft": 1}}


def test_logprobs_that_do_not_fit_the_tokens_are_kept_aside() -> None:
    metrics = {"completion_token_ids": [1, 2], "logprobs": [-0.5]}
    (step,) = built({"source": "agent", "message": "x", "metrics": metrics})
    assert (step.completion_token_ids, step.logprobs) == ((1, 2), None)
    assert meta(step)["metrics"] == {"logprobs": [-0.5]}


@pytest.mark.parametrize(
    "metrics", ["oops", {"prompt_tokens": "abc"}, {"completion_token_ids": ["x"]}, [1]]
)
def test_metrics_that_cannot_be_read_cost_nothing_else(metrics: Any) -> None:
    (step,) = built({"source": "agent", "message": "x", "metrics": metrics})
    assert (step.text, step.prompt_tokens, step.completion_token_ids) == ("x", None, None)
    assert meta(step)["metrics"] == metrics


def test_error_flags_of_known_producers_are_taken() -> None:
    flags = [{"is_error": True}, {"tool_result_is_error": False}, {"score": 1}, None]
    calls = [call(str(n)) for n in range(4)]
    found = [result("r", str(n), extra=f) for n, f in enumerate(flags)]
    (step,) = built({"source": "agent", "tool_calls": calls, "observation": results(*found)})
    assert [o.is_error for o in step.observations] == [True, False, None, None]


def test_extras_of_steps_calls_and_results_are_kept() -> None:
    (step,) = built(
        {
            "source": "agent",
            "message": "x",
            "extra": {"a": 1},
            "reasoning_effort": 0.5,
            "llm_call_count": 1,
            "tool_calls": [{**call("c1"), "extra": {"b": 2}}],
            "observation": results(result("r", "c1", extra={"c": 3})),
        }
    )
    assert meta(step) == {
        "extra": {"a": 1},
        "reasoning_effort": 0.5,
        "llm_call_count": 1,
        "tool_calls": [{"tool_call_id": "c1", "extra": {"b": 2}}],
        "results": [{"source_call_id": "c1", "extra": {"c": 3}}],
    }


def test_a_plain_step_has_no_metadata() -> None:
    (step,) = built({"source": "agent", "message": "x", "metrics": {"prompt_tokens": 1}})
    assert step.metadata is None


def test_arguments_that_were_no_object_stay_wrapped() -> None:
    (step,) = built({"source": "agent", "tool_calls": [call(input="ls -la")]})
    assert step.tool_calls[0].arguments == '{"input":"ls -la"}'


def test_copied_context_is_marked() -> None:
    copied, own = built(
        {"source": "agent", "message": "a", "is_copied_context": True},
        {"source": "agent", "message": "b", "is_copied_context": False},
    )
    assert (copied.is_copied, own.is_copied) == (True, False)


def test_sampling_is_told_for_own_model_calls_only() -> None:
    agent = {"name": "x", "extra": {"temperature": 0.7, "llm_kwargs": {"top_p": 0.9}, "parser": 1}}
    steps = built(
        {"source": "user", "message": "u"},
        {"source": "agent", "message": "a", "is_copied_context": True},
        {"source": "agent", "message": "b"},
        agent=agent,
    )
    assert [s.sampling for s in steps] == [None, None, '{"temperature":0.7,"top_p":0.9}']


def test_positions_are_told_and_skip_what_was_only_a_result() -> None:
    builder = StepBuilder()
    document = {
        "steps": [
            {"source": "agent", "message": "x", "tool_calls": [call("a")]},
            {"source": "system", "message": "", "observation": results(result("r", "a"))},
            {"source": "agent", "message": "y"},
        ]
    }
    drafts = add_steps(document, builder)
    assert list(drafts) == [0, 2]
    assert builder.drafts == [drafts[0], drafts[2]]


def test_a_step_that_is_no_object_is_named() -> None:
    document = {"steps": [{"source": "user", "message": "a"}, "oops"]}
    with pytest.raises(TypeError, match="step 2 is not an object"):
        add_steps(document, StepBuilder())


def test_values_of_the_wrong_type_become_text() -> None:
    (step,) = built(
        {"source": "agent", "message": {"text": "x"}, "reasoning_content": [1], "model_name": 4}
    )
    assert (step.text, step.reasoning, step.model) == ("x", "[1]", "4")
