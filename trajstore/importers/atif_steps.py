"""Steps of an ATIF document, leniently: what a strict validator refuses is kept here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trajstore.importers.building import (
    Draft,
    StepBuilder,
    moment,
    parts_of,
    rest,
    text_of,
)
from trajstore.importers.plain import count, numbers, token_ids, words
from trajstore.schema import Actor, Observation, ToolCall, json_text_or_none

_ACTORS: Mapping[str, Actor] = {"system": "system", "user": "user", "agent": "agent"}
_STEP_TAKEN = frozenset(
    {
        "step_id",
        "source",
        "message",
        "model_name",
        "reasoning_content",
        "tool_calls",
        "observation",
        "metrics",
        "is_copied_context",
    }
)
_METRICS_TAKEN = frozenset(
    {
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "prompt_token_ids",
        "completion_token_ids",
        "logprobs",
    }
)
_CALL_TAKEN = frozenset({"tool_call_id", "function_name", "arguments"})
_RESULT_TAKEN = frozenset({"source_call_id", "content"})
_ERROR_FLAGS = ("is_error", "tool_result_is_error")
_SAMPLING = ("temperature", "top_p", "top_k", "seed", "max_tokens")
_UNPARSED = "Previous response had parsing errors:\nERROR"


def add_steps(document: Mapping[str, Any], builder: StepBuilder) -> dict[int, Draft]:
    """Add the steps of a document to a builder.

    Args:
        document: the document; raises TypeError or KeyError where a step is none.
        builder: may hold the steps of earlier segments.

    Returns:
        The drafts by position in ``steps``. A step that held nothing but results of other steps'
        calls has none.
    """
    sampling = _sampling(document)
    drafts = {}
    for position, step in enumerate(document["steps"]):
        if not isinstance(step, Mapping):
            what = f"step {position + 1} is not an object"
            raise TypeError(what)
        draft = _add(step, builder)
        if draft is None:
            continue
        drafts[position] = draft
        if draft.actor == "agent" and not draft.values.get("is_copied") and sampling is not None:
            draft.values["sampling"] = sampling
    return drafts


def _add(step: Mapping[str, Any], builder: StepBuilder) -> Draft | None:
    results = _results(step)
    metrics = step.get("metrics")
    draft = builder.add(
        _actor(step, results),
        text_of(step.get("message")),
        content=parts_of(step.get("message")),
        reasoning=words(step.get("reasoning_content")),
        is_copied=True if step.get("is_copied_context") else None,
        model=words(step.get("model_name")),
        timestamp=moment(step.get("timestamp")),
        **(_metrics(metrics) if isinstance(metrics, Mapping) else {}),
    )
    draft.calls.extend(_call(c) for c in step.get("tool_calls") or ())
    linked = _observe(results, draft, builder)
    said = draft.text or draft.calls or draft.observations or draft.values.get("content")
    if linked and not said:
        builder.drafts.pop()
        return None
    if any((o.text or "").startswith(_UNPARSED) for o in draft.observations):
        draft.values["format_error"] = True
    metadata = _metadata(step, results, draft)
    if metadata is not None:
        draft.values["metadata"] = metadata
    return draft


def _actor(step: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> Actor:
    """Who acted. An agent step that no model call stands behind is the scaffold's."""
    source = str(step["source"])
    actor = _ACTORS.get(source, "environment")
    if actor == "system" and results:
        return "environment"
    if actor != "agent":
        return actor
    if step.get("llm_call_count") == 0:
        return "environment"
    empty = not any(step.get(k) for k in ("message", "tool_calls", "metrics", "reasoning_content"))
    return "environment" if empty and results else "agent"


def _call(call: Mapping[str, Any]) -> ToolCall:
    return ToolCall.of(call["function_name"], call.get("arguments"), call.get("tool_call_id"))


def _results(step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, Mapping) else None
    return [r for r in results or () if isinstance(r, Mapping)]


def _observe(
    results: Sequence[Mapping[str, Any]], draft: Draft, builder: StepBuilder
) -> list[Draft]:
    """Put each result where it belongs; says which drafts of other steps took one.

    A result names a call of its own step. Where it names none of them but the open call of an
    earlier step (written so by some producers), it goes there.
    """
    own = {c.call_id for c in draft.calls}
    others = []
    for result in results:
        observation = _observation(result)
        wanted = observation.call_id
        elsewhere = wanted is not None and wanted not in own and _is_open(wanted, builder)
        target = builder.observe(observation) if elsewhere else draft
        if elsewhere:
            others.append(target)
        else:
            draft.observations.append(observation)
    return others


def _is_open(call_id: str, builder: StepBuilder) -> bool:
    return any(d.calls and d.unanswered(call_id) for d in builder.drafts)


def _observation(result: Mapping[str, Any]) -> Observation:
    call_id, content = result.get("source_call_id"), result.get("content")
    text = text_of(content)
    extra = result.get("extra")
    flags = [extra.get(k) for k in _ERROR_FLAGS] if isinstance(extra, Mapping) else []
    told = next((f for f in flags if isinstance(f, bool)), None)
    return Observation(
        call_id=None if call_id is None else str(call_id),
        text=text,
        content=parts_of(content),
        is_error=True if (text or "").startswith(_UNPARSED) else told,
    )


def _metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Token counts, ids and log-probabilities (only where each token has one)."""
    ids, logprobs = token_ids(metrics.get("completion_token_ids")), numbers(metrics.get("logprobs"))
    if ids is not None and logprobs is not None and len(ids) != len(logprobs):
        logprobs = None
    fields = {
        "prompt_tokens": count(metrics.get("prompt_tokens")),
        "completion_tokens": count(metrics.get("completion_tokens")),
        "cached_tokens": count(metrics.get("cached_tokens")),
        "prompt_token_ids": token_ids(metrics.get("prompt_token_ids")),
        "completion_token_ids": ids,
        "logprobs": logprobs,
    }
    return {k: v for k, v in fields.items() if v is not None}


def _metadata(
    step: Mapping[str, Any], results: Sequence[Mapping[str, Any]], draft: Draft
) -> str | None:
    kept: dict[str, Any] = {k: v for k, v in step.items() if k not in _STEP_TAKEN}
    if "timestamp" in draft.values:
        kept.pop("timestamp", None)
    if step["source"] not in _ACTORS:
        kept["source"] = step["source"]
    metrics = step.get("metrics")
    if isinstance(metrics, Mapping):
        kept["metrics"] = _left_metrics(metrics, draft)
    elif metrics is not None:
        kept["metrics"] = metrics
    kept["tool_calls"] = _left(step.get("tool_calls") or (), _CALL_TAKEN, "tool_call_id")
    kept["results"] = _left(results, _RESULT_TAKEN, "source_call_id")
    if not results and step.get("observation"):
        kept["observation"] = step["observation"]
    return rest({k: v for k, v in kept.items() if v not in ({}, [])}, ())


def _left_metrics(metrics: Mapping[str, Any], draft: Draft) -> dict[str, Any]:
    """Metrics without a column, and those whose value could not be read."""
    return {
        k: v
        for k, v in metrics.items()
        if v is not None and not (k in _METRICS_TAKEN and (k in draft.values or v == []))
    }


def _left(
    entries: Sequence[Mapping[str, Any]], taken: frozenset[str], name: str
) -> list[dict[str, Any]]:
    """Fields of calls or results that have no column, each with the call's id."""
    left = []
    for entry in entries:
        kept = {k: v for k, v in entry.items() if k not in taken and v is not None}
        if kept:
            left.append({name: entry[name], **kept} if entry.get(name) is not None else kept)
    return left


def _sampling(document: Mapping[str, Any]) -> str | None:
    """Sampling settings that the agent's ``extra`` tells, for every model call of the document."""
    extra = (document.get("agent") or {}).get("extra")
    if not isinstance(extra, Mapping):
        return None
    given = extra.get("llm_kwargs")
    known = {**(given if isinstance(given, Mapping) else {}), **extra}
    return json_text_or_none({k: known[k] for k in _SAMPLING if known.get(k) is not None})
