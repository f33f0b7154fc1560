"""Trajectories of a trace: names, times, costs, ends, labels, and what spans leave behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.importers.reading import detail
from tests.importers.test_spans import START, span
from trajstore.importers.items import ImportOptions
from trajstore.importers.span_runs import NoAgentError, Trace, conversation_of, runs
from trajstore.importers.spans import Span
from trajstore.schema import Label, Trajectory, finish, trajectory_id

ASKS = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "function": {"name": "helper", "arguments": "{}"}}],
}


def items(*spans: Span, threshold: float | None = None, **about: Any) -> list[Any]:
    trace = Trace(**{"key": "k", "source": "otel", "source_uri": "f", **about})
    return list(runs(list(spans), trace, ImportOptions(success_threshold=threshold)))


def only(*spans: Span, **about: Any) -> Trajectory:
    (run,) = (i for i in items(*spans, **about) if isinstance(i, Trajectory))
    return finish(run)


def labels(*spans: Span, **about: Any) -> list[Label]:
    return [i for i in items(*spans, **about) if isinstance(i, Label)]


def call(name: str = "a", parent: str | None = None, *, at: float = 0, **more: Any) -> Span:
    given = {"prompt": "q", "output": "x", "model": "m"} | more
    return span(name, parent, at=at, kind="model", **given)


def nested() -> list[Span]:
    """A main run that calls a helper agent through a tool."""
    return [
        call("a", output=ASKS),
        span("tool", at=1, kind="tool", tool="helper", call_id="c1", output="done"),
        span("agent", "tool", at=2, kind="agent", agent="helper"),
        call("inner", "agent", at=3, prompt="sub-task"),
    ]


def test_trace_without_an_agent_raises() -> None:
    with pytest.raises(NoAgentError, match="trace k has no model call"):
        items(span("web"), span("db", "web", at=1))


def test_identity_is_of_the_family_and_the_key() -> None:
    assert only(call()).trajectory_id == trajectory_id("otel", "k")
    assert only(call(), source="langfuse").trajectory_id == trajectory_id("otel", "k")


def test_times_span_the_whole_trace() -> None:
    run = only(span("root", at=0), call("a", "root", at=2))
    assert (run.started_at, run.duration_s) == (START, 3.0)


def test_costs_of_model_calls_are_summed_and_those_of_wrappers_left_out() -> None:
    run = only(
        call("wrapper", cost_usd=9.0),
        call("a", "wrapper", at=1, cost_usd=0.25),
        call("b", "wrapper", at=2, cost_usd=0.5),
    )
    assert run.cost_usd == 0.75
    assert only(call()).cost_usd is None


def test_most_used_model_is_the_runs() -> None:
    run = only(
        call("a", model="big"), call("b", at=1, model="small"), call("c", at=2, model="small")
    )
    assert run.model == "small"
    assert [s.model for s in run.steps if s.actor == "agent"] == ["big", "small", "small"]


def test_agent_has_its_recorded_name_or_its_spans() -> None:
    assert only(span("root", kind="agent", agent="bot"), call("a", "root", at=1)).agent == "bot"
    assert only(span("root", kind="agent"), call("a", "root", at=1)).agent == "root"
    assert only(call()).agent is None


def test_same_question_is_the_same_task() -> None:
    assert only(call()).task_id == only(call(output="y"), key="other").task_id
    assert only(call()).task_id != only(call(prompt="another")).task_id
    assert only(call(), task="t-1").task_id == "otel/t-1"


def test_goal_is_the_first_user_message_else_what_the_source_knows() -> None:
    assert only(call(), goal="from the trace").goal == "q"
    assert only(call(prompt=None), goal="from the trace").goal == "from the trace"
    assert only(call(prompt=None)).goal is None


def test_failed_root_ends_in_error() -> None:
    run = only(span("root", failed=True, error="boom"), call("a", "root", at=1))
    assert (run.status, run.error) == ("error", "boom")


def test_failed_inner_span_is_no_failed_run() -> None:
    run = only(
        span("root"), call("a", "root", at=1, failed=True, error="retry"), call("b", "root", at=2)
    )
    assert (run.status, run.error) == ("terminated", None)
    assert detail(run.steps[1].metadata)["error"] == "retry"


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_answer_cut_by_its_length_truncates_the_run(reason: str) -> None:
    run = only(call(finish_reason=reason))
    assert (run.status, run.termination_reason) == ("truncated", reason)


def test_reward_and_its_parts_are_kept_and_judged_only_by_the_user() -> None:
    mark = span("mark", at=5, reward=0.75, rewards={"task": 0.75, "style": 1.0})
    run = only(call(), mark)
    assert (run.reward, run.rewards, run.success) == (0.75, {"task": 0.75, "style": 1.0}, None)
    assert only(call(), mark, threshold=0.75).success is True
    assert only(call(), mark, threshold=0.8).success is False


def test_last_reward_of_a_run_counts() -> None:
    run = only(call(), span("m1", at=5, reward=0.25), span("m2", at=6, reward=1.0))
    assert run.reward == 1.0


def test_first_tools_that_a_span_offers_are_the_runs() -> None:
    run = only(call("a"), call("b", at=1, tools=[{"name": "w"}]))
    assert detail(run.tools) == [{"name": "w"}]


def test_other_spans_are_kept_without_repeating_the_talk() -> None:
    talk = [{"role": "user", "content": "q"}]
    run = only(
        span("chain", prompt={"messages": talk}, output="end", extra={"attributes": {"x": 1}}),
        call("a", "chain", at=1),
        span("search", "chain", at=2, output={"documents": ["d1"]}),
    )
    chain, search = detail(run.metadata)["spans"]
    assert "input" not in chain
    assert (chain["output"], chain["attributes"]) == ("end", {"x": 1})
    assert (search["output"], search["parent_id"]) == ({"documents": ["d1"]}, "chain")


def test_long_texts_of_other_spans_are_dropped() -> None:
    run = only(span("chain", output="x" * 3000), call("a", "chain", at=1))
    assert "output" not in detail(run.metadata)["spans"][0]


def test_sub_agent_names_its_parent_and_the_calling_step() -> None:
    parent, child = (i for i in items(*nested()) if isinstance(i, Trajectory))
    assert (child.parent_id, child.parent_step, child.relation) == (
        parent.trajectory_id,
        1,
        "sub-agent",
    )
    assert child.trajectory_id == trajectory_id("otel", "k/agent")
    assert (parent.relation, parent.parent_id) == (None, None)


def test_sub_agent_does_not_take_the_goal_of_the_trace() -> None:
    spans = nested()
    spans[3].prompt = None
    _, child = (i for i in items(*spans, goal="main") if isinstance(i, Trajectory))
    assert child.goal is None


def test_labels_go_to_the_run_and_step_of_their_span() -> None:
    spans = nested()
    spans[3].marks.append({"name": "quality", "value": 0.5, "evaluator": "judge"})
    (label,) = labels(*spans)
    assert label.trajectory_id == trajectory_id("otel", "k/agent")
    assert (label.step_index, label.value, label.evaluator) == (1, 0.5, "judge")


def test_label_of_a_trace_is_on_the_whole_run() -> None:
    (label,) = labels(call(), marks=({"name": "mood", "value": 1.0, "evaluator": "e"},))
    assert (label.trajectory_id, label.step_index) == (trajectory_id("otel", "k"), None)


def test_label_of_a_span_that_is_no_step_is_on_the_run() -> None:
    mark = {"name": "mood", "value": 1.0, "span_id": "chain"}
    (label,) = labels(span("chain"), call("a", "chain", at=1), marks=(mark,))
    assert (label.step_index, label.evaluator) == (None, "unknown")


def test_conversation_needs_all_model_calls_or_a_root() -> None:
    assert conversation_of([call("a", conversation="k"), call("b", conversation="k")]) == "k"
    assert conversation_of([call("a", conversation="k"), call("b")]) == "k"
    inner = [span("r"), call("a", "r", conversation="k"), call("b", "r")]
    assert conversation_of(inner) is None
    assert conversation_of([span("r", conversation="k"), call("a", "r")]) == "k"
    two = [call("a", conversation="k"), call("b", conversation="j")]
    assert conversation_of(two) is None
