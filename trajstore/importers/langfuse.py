"""Langfuse exports: a trace with its observations, whatever framework made them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from trajstore.importers.building import moment, number, whole
from trajstore.importers.framework_messages import decoded, tools_of
from trajstore.importers.importer import Importer, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.otel_spans import flattened
from trajstore.importers.record_by_record import UNFIT
from trajstore.importers.source import Record, Source
from trajstore.importers.span_attributes import fill, first
from trajstore.importers.span_runs import Trace, conversation_of, runs
from trajstore.importers.spans import Kind, Span

_KINDS: Mapping[str, Kind] = {"GENERATION": "model", "TOOL": "tool", "AGENT": "agent"}
_SAID_BY_ATTRIBUTES = ("gen_ai.input.messages", "llm.input_messages.0.message.role")
_OBSERVATION_KEPT = ("level", "version", "promptName", "promptVersion", "timeToFirstToken")
_TRACE_KEPT = (
    "id",
    "name",
    "environment",
    "release",
    "version",
    "userId",
    "sessionId",
    "metadata",
    "corrections",
)
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "maxTokens", "seed", "topP", "topK")


class LangfuseImporter(Importer):
    """Reads ``{trace, observations}`` exports and traces of the public API.

    Identity: as of the OpenTelemetry trace behind it, so that both exports are one run. A session
    joins traces but no runs: it goes to the metadata. Generations that wrap another generation are
    left out, so each model call is counted once. Scores become labels under their own names; none
    of them is an outcome unless it is called so.
    """

    name: ClassVar[str] = "langfuse"
    title: ClassVar[str] = "Langfuse trace export (JSON)"
    reads: ClassVar[str] = (
        "generations, tools and agents of one trace as one run; sub-agents as children; scores as "
        "labels"
    )

    def detect(self, source: Source) -> float:
        """Sure of traces with observations, and of the chat rendering beside them."""
        return 0.95 if any(_is_trace(v) or _is_rendering(v) for v in source.sample) else 0.0

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One trace."""
        value = record.value
        if _is_rendering(value):
            return [self.ignored(source, "chat messages that Langfuse derived from a trace export")]
        trace = value.get("trace", value)
        observations = value.get("observations") or trace.get("observations") or ()
        spans: list[Span] = []
        faults: list[Item] = []
        for place, observation in enumerate(observations):
            try:
                spans.append(_span(observation))
            except UNFIT as error:
                reason = f"observation {place} cannot be read: {error!r}"
                faults.append(self.problem(source, reason, record))
        if not spans:
            raise ValueError("the trace has no observations that can be read")
        about = Trace(
            key=conversation_of(spans) or str(trace["id"]),
            source=self.name,
            source_uri=uri(source, record),
            goal=_plain_text(trace.get("input")),
            tags=tuple(str(t) for t in trace.get("tags") or ()),
            marks=tuple(_marks(trace.get("scores") or value.get("scores") or ())),
            metadata={k: trace[k] for k in _TRACE_KEPT if trace.get(k) not in (None, [], {})},
        )
        return [*faults, *runs(spans, about, options)]


def _is_trace(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    trace = value.get("trace", value)
    observations = value.get("observations")
    if not isinstance(trace, Mapping) or not isinstance(observations, list):
        return False
    if not observations:
        return "projectId" in trace or "sessionId" in trace
    return isinstance(observations[0], Mapping) and "parentObservationId" in observations[0]


def _is_rendering(value: Any) -> bool:
    """The ``*.chatml.json`` beside an export: observation id -> input and output, parsed or not."""
    if not isinstance(value, Mapping) or not value:
        return False
    return all(
        isinstance(v, Mapping)
        and {"input", "output"} >= set(v)
        and all(isinstance(side, Mapping) and "success" in side for side in v.values())
        for v in value.values()
    )


def _span(observation: Mapping[str, Any]) -> Span:
    """A span from an observation; its own fields win over the attributes it was made from."""
    span = Span(
        span_id=str(observation["id"]),
        trace_id=str(observation.get("traceId") or ""),
        parent_id=observation.get("parentObservationId"),
        name=observation.get("name"),
        started=moment(observation.get("startTime")),
        ended=moment(observation.get("endTime")),
    )
    metadata = decoded(observation.get("metadata"))
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    attributes = flattened(_mapping(metadata.pop("attributes", None)))
    fill(span, attributes, [])
    _set_kind(span, str(observation.get("type") or ""), observation)
    _set_content(span, observation, attributes)
    _set_numbers(span, observation)
    span.extra |= {k: observation[k] for k in _OBSERVATION_KEPT if observation.get(k) is not None}
    resource = {k: metadata.pop(k) for k in ("resourceAttributes", "scope") if k in metadata}
    span.extra |= {"metadata": metadata} if metadata else {}
    span.extra |= resource if observation.get("parentObservationId") is None else {}
    if observation.get("level") == "ERROR":
        span.failed = True
    if span.failed or observation.get("statusMessage"):
        span.error = observation.get("statusMessage") or span.error
    return span


def _mapping(value: Any) -> dict[str, Any]:
    plain = decoded(value)
    return dict(plain) if isinstance(plain, Mapping) else {}


def _set_kind(span: Span, kind: str, observation: Mapping[str, Any]) -> None:
    """The kind by type; plain SPANs by their attributes, or by a tool message as their output."""
    if kind in _KINDS:
        span.kind = _KINDS[kind]
        return
    output = decoded(observation.get("output"))
    if isinstance(output, Mapping) and output.get("type") == "tool" and "tool_call_id" in output:
        span.kind, span.call_id = "tool", output["tool_call_id"]
        span.tool = output.get("name") or span.name
    elif kind != "SPAN" or span.kind != "agent":
        span.kind = "other"


def _set_content(span: Span, observation: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
    """Prompt, output and tools.

    The prompt of the attributes wins, since it has the system message; the output of the
    observation wins, since it is the raw answer.
    """
    told = span.kind != "tool" and first(attributes, _SAID_BY_ATTRIBUTES) is not None
    if observation.get("input") is not None and not told:
        span.prompt = observation["input"]
    if observation.get("output") is not None:
        span.output = observation["output"]
    if span.kind == "tool":
        span.tool = span.tool or span.name
        return
    given = _mapping(observation.get("toolDefinitions"))
    metadata = _mapping(observation.get("metadata"))
    offered = [decoded(t) for t in metadata.get("tools") or ()]
    answer = _mapping(observation.get("output"))
    span.tools = (
        span.tools
        or list(given.values())
        or offered
        or tools_of(observation.get("input"))
        or answer.get("tools")
        or None
    )
    span.system = span.system or answer.get("instructions")


def _set_numbers(span: Span, observation: Mapping[str, Any]) -> None:
    span.model = observation.get("model") or span.model
    usage = observation.get("usageDetails") or observation.get("usage") or {}
    counts = {str(k): whole(v) or 0 for k, v in usage.items() if whole(v) is not None}
    if any(counts.values()):
        span.prompt_tokens, span.completion_tokens = _side_sums(counts)
        cached = [v for k, v in counts.items() if "cache" in k and "creat" not in k]
        span.cached_tokens = sum(cached) if cached else span.cached_tokens
    cost = number((observation.get("costDetails") or {}).get("total"))
    span.cost_usd = cost if cost is not None else number(observation.get("totalCost"))
    parameters = observation.get("modelParameters") or {}
    given = {k: parameters[k] for k in _SAMPLING if parameters.get(k) is not None}
    span.sampling = {**span.sampling, **given}


def _side_sums(counts: Mapping[str, int]) -> tuple[int | None, int | None]:
    """Tokens read and written.

    SDKs of Langfuse split a side into parts (``input`` and ``input_cached_tokens`` ...) that add
    up; other exporters repeat a part that is in the side already. The total tells which it is.
    """
    sides = []
    for side in ("input", "output"):
        parts = [v for k, v in counts.items() if k.startswith(f"{side}_")]
        sides.append((counts.get(side), sum(parts)))
    (read, read_parts), (written, written_parts) = sides
    whole_sum = (read or 0) + (written or 0) + read_parts + written_parts
    if "total" in counts and whole_sum > counts["total"]:
        read_parts = written_parts = 0
    return (
        None if read is None and not read_parts else (read or 0) + read_parts,
        None if written is None and not written_parts else (written or 0) + written_parts,
    )


def _marks(scores: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for score in scores:
        value = number(score.get("value"))
        said = score.get("comment") or score.get("stringValue") or score.get("longStringValue")
        yield {
            "name": score["name"],
            "value": value,
            "success": bool(value) if score.get("dataType") == "BOOLEAN" else None,
            "rationale": said or None,
            "evaluator": f"langfuse/{str(score.get('source') or 'API').lower()}",
            "created_at": moment(score.get("timestamp") or score.get("createdAt")),
            "span_id": score.get("observationId"),
        }


def _plain_text(value: Any) -> str | None:
    """The trace's input where it is plain text."""
    plain = decoded(value, levels=3)
    return plain if isinstance(plain, str) and plain else None


IMPORTER = LangfuseImporter()
