"""The tree of spans: order, wrappers, and where a sub-agent begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from trajstore.importers.spans import Kind, Scope, Span, link, scopes, walk

START = datetime(2026, 1, 1, tzinfo=UTC)


def span(
    name: str, parent: str | None = None, *, at: float = 0, kind: Kind = "other", **more: Any
) -> Span:
    return Span(
        span_id=name,
        trace_id="t",
        parent_id=parent,
        name=name,
        kind=kind,
        started=START + timedelta(seconds=at),
        ended=START + timedelta(seconds=at + 1),
        **more,
    )


def names(spans: list[Span]) -> list[str]:
    return [s.span_id for s in spans]


def scope_names(*spans: Span) -> list[list[str]]:
    return [names(s.spans) for s in scopes(link(spans))]


def steps(*spans: Span) -> list[str]:
    return names(scopes(link(spans))[0].steps_spans())


def test_children_come_in_order_of_time_whatever_the_files_order() -> None:
    roots = link([span("b", "r", at=2), span("a", "r", at=1), span("r")])
    assert names(roots) == ["r"]
    assert names(roots[0].children) == ["a", "b"]


def test_walk_gives_parents_before_children_depth_first() -> None:
    roots = link([span("r"), span("a", "r", at=1), span("aa", "a", at=1.5), span("b", "r", at=2)])
    assert names(list(walk(roots))) == ["r", "a", "aa", "b"]


def test_parent_that_claims_to_start_later_counts_from_its_child() -> None:
    roots = link([span("late", at=5), span("child", "late", at=0), span("other", at=3)])
    assert names(roots) == ["late", "other"]


def test_span_with_an_unknown_parent_is_a_root() -> None:
    assert names(link([span("a", "never exported"), span("b", at=1)])) == ["a", "b"]


def test_circle_of_parents_does_not_hang() -> None:
    assert set(names(link([span("a", "b"), span("b", "a")]))) == {"a", "b"}


def test_span_given_twice_counts_once() -> None:
    roots = link([span("a"), span("x", "a", at=1), span("x", "a", at=2)])
    assert len(roots[0].children) == 1
    assert roots[0].children[0].started == START + timedelta(seconds=2)


def test_spans_without_times_keep_the_files_order() -> None:
    spans = [Span(span_id=n, trace_id="t") for n in ("x", "y", "z")]
    assert names(link(spans)) == ["x", "y", "z"]


def test_wrapping_generation_is_no_step() -> None:
    assert steps(
        span("wrapper", kind="model"),
        span("plain", "wrapper", at=1),
        span("real", "plain", at=2, kind="model"),
        span("tool", "wrapper", at=3, kind="tool"),
    ) == ["real", "tool"]


def test_model_span_that_runs_a_tool_with_an_agent_in_it_is_no_wrapper() -> None:
    assert steps(
        span("call", kind="model"),
        span("tool", "call", at=1, kind="tool"),
        span("agent", "tool", at=2, kind="agent"),
        span("inner", "agent", at=3, kind="model"),
    ) == ["call", "tool"]


def test_tool_span_inside_a_tool_span_is_the_same_call() -> None:
    assert steps(
        span("call", kind="model"),
        span("client", at=1, kind="tool"),
        span("server", "client", at=2, kind="tool"),
    ) == ["call", "client"]


def test_agents_stand_for_their_model_calls_where_no_model_span_is() -> None:
    assert steps(
        span("outer", kind="agent", output="all"),
        span("inner", "outer", at=1, kind="agent", output="one"),
        span("tool", "inner", at=2, kind="tool"),
    ) == ["inner", "tool"]


def test_agents_without_output_are_no_steps() -> None:
    assert steps(span("agent", kind="agent"), span("chain", "agent", at=1)) == []


def test_agent_below_a_wrapping_agent_is_the_run_itself() -> None:
    assert scope_names(
        span("workflow", kind="agent"),
        span("hello", "workflow", at=1, kind="agent"),
        span("call", "hello", at=2, kind="model"),
    ) == [["workflow", "hello", "call"]]


def test_agents_beside_each_other_are_turns_of_one_run() -> None:
    assert scope_names(
        span("app"),
        span("writer", "app", at=1, kind="agent"),
        span("w", "writer", at=2, kind="model"),
        span("critic", "app", at=3, kind="agent"),
        span("c", "critic", at=4, kind="model"),
    ) == [["app", "writer", "w", "critic", "c"]]


def test_agent_called_through_a_tool_is_a_sub_agent() -> None:
    found = scopes(
        link(
            [
                span("main", kind="agent"),
                span("call", "main", at=1, kind="model"),
                span("tool", "main", at=2, kind="tool"),
                span("helper", "tool", at=3, kind="agent"),
                span("inner", "helper", at=4, kind="model"),
                span("after", "main", at=6, kind="model"),
            ]
        )
    )
    assert [names(s.spans) for s in found] == [
        ["main", "call", "tool", "after"],
        ["helper", "inner"],
    ]
    assert found[1].parent is found[0]
    assert found[1].root is not None
    assert found[1].root.span_id == "helper"


def test_agent_directly_below_a_busy_agent_is_a_sub_agent() -> None:
    assert scope_names(
        span("main", kind="agent"),
        span("call", "main", at=1, kind="model"),
        span("helper", "main", at=2, kind="agent"),
        span("inner", "helper", at=3, kind="model"),
    ) == [["main", "call"], ["helper", "inner"]]


def test_sub_agents_nest() -> None:
    found = scopes(
        link(
            [
                span("call", kind="model"),
                span("t1", at=1, kind="tool"),
                span("a1", "t1", at=2, kind="agent"),
                span("c1", "a1", at=3, kind="model"),
                span("t2", "a1", at=4, kind="tool"),
                span("a2", "t2", at=5, kind="agent"),
                span("c2", "a2", at=6, kind="model"),
            ]
        )
    )
    assert [names(s.spans) for s in found] == [["call", "t1"], ["a1", "c1", "t2"], ["a2", "c2"]]
    assert [_place(found, s) for s in found] == [None, 0, 1]


def _place(found: list[Scope], scope: Scope) -> int | None:
    return (
        None if scope.parent is None else next(i for i, s in enumerate(found) if s is scope.parent)
    )


def test_agent_span_without_any_model_call_opens_no_scope() -> None:
    assert scope_names(
        span("tool", kind="tool"),
        span("name only", "tool", at=1, kind="agent"),
    ) == [["tool", "name only"]]


def test_system_instructions_come_first_and_only_once() -> None:
    beside = span("a", kind="model", system="Be kind.", prompt="hi")
    assert [(m.actor, m.text) for m in beside.prompt_said()] == [
        ("system", "Be kind."),
        ("user", "hi"),
    ]
    both = span(
        "b",
        kind="model",
        system="Be kind.",
        prompt=[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
    )
    assert [m.actor for m in both.prompt_said()] == ["system", "user"]
