"""Trajectories of a trace: the main run, and its sub-agents as trajectories of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trajstore.importers.framework_messages import decoded, prompt_messages
from trajstore.importers.importer import success_of
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.span_steps import SpanReader
from trajstore.importers.spans import Scope, Span, link, scopes
from trajstore.schema import (
    Label,
    Status,
    Step,
    Trajectory,
    digest,
    json_text_or_none,
    trajectory_id,
)

FAMILY = "otel"
"""Family of identities: one trace has one id, whichever tool exported it."""

_LONGEST_KEPT = 2000


class NoAgentError(ValueError):
    """A trace in which no agent did anything: web requests, database calls and the like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What is known of a trace beside its spans."""

    key: str
    """Identity of the run: the conversation or the trace."""
    source: str
    """The importer."""
    source_uri: str
    """Where it was read."""
    task: str | None = None
    """Name of the task, where the source knows it; else the goal stands for it."""
    goal: str | None = None
    """What was asked, where the spans do not tell."""
    tags: tuple[str, ...] = ()
    """Labels of the trace."""
    marks: tuple[dict[str, Any], ...] = ()
    """Evaluations, like :attr:`Span.marks`, with ``span_id`` where they speak of a span."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Everything else."""


def conversation_of(spans: Iterable[Span]) -> str | None:
    """The conversation id that a root or every model call carries, or None.

    An id on a few spans only is no conversation: some frameworks put the id of the previous
    response there.
    """
    spans = list(spans)
    known = {s.span_id for s in spans}
    roots = {s.conversation for s in spans if s.parent_id not in known}
    models = {s.conversation for s in spans if s.kind == "model"}
    for found in (roots - {None}, models):
        if len(found) == 1:
            return next(iter(found))
    return None


def runs(spans: list[Span], trace: Trace, options: ImportOptions) -> Iterator[Item]:
    """Trajectories and labels of one trace.

    Raises:
        NoAgentError: nothing in it was done by an agent.
    """
    found = scopes(link(spans))
    if not any(scope.steps_spans() for scope in found):
        message = f"trace {trace.key} has no model call, tool call or agent with an output"
        raise NoAgentError(message)
    readers: dict[int, tuple[str, SpanReader]] = {}
    for scope in found:
        key = trace.key if scope.root is None else f"{trace.key}/{scope.root.span_id}"
        run, reader = trajectory_id(FAMILY, key), SpanReader()
        steps = reader.read(scope)
        readers[id(scope)] = (run, reader)
        if steps:
            yield _trajectory(scope, steps, run, trace, options, _parent(scope, readers))
    for mark in _marks(spans, trace):
        yield _label(mark, found, readers)


def _parent(
    scope: Scope, readers: dict[int, tuple[str, SpanReader]]
) -> tuple[str | None, int | None]:
    """The trajectory that called a sub-agent, and the step that did."""
    if scope.parent is None or scope.root is None:
        return None, None
    parent, reader = readers[id(scope.parent)]
    above = {s.span_id: s for s in scope.parent.spans}
    at: Span | None = above.get(scope.root.parent_id or "")
    while at is not None:
        step = reader.step_of(at.span_id)
        if step is not None:
            return parent, step
        at = above.get(at.parent_id or "")
    return parent, None


def _trajectory(
    scope: Scope,
    steps: tuple[Step, ...],
    run: str,
    trace: Trace,
    options: ImportOptions,
    parent: tuple[str | None, int | None],
) -> Trajectory:
    goal = next((s.text for s in steps if s.actor == "user" and s.text), None)
    goal = goal or (trace.goal if scope.root is None else None)
    task = trace.task or digest(goal or trace.key)[:16]
    started, ended = _times(scope.spans)
    reward = next((s.reward for s in reversed(scope.spans) if s.reward is not None), None)
    judged = reward if options.success_threshold is not None else None
    return Trajectory(
        trajectory_id=run,
        task_id=f"{FAMILY}/{task}",
        goal=goal,
        source=trace.source,
        source_uri=trace.source_uri,
        agent=_agent(scope),
        model=_model(scope.spans),
        parent_id=parent[0],
        parent_step=parent[1],
        relation=None if parent[0] is None else "sub-agent",
        status=_status(scope),
        error=next((s.error for s in _tops(scope) if s.failed and s.error), None),
        termination_reason=_finish_reason(scope),
        success=success_of(judged, options),
        reward=reward,
        rewards={k: v for s in scope.spans for k, v in s.rewards.items()},
        tools=json_text_or_none(next((s.tools for s in scope.spans if s.tools), None)),
        steps=steps,
        cost_usd=_cost(scope),
        started_at=started,
        ended_at=ended,
        duration_s=(ended - started).total_seconds() if started and ended else None,
        tags=trace.tags,
        metadata=json_text_or_none({**trace.metadata, **_rest(scope)}),
    )


def _tops(scope: Scope) -> list[Span]:
    inside = {s.span_id for s in scope.spans}
    return [s for s in scope.spans if s.parent_id not in inside]


def _times(spans: list[Span]) -> tuple[datetime | None, datetime | None]:
    starts = [s.started for s in spans if s.started is not None]
    ends = [s.ended for s in spans if s.ended is not None]
    return min(starts, default=None), max(ends, default=None)


def _agent(scope: Scope) -> str | None:
    named = (s.agent for s in scope.spans if s.agent)
    agents = (s.name for s in scope.spans if s.kind == "agent" and s.name)
    return next(named, None) or next(agents, None)


def _model(spans: list[Span]) -> str | None:
    models = Counter(s.model for s in spans if s.kind == "model" and s.model)
    return models.most_common(1)[0][0] if models else None


def _finish_reason(scope: Scope) -> str | None:
    models = [s for s in scope.steps_spans() if s.kind != "tool"]
    if not models:
        return None
    said = [m.finish_reason for m in models[-1].output_said() if m.finish_reason]
    return models[-1].finish_reason or next(iter(said), None)


def _status(scope: Scope) -> Status | None:
    tops = _tops(scope)
    if any(s.failed for s in tops):
        return "error"
    if str(_finish_reason(scope)).lower() in {"length", "max_tokens", "max_output_tokens"}:
        return "truncated"
    if all(s.ended is not None for s in tops):
        return "terminated"
    return "running" if any(s.started is not None for s in tops) else None


def _cost(scope: Scope) -> float | None:
    costs = [s.cost_usd for s in scope.steps_spans() if s.cost_usd is not None]
    return sum(costs) if costs else None


def _rest(scope: Scope) -> dict[str, Any]:
    """The spans that became no step, without the messages that steps already hold."""
    used = {id(s) for s in scope.steps_spans()}
    kept = [_summary(s) for s in scope.spans if id(s) not in used]
    return {"spans": kept} if kept else {}


def _summary(span: Span) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "span_id": span.span_id,
        "parent_id": span.parent_id,
        "name": span.name,
        "kind": span.kind,
        "agent": span.agent,
        "started": span.started,
        "ended": span.ended,
        "failed": span.failed,
        "error": span.error,
        "input": _small(span.prompt),
        "output": _small(span.output),
        **span.extra,
    }
    return {k: v for k, v in entry.items() if v is not None}


def _small(value: Any) -> Any:
    """An input or output that is no repetition of the conversation, else None."""
    plain = decoded(value)
    if isinstance(plain, str):
        return value if len(plain) <= _LONGEST_KEPT else None
    return None if prompt_messages(plain) else value


def _marks(spans: list[Span], trace: Trace) -> Iterator[dict[str, Any]]:
    yield from trace.marks
    for span in spans:
        yield from ({"span_id": span.span_id, **mark} for mark in span.marks)


def _label(
    mark: dict[str, Any], found: list[Scope], readers: dict[int, tuple[str, SpanReader]]
) -> Label:
    """A label on the step that its span became, else on the run that the span belongs to."""
    span_id = mark.get("span_id")
    run, step = readers[id(found[0])][0], None
    for scope in found:
        if any(s.span_id == span_id for s in scope.spans):
            run, reader = readers[id(scope)]
            step = reader.step_of(str(span_id))
    return Label(
        trajectory_id=run,
        step_index=step,
        name=str(mark["name"]),
        value=mark.get("value"),
        success=mark.get("success"),
        rationale=mark.get("rationale"),
        evaluator=str(mark.get("evaluator") or "unknown"),
        created_at=mark.get("created_at"),
    )
