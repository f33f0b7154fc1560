"""A trace as a tree of spans: which are model calls, which wrap others, which are sub-agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from trajstore.importers.framework_messages import Said, output_messages, prompt_messages

Kind = Literal["model", "tool", "agent", "other"]
"""What a span is: a model call, a tool call, an agent at work, or anything else."""


@dataclass(slots=True, kw_only=True, eq=False)
class Span:
    """One span of a trace, whatever it was exported by."""

    span_id: str
    """Its id, unique inside the trace."""
    trace_id: str
    """The trace it belongs to."""
    parent_id: str | None = None
    """The span it runs in; None for a root."""
    name: str | None = None
    """Its name."""
    kind: Kind = "other"
    """What it is."""
    started: datetime | None = None
    """When it began."""
    ended: datetime | None = None
    """When it ended; None while it runs."""
    prompt: Any = None
    """What went in, as recorded: messages in any form, or arguments."""
    system: Any = None
    """System instructions that were recorded beside the prompt."""
    output: Any = None
    """What came out, as recorded."""
    model: str | None = None
    """The model of a model call."""
    prompt_tokens: int | None = None
    """Tokens read, cached ones included."""
    completion_tokens: int | None = None
    """Tokens written."""
    cached_tokens: int | None = None
    """Part of the tokens read that came from a cache."""
    cost_usd: float | None = None
    """Cost in US dollars."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Sampling parameters of a model call."""
    prompt_token_ids: tuple[int, ...] | None = None
    """Token ids that the sampler saw."""
    completion_token_ids: tuple[int, ...] | None = None
    """Token ids that the sampler wrote."""
    logprobs: tuple[float, ...] | None = None
    """Log-probability of each token written."""
    tools: Any = None
    """Tool definitions offered to the model."""
    tool: str | None = None
    """Name of the tool of a tool span."""
    call_id: str | None = None
    """Id of the tool call, where recorded."""
    agent: str | None = None
    """Name of the agent, where recorded."""
    conversation: str | None = None
    """Id of the conversation that the span belongs to, where recorded."""
    finish_reason: str | None = None
    """Why the model stopped."""
    failed: bool | None = None
    """True where the span says that it failed; False where it says that it did not."""
    error: str | None = None
    """What went wrong."""
    marks: list[dict[str, Any]] = field(default_factory=list)
    """Evaluations of the span: ``name``, ``value``, ``success``, ``rationale``, ``evaluator``."""
    reward: float | None = None
    """Reward that the span reports for the run."""
    rewards: dict[str, float] = field(default_factory=dict)
    """Named components of that reward."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Everything else that was recorded, without the messages."""
    children: list[Span] = field(default_factory=list)
    """The spans that run in it, set by :func:`link`."""

    def prompt_said(self) -> list[Said]:
        """The prompt as messages, the system instructions first."""
        messages = prompt_messages(self.prompt)
        if self.system is not None and not any(m.actor == "system" for m in messages):
            given = prompt_messages(self.system)
            messages = [Said(actor="system", text=m.text, content=m.content) for m in given] + (
                messages
            )
        return messages

    def output_said(self) -> list[Said]:
        """The output as messages."""
        return output_messages(self.output)


def link(spans: Iterable[Span]) -> list[Span]:
    """Fill in ``children`` in order of time and return the roots, in order of time.

    A span whose parent is not among the spans is a root; of two spans with one id the later one in
    the input counts. A parent that claims to start after its child is moved to its start, since
    clocks of exporters differ by a millisecond.
    """
    by_id = {span.span_id: span for span in spans}
    order = {span_id: place for place, span_id in enumerate(by_id)}
    roots: list[Span] = []
    for span in by_id.values():
        parent = by_id.get(span.parent_id or "")
        if parent is None or _inside(parent, span, by_id):
            roots.append(span)
        else:
            parent.children.append(span)
    starts = {id(s): _start(s) for s in by_id.values()}
    for span in reversed(list(walk(roots))):
        own = [starts[id(child)] for child in span.children]
        starts[id(span)] = min([starts[id(span)], *own])
        span.children.sort(key=lambda s: (starts[id(s)], order[s.span_id]))
    return sorted(roots, key=lambda s: (starts[id(s)], order[s.span_id]))


def _inside(span: Span, other: Span, by_id: dict[str, Span]) -> bool:
    """Whether ``span`` lies below ``other``: a cycle of parents, seen in broken exports."""
    seen: set[str] = set()
    at: Span | None = span
    while at is not None and at.span_id not in seen:
        if at is other:
            return True
        seen.add(at.span_id)
        at = by_id.get(at.parent_id or "")
    return False


def _start(span: Span) -> float:
    return span.started.timestamp() if span.started is not None else float("inf")


def walk(roots: Iterable[Span]) -> Iterator[Span]:
    """All spans below and with the roots, each before its children."""
    stack = list(roots)[::-1]
    while stack:
        span = stack.pop()
        yield span
        stack.extend(reversed(span.children))


@dataclass(slots=True, kw_only=True)
class Scope:
    """One agent's part of a trace: the main run, or a sub-agent's."""

    root: Span | None
    """The span that opens it; None for the main run."""
    parent: Scope | None
    """The scope it was called from."""
    spans: list[Span] = field(default_factory=list)
    """Its spans, each before its children; those of sub-agents are not among them."""

    def steps_spans(self) -> list[Span]:
        """Model calls and tool calls in order of time.

        A model span with another model span in it (through neither tool nor agent) is a wrapper and
        left out: its child carries the same call. A tool span inside a tool span is the same call
        seen from the server. Without any model span, agents that recorded an output stand for their
        model calls.
        """
        found = [s for s in self.spans if s.kind == "model" and not _wraps(s, "model")]
        if not found:
            agents = [s for s in self.spans if s.kind == "agent" and s.output is not None]
            found = [s for s in agents if not _wraps(s, "agent")]
        nested = {
            id(t) for s in self.spans if s.kind == "tool" for t in walk(s.children) if t is not s
        }
        found += [s for s in self.spans if s.kind == "tool" and id(s) not in nested]
        place = {id(s): i for i, s in enumerate(self.spans)}
        return sorted(found, key=lambda s: (_start(s), place[id(s)]))


def _wraps(span: Span, kind: Kind) -> bool:
    stack = list(span.children)
    while stack:
        below = stack.pop()
        if below.kind == kind:
            return True
        if below.kind not in {"tool", "agent"} or kind == "agent":
            stack.extend(below.children)
    return False


def scopes(roots: list[Span]) -> list[Scope]:
    """The main run and its sub-agents, the main run first.

    An agent span opens a scope of its own where it was called by another agent: it lies below a
    tool span, or below an agent that makes model calls itself. Agents beside each other, or below a
    mere wrapper, are turns of one run.
    """
    main = Scope(root=None, parent=None)
    found = [main]
    stack = [(span, main, False, False) for span in reversed(roots)]
    while stack:
        span, scope, below_tool, below_busy = stack.pop()
        if span.kind == "agent" and (below_tool or below_busy) and _has_model(span):
            scope = Scope(root=span, parent=scope)
            found.append(scope)
            below_tool = below_busy = False
        scope.spans.append(span)
        below_tool = below_tool or span.kind == "tool"
        below_busy = below_busy or (span.kind == "agent" and _busy(span))
        stack.extend((s, scope, below_tool, below_busy) for s in reversed(span.children))
    return found


def _has_model(span: Span) -> bool:
    return any(s.kind == "model" for s in walk([span]))


def _busy(agent: Span) -> bool:
    """Whether an agent makes model calls of its own, not only through agents or tools below it."""
    stack = list(agent.children)
    while stack:
        span = stack.pop()
        if span.kind == "model":
            return True
        if span.kind == "other":
            stack.extend(span.children)
    return False
