"""OpenTelemetry GenAI and OpenInference spans: one trace or conversation is one trajectory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from trajstore.importers.importer import Importer, uri
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.otel_spans import (
    BadSpan,
    bare_span,
    is_bare,
    is_export,
    is_span,
    spans_in,
    speaks_of_models,
)
from trajstore.importers.record_by_record import UNFIT
from trajstore.importers.source import Record, Source
from trajstore.importers.span_runs import NoAgentError, Trace, conversation_of, runs
from trajstore.importers.spans import Span
from trajstore.schema import digest


class OtelImporter(Importer):
    """Reads OTLP JSON exports and files of spans, also spread over many lines.

    Identity: the conversation id where all model calls (or the root) carry the same one, else the
    Agent-lightning attempt, else the trace id; the same trace from Langfuse has the same id. Bare
    attributes of one span have no id at all: a digest of what was said stands for it.

    A file is read twice: once for which trace ends where, once to build each trace when its last
    span has come. So only the traces that are open at one moment are held.
    """

    name: ClassVar[str] = "otel"
    title: ClassVar[str] = "OpenTelemetry GenAI and OpenInference spans (OTLP JSON, JSON Lines)"
    reads: ClassVar[str] = (
        "model, tool and agent spans as one run a trace or conversation; sub-agents as children; "
        "evaluation events as labels, no outcome"
    )

    def detect(self, source: Source) -> float:
        """Sure of exports and spans that speak of models; half sure of other spans."""
        best = 0.0
        for value in source.sample:
            if _is_schema(value) or is_bare(value):
                return 0.9
            if is_export(value) or is_span(value):
                best = max(best, 0.9 if speaks_of_models(value) else 0.5)
        return best

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """One trajectory a trace or conversation, and one a sub-agent; labels of evaluations."""
        if _is_schema(source.first):
            yield self.ignored(source, "the JSON schema of GenAI messages, no recorded run")
            return
        idle = 0
        for found in self._traces(source):
            if isinstance(found, Problem):
                yield found
                continue
            group, place, spans = found
            try:
                yield from self._run(source, place, group, spans, options)
            except NoAgentError:
                idle += 1
        if idle:
            yield self.ignored(source, f"{idle} traces hold no model, tool or agent span")

    def _traces(self, source: Source) -> Iterator[Problem | tuple[str, str, list[Span]]]:
        """Each group of spans with its place, as soon as its last span was read."""
        groups, last = self._survey(source)
        if not groups:
            yield self.ignored(source, "there is no span in it")
        held: dict[str, list[Span]] = {}
        place: dict[str, str] = {}
        for record in source.records():
            if isinstance(record, Problem):
                yield record
                continue
            try:
                spans = self._spans(record.value)
            except UNFIT as error:
                yield self.problem(source, f"not a span: {error}", record)
                continue
            for span in spans:
                if isinstance(span, BadSpan):
                    yield self.problem(source, span.reason, record)
                    continue
                group = groups[span.trace_id]
                held.setdefault(group, []).append(span)
                place.setdefault(group, uri(source, record))
            for group in [g for g in held if last[g] == record.index]:
                yield group, place.pop(group), held.pop(group)

    @staticmethod
    def _spans(value: Any) -> list[Span | BadSpan]:
        if not is_bare(value):
            return list(spans_in(value))
        span = bare_span(value)
        said = [m.key for m in (*span.prompt_said(), *span.output_said())]
        parts = (span.kind, said) if said else (span.kind, span.tool, span.prompt, span.output)
        span.trace_id = digest(*parts)
        return [span]

    def _survey(self, source: Source) -> tuple[dict[str, str], dict[str, int]]:
        """Which traces belong together, and in which record each group ends."""
        few: dict[str, list[Span]] = {}
        ends: dict[str, int] = {}
        for record in source.records():
            if isinstance(record, Problem):
                continue
            for span in self._quietly(record):
                ends[span.trace_id] = record.index
                few.setdefault(span.trace_id, []).append(_outline(span))
        groups = {trace: _group(spans) or trace for trace, spans in few.items()}
        last: dict[str, int] = {}
        for trace, index in ends.items():
            last[groups[trace]] = max(index, last.get(groups[trace], -1))
        return groups, last

    def _quietly(self, record: Record) -> list[Span]:
        """Spans of a record, none where it is bad; the second reading says so."""
        try:
            return [s for s in self._spans(record.value) if isinstance(s, Span)]
        except UNFIT:
            return []

    def _run(
        self, source: Source, place: str, group: str, spans: list[Span], options: ImportOptions
    ) -> Iterable[Item]:
        rollout = next((s.extra["rollout_id"] for s in spans if "rollout_id" in s.extra), None)
        trace = Trace(
            key=group,
            source=self.name,
            source_uri=place,
            task=None if rollout is None else str(rollout),
            metadata=_about(spans),
        )
        try:
            return list(runs(spans, trace, options))
        except NoAgentError:
            raise
        except UNFIT as error:
            return [Problem(source=source.uri, record=group, reason=f"bad trace: {error}")]


def _outline(span: Span) -> Span:
    """What of a span decides its group, without its messages."""
    kept: dict[str, Any] = {
        k: span.extra[k] for k in ("rollout_id", "attempt_id") if k in span.extra
    }
    return Span(
        span_id=span.span_id,
        trace_id=span.trace_id,
        parent_id=span.parent_id,
        kind=span.kind,
        conversation=span.conversation,
        extra=kept,
    )


def _group(spans: list[Span]) -> str | None:
    """The conversation, or the attempt, that a trace belongs to."""
    attempt = next((s.extra for s in spans if "rollout_id" in s.extra), None)
    if attempt is not None:
        return f"{attempt['rollout_id']}/{attempt.get('attempt_id', '')}"
    return conversation_of(spans)


def _about(spans: list[Span]) -> dict[str, Any]:
    """The traces' ids, and the resource where all spans name the same."""
    found: dict[str, Any] = {"trace_ids": list(dict.fromkeys(s.trace_id for s in spans))}
    resources = [s.extra.get("resource") for s in spans]
    if resources[0] and all(r == resources[0] for r in resources):
        found["resource"] = resources[0]
        for span in spans:
            del span.extra["resource"]
    return found


def _is_schema(value: Any) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("$defs"), Mapping):
        return False
    return {"ChatMessage", "OutputMessage", "ToolCallRequestPart"} & set(value["$defs"]) != set()


IMPORTER = OtelImporter()
