"""Steps of an Inspect sample: its messages, with what the model events say of each call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trajstore.importers.building import (
    ROLES,
    Draft,
    StepBuilder,
    moment,
    number,
    parts_of,
    text_of,
    whole,
)
from trajstore.schema import Observation, Step, ToolCall, canonical_json, json_text_or_none

_KNOWN = frozenset(
    {
        "content",
        "error",
        "function",
        "model",
        "reasoning",
        "role",
        "tool_call_id",
        "tool_calls",
        "tool_error",
    }
)
_DUPLICATES = frozenset({"call", "input", "output", "pending", "tools", "tool_choice", "config"})
"""Fields of a model event that its step says already, or that repeat the whole prompt."""


@dataclass(slots=True)
class ModelCalls:
    """The model events of a sample, to be found by the message that they brought."""

    _by_id: dict[str, dict[str, Any]] = field(default_factory=dict)
    _by_text: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    used: list[dict[str, Any]] = field(default_factory=list)
    """The events whose message is a step."""

    def read(self, events: Iterable[Any]) -> ModelCalls:
        """Take in the events of a sample."""
        for event in events:
            if not isinstance(event, dict) or event.get("event") != "model":
                continue
            message = _first_choice(event).get("message") or {}
            if message.get("id"):
                self._by_id[message["id"]] = event
            else:
                self._by_text.setdefault(_said(message), []).append(event)
        return self

    def of(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The event that brought a message: by its id, in old logs by what it says, each once."""
        event = self._by_id.pop(message["id"], None) if message.get("id") else None
        if event is None:
            waiting = self._by_text.get(_said(message)) or []
            event = waiting.pop(0) if waiting else None
        if event is not None:
            self.used.append(event)
        return event


def message_steps(messages: Iterable[Mapping[str, Any]], calls: ModelCalls) -> tuple[Step, ...]:
    """Steps from the messages of a sample.

    An assistant message is one agent step with its calls, their results and the tokens of its model
    event. The text of a failed result is the error's message, since that is what the model was
    shown; anything else that the tool said is in the step's metadata.

    Args:
        messages: with all references filled in.
        calls: the model events; those that a message came from are taken out.
    """
    builder = StepBuilder()
    for message in messages:
        role = message["role"]
        if role == "tool":
            _result(builder, message)
            continue
        content = message.get("content")
        known = _KNOWN if role in ROLES else _KNOWN - {"role"}
        draft = builder.add(ROLES.get(role, "environment"), text_of(content))
        _keep(draft, {k: v for k, v in message.items() if k not in known and v is not None})
        if draft.actor == "agent":
            _assistant(draft, message, calls.of(message))
        else:
            draft.values["content"] = parts_of(content)
    for draft in builder.drafts:
        draft.values["metadata"] = json_text_or_none(draft.values.get("metadata"))
    return builder.steps()


def _assistant(draft: Draft, message: Mapping[str, Any], event: dict[str, Any] | None) -> None:
    content = message.get("content")
    parts = [p for p in content if isinstance(p, dict)] if isinstance(content, list) else []
    thoughts = [_thought(p) for p in parts if p.get("type") == "reasoning"]
    thoughts.append(message.get("reasoning"))
    for thought in thoughts:
        draft.add_reasoning(thought if isinstance(thought, str) and thought else None)
    shown = [p for p in parts if p.get("type") != "tool_use" and not _is_plain_thought(p)]
    draft.values["content"] = parts_of(shown)
    for part in parts:
        if part.get("type") == "tool_use":
            _server_tool(draft, part)
    for call in message.get("tool_calls") or ():
        draft.calls.append(ToolCall.of(call.get("function"), call.get("arguments"), call["id"]))
    errors = {c["id"]: c["parse_error"] for c in message.get("tool_calls") or () if _broken(c)}
    draft.values["format_error"] = bool(errors)
    draft.values["model"] = message.get("model")
    about = {"parse_errors": errors, "model_event": None}
    if event is not None:
        about["model_event"] = _model_event(draft, event)
    _keep(draft, {k: v for k, v in about.items() if v})


def _broken(call: Mapping[str, Any]) -> bool:
    return call.get("parse_error") is not None


def _thought(part: Mapping[str, Any]) -> Any:
    """Readable thinking; of a redacted one only the summary, where there is one."""
    return part.get("summary") if part.get("redacted") else part.get("reasoning")


def _is_plain_thought(part: Mapping[str, Any]) -> bool:
    """Whether a reasoning part says nothing but its text, which is the step's reasoning."""
    return part.get("type") == "reasoning" and not (
        part.get("signature") or part.get("redacted") or part.get("internal")
    )


def _server_tool(draft: Draft, part: Mapping[str, Any]) -> None:
    """A tool that the model's server ran: call and result stand in one part."""
    draft.calls.append(ToolCall.of(part.get("name"), part.get("arguments"), part.get("id")))
    result = part.get("result")
    draft.observations.append(
        Observation(
            call_id=part.get("id"),
            text=result if result is None or isinstance(result, str) else json_text_or_none(result),
            is_error=part.get("error") is not None,
        )
    )


def _model_event(draft: Draft, event: Mapping[str, Any]) -> dict[str, Any]:
    """Put tokens, time and settings of a model call on its step; give what has no column."""
    output, choice = event.get("output") or {}, _first_choice(event)
    values = draft.values
    values.update(token_counts(output.get("usage")))
    values["latency_s"] = number(output.get("time"))
    values["timestamp"] = moment(event.get("timestamp"))
    values["sampling"] = json_text_or_none(event.get("config"))
    if values.get("model") is None:
        values["model"] = output.get("model") or event.get("model")
    logprobs = (choice.get("logprobs") or {}).get("content")
    if logprobs:
        values["logprobs"] = tuple(float(one["logprob"]) for one in logprobs)
    left = {k: v for k, v in event.items() if k not in _DUPLICATES and v is not None}
    left["stop_reason"] = choice.get("stop_reason")
    left["usage"] = output.get("usage")
    more = (output.get("choices") or ())[1:]
    if more:
        left["other_choices"] = more
    for known in ("event", "timestamp", "model", "traceback_ansi"):
        left.pop(known, None)
    return {k: v for k, v in left.items() if v is not None}


def token_counts(usage: Any) -> dict[str, int]:
    """Token counts of a call under the names of our columns, cached tokens inside the prompt.

    ``input_tokens`` leaves out the cached tokens in newer logs and holds them in older ones; the
    total tells which.
    """
    if not isinstance(usage, Mapping):
        return {}
    fresh, wrote = whole(usage.get("input_tokens")), whole(usage.get("output_tokens"))
    read = whole(usage.get("input_tokens_cache_read"))
    total = whole(usage.get("total_tokens"))
    cached = (read or 0) + (whole(usage.get("input_tokens_cache_write")) or 0)
    prompt = fresh
    if fresh is not None and cached:
        spoken = (wrote or 0, (wrote or 0) + (whole(usage.get("reasoning_tokens")) or 0))
        holds_cached = total is not None and any(total == fresh + words for words in spoken)
        prompt = fresh if holds_cached else fresh + cached
    counts = {"prompt_tokens": prompt, "completion_tokens": wrote, "cached_tokens": read}
    return {name: count for name, count in counts.items() if count is not None}


def _result(builder: StepBuilder, message: Mapping[str, Any]) -> None:
    """A tool message, as the result of its call."""
    content, error = message.get("content"), message.get("error")
    if error is None and message.get("tool_error"):
        error = {"type": "unknown", "message": message["tool_error"]}
    text, call_id = text_of(content), message.get("tool_call_id")
    shown = error.get("message") if isinstance(error, dict) else text
    draft = builder.observe(
        Observation(
            call_id=None if call_id is None else str(call_id),
            text=shown,
            is_error=error is not None,
            content=parts_of(content),
        )
    )
    note = {k: v for k, v in message.items() if k not in _KNOWN and v is not None}
    if isinstance(error, dict):
        note |= {"call_id": call_id, "error": error.get("type")}
        if text and text != shown:
            note["output"] = text
    if note:
        _keep(draft, {"results": [note]})


def _keep(draft: Draft, fields: Mapping[str, Any]) -> None:
    """Add fields to a step's metadata, which becomes text at the end; lists of results grow."""
    about = draft.values.setdefault("metadata", {})
    for key, value in fields.items():
        about[key] = [*about.get(key, []), *value] if key == "results" else value


def _first_choice(event: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = (event.get("output") or {}).get("choices") or [{}]
    return choices[0] if isinstance(choices[0], dict) else {}


def _said(message: Mapping[str, Any]) -> str:
    calls = [(c.get("id"), c.get("function")) for c in message.get("tool_calls") or ()]
    return canonical_json([message.get("content"), calls])
