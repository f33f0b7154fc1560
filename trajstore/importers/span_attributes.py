"""Attributes of a span, in the many names that were in use, brought to one :class:`Span`.

Read are the OpenTelemetry GenAI conventions old and new, OpenInference, OpenLLMetry (Traceloop),
the Vercel AI SDK, LangSmith and Agent-lightning, also mixed in one span.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trajstore.importers.building import number, whole
from trajstore.importers.framework_messages import decoded
from trajstore.importers.span_messages import (
    event_messages,
    indexed,
    output_of,
    prompt_of,
)
from trajstore.importers.spans import Kind, Span
from trajstore.importers.token_lists import token_ids

Events = list[tuple[str, dict[str, Any]]]
"""Span events: name and attributes."""

MARKERS = (
    "gen_ai.",
    "openinference.",
    "llm.",
    "traceloop.",
    "ai.operationId",
    "langfuse.observation.",
    "agentlightning.",
)
"""How the names of attributes begin that say what an agent did."""

_OPERATIONS: Mapping[str, Kind] = {
    "chat": "model",
    "completion": "model",
    "text_completion": "model",
    "generate_content": "model",
    "response": "model",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "agent",
    "embeddings": "other",
    "chain": "other",
}
_KINDS: Mapping[str, Kind] = {
    "llm": "model",
    "generation": "model",
    "tool": "tool",
    "agent": "agent",
    "chain": "other",
    "workflow": "other",
    "task": "other",
    "span": "other",
    "retriever": "other",
    "embedding": "other",
    "reranker": "other",
    "guardrail": "other",
    "evaluator": "other",
}
_KIND_NAMES = (
    "openinference.span.kind",
    "traceloop.span.kind",
    "langsmith.span.kind",
    "langfuse.observation.type",
)
_MODELS = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "llm.response.model",
    "llm.request.model",
    "ai.response.model",
    "ai.model.id",
)
_PROMPT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
    "ai.usage.promptTokens",
    "ai.usage.inputTokens",
)
_COMPLETION_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
    "ai.usage.completionTokens",
    "ai.usage.outputTokens",
)
_CACHED_TOKENS = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
)
_COSTS = ("gen_ai.usage.cost", "llm.cost.total", "operation.cost")
_TOOLS = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name")
_CALL_IDS = ("gen_ai.tool.call.id", "tool_call.id", "tool.call_id", "ai.toolCall.id")
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "ai.toolCall.args",
    "tool_arguments",
    "gcp.vertex.agent.tool_call_args",
    "input.value",
    "traceloop.entity.input",
    "langfuse.observation.input",
    "input",
)
_RESULTS = (
    "gen_ai.tool.call.result",
    "ai.toolCall.result",
    "tool_response",
    "gcp.vertex.agent.tool_response",
    "output.value",
    "traceloop.entity.output",
    "langfuse.observation.output",
    "output",
)
_AGENTS = ("gen_ai.agent.name", "agent.name", "agent_name")
_FINISH = (
    "gen_ai.response.finish_reasons",
    "llm.response.finish_reason",
    "ai.response.finishReason",
)
_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "stop_sequences",
    "stop",
    "logprobs",
)
_MODEL_SIGNS = (
    "gen_ai.input.messages",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.request.model",
    "gen_ai.response.id",
    "llm.request.type",
    "llm.model_name",
)
_PAYLOADS = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.tool.definitions",
    "llm.input_messages",
    "llm.output_messages",
    "llm.tools",
    "llm.request.functions",
    "ai.prompt",
    "ai.response.text",
    "ai.response.toolCalls",
    "input.value",
    "output.value",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "langfuse.observation.input",
    "langfuse.observation.output",
    "gcp.vertex.agent.llm_request",
    "gcp.vertex.agent.llm_response",
    "all_messages_events",
    "pydantic_ai.all_messages",
    "model_request_parameters",
    "events",
    "input",
    "output",
)


def first(attributes: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The value of the first of the names that is there and not null."""
    return next((attributes[n] for n in names if attributes.get(n) is not None), None)


def fill(span: Span, attributes: Mapping[str, Any], events: Events) -> Span:
    """Set the fields of a span from its attributes and events.

    Args:
        span: the span with its ids, name and times; its kind and the rest are overwritten.
        attributes: flat attributes (dotted names).
        events: its events.
    """
    attributes = _with_details(attributes, events)
    span.kind = kind_of(span, attributes, events)
    if span.kind == "tool":
        span.tool = _text(first(attributes, _TOOLS)) or _entity(attributes) or span.name
        span.call_id = _text(first(attributes, _CALL_IDS))
        span.prompt = first(attributes, _ARGUMENTS)
        span.output = first(attributes, _RESULTS)
    else:
        said, answered = event_messages(events)
        span.prompt = prompt_of(attributes, said)
        span.output = output_of(attributes, answered)
        span.system = attributes.get("gen_ai.system_instructions")
        span.model = _text(first(attributes, _MODELS))
    span.agent = _text(first(attributes, _AGENTS)) or _agent_entity(span, attributes)
    span.conversation = _text(attributes.get("gen_ai.conversation.id"))
    span.prompt_tokens = whole(first(attributes, _PROMPT_TOKENS))
    span.completion_tokens = whole(first(attributes, _COMPLETION_TOKENS))
    span.cached_tokens = whole(first(attributes, _CACHED_TOKENS))
    span.cost_usd = number(first(attributes, _COSTS))
    span.finish_reason = _finish(first(attributes, _FINISH))
    span.tools = _tools(attributes)
    span.sampling = _sampling(attributes)
    _token_ids(span, attributes)
    _read_events(span, events)
    span.extra.update(_extra(attributes))
    return span


def kind_of(span: Span, attributes: Mapping[str, Any], events: Events) -> Kind:
    """What a span is: as it says in any convention, else by what it carries."""
    operation = str(attributes.get("gen_ai.operation.name") or "").lower()
    if operation in _OPERATIONS:
        return _OPERATIONS[operation]
    for name in _KIND_NAMES:
        said = str(attributes.get(name) or "").lower()
        if said in _KINDS:
            return _KINDS[said]
    vercel = str(attributes.get("ai.operationId") or "")
    if vercel:
        model = vercel.endswith((".doGenerate", ".doStream"))
        return "tool" if vercel == "ai.toolCall" else "model" if model else "other"
    if first(attributes, _TOOLS) is not None and "llm.model_name" not in attributes:
        return "tool"
    if any(n in attributes for n in _MODEL_SIGNS) or event_messages(events) != ([], []):
        return "model"
    if any(k.startswith(("gen_ai.prompt.", "llm.input_messages.")) for k in attributes):
        return "model"
    return "agent" if first(attributes, _AGENTS) is not None else span.kind


def _with_details(attributes: Mapping[str, Any], events: Events) -> dict[str, Any]:
    """Attributes together with those of events that only carry the content of the span."""
    found = dict(attributes)
    for name, values in events:
        if name in {
            "gen_ai.client.inference.operation.details",
            "gen_ai.content.prompt",
            "gen_ai.content.completion",
        }:
            found = {**values, **found}
    return found


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _entity(attributes: Mapping[str, Any]) -> str | None:
    return _text(attributes.get("traceloop.entity.name"))


def _agent_entity(span: Span, attributes: Mapping[str, Any]) -> str | None:
    if span.kind != "agent":
        return None
    return _text(attributes.get("graph.node.id")) or _entity(attributes)


def _finish(value: Any) -> str | None:
    plain = decoded(value)
    if isinstance(plain, list):
        plain = plain[0] if plain else None
    return _text(plain)


def _tools(attributes: Mapping[str, Any]) -> Any:
    given = decoded(first(attributes, ("gen_ai.tool.definitions", "ai.prompt.tools")))
    if given:
        return [decoded(t) for t in given] if isinstance(given, list) else given
    schemas = [t.get("tool", t).get("json_schema") for t in indexed(attributes, "llm.tools")]
    parameters = decoded(attributes.get("model_request_parameters"))
    offered = parameters.get("function_tools") if isinstance(parameters, dict) else None
    functions = indexed(attributes, "llm.request.functions")
    return [decoded(s) for s in schemas if s is not None] or offered or functions or None


def _sampling(attributes: Mapping[str, Any]) -> dict[str, Any]:
    given = decoded(attributes.get("llm.invocation_parameters"))
    found = {k: given.get(k) for k in _SAMPLING} if isinstance(given, dict) else {}
    found |= {
        k: attributes.get(f"gen_ai.request.{k}")
        for k in _SAMPLING
        if f"gen_ai.request.{k}" in attributes
    }
    return {k: v for k, v in found.items() if v is not None}


def _token_ids(span: Span, attributes: Mapping[str, Any]) -> None:
    """Token ids and log-probabilities as Agent-lightning and its LLM proxy record them."""
    for name, value in attributes.items():
        if name.endswith("prompt_token_ids"):
            span.prompt_token_ids = _ids(value)
        elif name.endswith(("response_token_ids", "completion_token_ids")):
            span.completion_token_ids = _ids(value)
        elif name.endswith("logprobs.content"):
            entries = decoded(value)
            if isinstance(entries, list) and all(isinstance(e, dict) for e in entries):
                span.logprobs = tuple(float(e["logprob"]) for e in entries if "logprob" in e)


def _ids(value: Any) -> tuple[int, ...] | None:
    plain = decoded(value)
    if isinstance(plain, list | tuple) and plain and isinstance(plain[0], list | tuple):
        plain = plain[0]
    return token_ids(plain) if isinstance(plain, list | tuple) else None


def _read_events(span: Span, events: Events) -> None:
    """Exceptions, evaluations and rewards that stand in events."""
    for name, values in events:
        if name == "exception":
            kind, message = values.get("exception.type"), values.get("exception.message")
            told = ": ".join(str(p) for p in (kind, message) if p)
            span.error = span.error or told or None
            if values.get("exception.stacktrace"):
                span.extra["stacktrace"] = values["exception.stacktrace"]
        elif name == "gen_ai.evaluation.result":
            span.marks.append(
                {
                    "name": values.get("gen_ai.evaluation.name", "evaluation"),
                    "value": number(values.get("gen_ai.evaluation.score.value")),
                    "rationale": values.get("gen_ai.evaluation.explanation")
                    or values.get("gen_ai.evaluation.score.label"),
                    "evaluator": values.get("gen_ai.evaluation.evaluator", "gen_ai.evaluation"),
                }
            )


def _extra(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that have no place of their own and repeat no message."""
    taken = {*_PROMPT_TOKENS, *_COMPLETION_TOKENS, *_CACHED_TOKENS, *_TOOLS, *_CALL_IDS}
    taken |= {*_ARGUMENTS, *_RESULTS, *_AGENTS, *_FINISH, *_COSTS, *_PAYLOADS}
    prefixes = tuple(f"{p}." for p in _PAYLOADS)
    endings = ("token_ids", "logprobs.content")
    left = {
        k: v
        for k, v in attributes.items()
        if k not in taken and not k.startswith(prefixes) and not k.endswith(endings)
    }
    return {"attributes": left} if left else {}
