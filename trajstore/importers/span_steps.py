"""Steps of an agent run from its spans: outputs, and of each prompt only what is new."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from trajstore.importers.building import Draft, StepBuilder
from trajstore.importers.framework_messages import Said, decoded, result_text, same_action
from trajstore.importers.spans import Scope, Span
from trajstore.schema import (
    Observation,
    Step,
    ToolCall,
    json_text_or_none,
)

_COLUMNS = ("prompt_tokens", "completion_tokens", "cached_tokens", "model")
_TOKEN_COLUMNS = ("prompt_token_ids", "completion_token_ids", "logprobs")


@dataclass(slots=True, eq=False)
class _Asked:
    """A call that was made, and what answered it so far."""

    draft: Draft
    call: ToolCall
    place: int | None = None
    """Place of its observation in the draft, once there is one."""
    seen_by_model: bool = False
    """Whether a later prompt held the result."""


class SpanReader:
    """Turns the model and tool spans of one scope into steps.

    Every model span repeats the whole prompt. A message of a prompt is new when it occurs there
    more often than it was seen so far; a new agent message was not sampled in this trace and is
    kept as copied context. A tool's result is taken from its span and, once a prompt holds it, as
    the model saw it there.
    """

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._builder = StepBuilder()
        self._seen: Counter[tuple[Any, ...]] = Counter()
        self._asked: list[_Asked] = []
        self._by_span: dict[str, Draft] = {}
        self._silent: set[int] = set()

    def read(self, scope: Scope) -> tuple[Step, ...]:
        """The steps of a scope, in order of time."""
        spans = scope.steps_spans()
        models = [s for s in spans if s.kind != "tool"]
        self._opening(scope, models)
        for span in spans:
            if span.kind == "tool":
                self._tool(span)
            else:
                self._model(span)
        return self._builder.steps()

    def step_of(self, span_id: str) -> int | None:
        """Index of the step that a span became or was joined to."""
        wanted = self._by_span.get(span_id)
        places = (i for i, draft in enumerate(self._builder.drafts) if draft is wanted)
        return next(places, None)

    def _opening(self, scope: Scope, models: list[Span]) -> None:
        """Take system and user messages from wrapping spans where no prompt has any."""
        told = {said.actor for span in models for said in span.prompt_said()}
        steps = {id(s) for s in models}
        for actor in ("system", "user"):
            if actor in told:
                continue
            for span in scope.spans:
                if id(span) in steps or span.kind == "tool":
                    continue
                plain = isinstance(decoded(span.prompt), str)
                if plain and span.kind != "agent" and span is not scope.spans[0]:
                    continue
                found = [m for m in span.prompt_said() if m.actor == actor]
                for said in found:
                    self._context(said)
                if found:
                    break

    def _model(self, span: Span) -> None:
        counted: Counter[tuple[Any, ...]] = Counter()
        for said in span.prompt_said():
            counted[said.key] += 1
            if counted[said.key] > self._seen[said.key]:
                self._context(said)
        self._answer(span)

    def _context(self, said: Said) -> None:
        self._seen[said.key] += 1
        if said.result is not None:
            self._result(said)
            return
        draft = self._builder.add(
            said.actor, said.text, content=said.content, reasoning=said.reasoning
        )
        if said.actor == "agent":
            draft.values["is_copied"] = True
            self._ask(draft, said.calls)

    def _answer(self, span: Span) -> None:
        draft: Draft | None = self._builder.add("agent", **_values(span))
        assert draft is not None
        self._by_span[span.span_id] = draft
        messages = _first_choice(span.output_said(), draft)
        if not messages:
            self._silent.add(id(draft))
        for said in messages:
            self._seen[said.key] += 1
            if said.result is not None:
                self._result(said)
                draft = None
                continue
            if draft is None:
                draft = self._builder.add("agent", model=span.model)
            draft.add_text(said.text)
            draft.add_reasoning(said.reasoning)
            if said.content is not None:
                draft.values["content"] = said.content
            self._ask(draft, said.calls)

    def _ask(self, draft: Draft, calls: list[ToolCall]) -> None:
        draft.calls.extend(calls)
        self._asked.extend(_Asked(draft, call) for call in calls)

    def _result(self, said: Said) -> None:
        """A result as a prompt holds it: of a call that a span answered, or of an open one."""
        observation = said.result
        assert observation is not None
        asked = self._find(observation.call_id, said.name, None, answered=True)
        if asked is not None and asked.place is not None:
            asked.seen_by_model = True
            ran = asked.draft.observations[asked.place]
            seen = _merged(observation, ran)
            asked.draft.observations[asked.place] = seen
            if ran.text not in {None, seen.text}:
                _note(asked.draft, {"call_id": seen.call_id, "output": ran.text})
            return
        asked = self._find(observation.call_id, said.name, None, answered=False)
        if asked is None:
            self._builder.observe(observation)
        else:
            self._attach(asked, observation)
            asked.seen_by_model = True

    def _find(
        self, call_id: str | None, name: str | None, arguments: Any, *, answered: bool
    ) -> _Asked | None:
        """The first call that fits: by id, else by name and arguments, else by name."""
        open_ = [
            a for a in self._asked if not a.seen_by_model and (a.place is not None) is answered
        ]
        if call_id is not None:
            by_id = [a for a in open_ if a.call.call_id == call_id]
            if by_id or any(a.call.call_id == call_id for a in self._asked):
                return by_id[0] if by_id else None
            open_ = [a for a in open_ if a.call.call_id is None]
        exact = [a for a in open_ if same_action(a.call, name, arguments)]
        named = [a for a in open_ if name is None or a.call.name == name]
        return next(iter(exact or named), None)

    def _attach(self, asked: _Asked, observation: Observation) -> None:
        asked.place = len(asked.draft.observations)
        asked.draft.observations.append(observation)

    def _tool(self, span: Span) -> None:
        call = ToolCall.of(span.tool or span.name, span.prompt, span.call_id)
        asked = self._find(call.call_id, call.name, span.prompt, answered=False)
        if asked is None:
            asked = self._unasked(span, call)
        text = result_text(_plain(span.output))
        if text is None and span.failed:
            text = span.error
        observation = Observation(
            call_id=asked.call.call_id or call.call_id, text=text, is_error=span.failed
        )
        if asked.place is None:
            self._attach(asked, observation)
        self._by_span[span.span_id] = asked.draft
        entry = {
            "span_id": span.span_id,
            "tool": span.tool or span.name,
            "started": span.started,
            "ended": span.ended,
            "error": span.error,
            **span.extra,
        }
        _note(asked.draft, {k: v for k, v in entry.items() if v is not None})

    def _unasked(self, span: Span, call: ToolCall) -> _Asked:
        """Place a call that no recorded output holds.

        Outputs may be left out of a trace: then the call was made by the latest model call. Where
        the output is there and did not ask, the framework called the tool: an event.
        """
        own = [
            d for d in self._builder.drafts if d.actor == "agent" and not d.values.get("is_copied")
        ]
        if not own:
            latest = self._builder.add("agent", timestamp=span.started)
        elif id(own[-1]) in self._silent:
            latest = own[-1]
        else:
            latest = self._builder.add("environment", timestamp=span.started)
        latest.calls.append(call)
        asked = _Asked(latest, call)
        self._asked.append(asked)
        return asked


def _plain(output: Any) -> Any:
    """A tool's output without the envelope of a message or of MCP content."""
    value = decoded(output)
    if isinstance(value, dict):
        content = value.get("content")
        if isinstance(content, list) and all(isinstance(c, dict) for c in content):
            return content
        if isinstance(content, str) and ("tool_call_id" in value or value.get("type") == "tool"):
            return content
        return output
    return value if isinstance(value, str | list) else output


def _merged(seen: Observation, ran: Observation) -> Observation:
    """The result as the model saw it, with the error flag of whichever knows."""
    return Observation(
        call_id=seen.call_id or ran.call_id,
        text=seen.text if seen.text is not None else ran.text,
        content=seen.content or ran.content,
        is_error=seen.is_error if seen.is_error is not None else ran.is_error,
    )


def _values(span: Span) -> dict[str, Any]:
    """Fields of the step of a model span."""
    values: dict[str, Any] = {k: getattr(span, k) for k in (*_COLUMNS, *_TOKEN_COLUMNS)}
    values["timestamp"] = span.started
    if span.started is not None and span.ended is not None:
        values["latency_s"] = (span.ended - span.started).total_seconds()
    values["sampling"] = json_text_or_none(span.sampling)
    kept = {
        "span_id": span.span_id,
        "span": span.name,
        "agent": span.agent,
        "error": span.error,
        "finish_reason": span.finish_reason,
        "cost_usd": span.cost_usd,
    }
    values["metadata"] = json_text_or_none(
        {**{k: v for k, v in kept.items() if v is not None}, **span.extra}
    )
    return values


def _note(draft: Draft, entry: dict[str, Any]) -> None:
    """Keep what a tool span says of itself in the step's metadata."""
    before = json.loads(draft.values.get("metadata") or "{}")
    draft.values["metadata"] = json_text_or_none(
        {**before, "tool_spans": [*before.get("tool_spans", ()), entry]}
    )


def _first_choice(messages: list[Said], draft: Draft) -> list[Said]:
    """The messages of the first choice; others (each has its finish reason) go to metadata."""
    chosen: list[Said] = []
    others: list[Said] = []
    for said in messages:
        before = chosen[-1] if chosen else None
        rival = before is not None and before.finish_reason and said.finish_reason
        (others if rival and said.result is None else chosen).append(said)
    if others:
        told = json.loads(draft.values.get("metadata") or "{}")
        told["other_choices"] = [
            {"text": s.text, "tool_calls": [[c.name, c.arguments_raw] for c in s.calls]}
            for s in others
        ]
        draft.values["metadata"] = json_text_or_none(told)
    return chosen
