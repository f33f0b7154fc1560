"""Steps as ATIF has them; what ATIF has no word for goes under ``extra``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from trajstore.schema import Observation, Step, ToolCall, json_text

OWN = "trajstore"
"""Key under ``extra`` for what ATIF has no field for; the ATIF importer reads it back."""

UNKNOWN = "unknown"
"""What stands where ATIF demands a text and none is known."""

Record = dict[str, Any]
"""One JSON object."""

_SOURCES = {"system", "user", "agent"}
_AGENT_ONLY = {"reasoning": "reasoning_content", "model": "model_name"}
_METRICS = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "prompt_token_ids",
    "completion_token_ids",
    "logprobs",
)
_UNSAID = ("reward", "state", "state_key", "format_error", "latency_s", "sampling", "metadata")
_CALL = ("call_id", "arguments", "arguments_raw")
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_DEEPEST = 100


def no_step() -> Record:
    """The step that stands in a run without any, since ATIF demands one."""
    return {"step_id": 1, "source": "system", "message": "", "extra": {OWN: {"absent": True}}}


def step_record(step: Step, number: int) -> Record:
    """One step.

    Args:
        step: the step. An environment step becomes a system step that says so under ``extra``, and
            of a step that is not the agent's, model, reasoning, calls and token counts go there
            too, as ATIF allows them for the agent only.
        number: its ``step_id``, from 1.
    """
    agent = step.actor == "agent"
    own: Record = {} if step.actor in _SOURCES else {"actor": step.actor}
    message, beside = _said(step.text, step.content)
    own |= beside | _present(step, _UNSAID)
    if message is None:
        message, own["text"] = "", None
    record: Record = {
        "step_id": number,
        "source": step.actor if step.actor in _SOURCES else "system",
        "message": message,
    }
    if step.timestamp is not None:
        record["timestamp"] = step.timestamp.isoformat()
    if agent:
        record |= {_AGENT_ONLY[k]: v for k, v in _present(step, _AGENT_ONLY).items()}
        own |= _add_metrics(step, record)
    else:
        own |= _present(step, (*_AGENT_ONLY, *_METRICS))
    calls = _calls(step)
    if calls and agent:
        record["tool_calls"] = calls
    elif calls:
        own["tool_calls"] = [{"name": c.name, **_present(c, _CALL)} for c in step.tool_calls]
    if step.observations:
        record["observation"] = {"results": _results(step, calls if agent else [])}
    if step.is_copied:
        record["is_copied_context"] = True
    return record | _extra(own)


def _present(value: Any, names: Iterable[str]) -> Record:
    """The fields that say something, as JSON has them."""
    found = ((n, getattr(value, n)) for n in names)
    return {n: plain(v) for n, v in found if v is not None and v is not False}


def plain(value: Any) -> Any:
    """Times as ISO 8601, tuples as lists; the rest as it is."""
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def _extra(own: Mapping[str, Any], **beside: Any) -> Record:
    told = {**beside, **({OWN: dict(own)} if own else {})}
    return {"extra": told} if told else {}


def _add_metrics(step: Step, record: Record) -> Record:
    """Put the token counts into the record; give back what no JSON number can say."""
    found = _present(step, _METRICS)
    own = {}
    if not all(map(math.isfinite, found.get("logprobs", ()))):
        own["logprobs"] = found.pop("logprobs")
    if found:
        record["metrics"] = found
    return own


def _said(text: str | None, content: str | None) -> tuple[Any, Record]:
    """Text or ATIF parts, and what they do not tell of ``text`` and ``content``."""
    parts = None if content is None else _parts(content)
    if parts is None:
        return text, {} if content is None else {"content": content}
    lines = [p["text"] for p in parts if p["type"] == "text"]
    own: Record = {} if json_text(parts) == content else {"content": content}
    if text != ("\n".join(lines) if lines else None):
        own["text"] = text
    return parts, own


def _parts(content: str) -> list[Record] | None:
    """The parts, where every one is a text or an image as ATIF 1.7 has them."""
    try:
        parts = json.loads(content)
    except (ValueError, RecursionError):
        return None
    known = isinstance(parts, list) and parts and all(map(_is_part, parts))
    return parts if known else None


def _is_part(part: Any) -> bool:
    match part:
        case {"type": "text", "text": str(), **others}:
            return not others
        case {"type": "image", "source": {"media_type": kind, "path": str(), **more}, **others}:
            return isinstance(kind, str) and kind in _IMAGES and not more and not others
    return False


def _calls(step: Step) -> list[Record]:
    """Calls with ids of their own and arguments that are objects."""
    named = {c.call_id for c in step.tool_calls}
    given: set[str] = set()
    records = []
    for place, call in enumerate(step.tool_calls, 1):
        call_id, number = call.call_id or f"call_{place}", 1
        while call_id in given or (call_id in named and call_id != call.call_id):
            number += 1
            call_id = f"{call.call_id or f'call_{place}'}_{number}"
        given.add(call_id)
        records.append(_call(call, call_id))
    return records


def _call(call: ToolCall, call_id: str) -> Record:
    arguments = _arguments(call.arguments_raw)
    if call.arguments is None:  # as the document will say it: NaN is no JSON, and becomes a text
        arguments = json.loads(json_text(arguments))
    read = ToolCall.of(call.name, arguments, call_id)
    own = {n: getattr(call, n) for n in _CALL if getattr(call, n) != getattr(read, n)}
    return {
        "tool_call_id": call_id,
        "function_name": call.name,
        "arguments": arguments,
        **_extra(own),
    }


def _arguments(raw: str | None) -> Record:
    """The arguments as an object; text that is none stands under ``input``."""
    if raw is None:
        return {}
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {"input": raw}
    return value if isinstance(value, dict) and _shallow(value, _DEEPEST) else {"input": raw}


def _shallow(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return True
    return levels > 0 and all(_shallow(v, levels - 1) for v in inner)


def _results(step: Step, calls: list[Record]) -> list[Record]:
    """Results in order; one names a call of its own step or none."""
    open_ = [(c.call_id, r["tool_call_id"]) for c, r in zip(step.tool_calls, calls, strict=False)]
    answered: dict[str, str] = {}
    return [_result(o, _source(o.call_id, open_, answered)) for o in step.observations]


def _source(
    call_id: str | None, open_: list[tuple[str | None, str]], answered: dict[str, str]
) -> str | None:
    """The call that a result of that id belongs to: of equal ids the first that still waits."""
    if not call_id:
        return None
    waiting = next((pair for pair in open_ if pair[0] == call_id), None)
    if waiting is not None:
        open_.remove(waiting)
        answered[call_id] = waiting[1]
    return answered.get(call_id)


def _result(observation: Observation, source: str | None) -> Record:
    content, own = _said(observation.text, observation.content)
    if observation.call_id != source:
        own["call_id"] = observation.call_id
    flag = {} if observation.is_error is None else {"is_error": observation.is_error}
    record: Record = {} if source is None else {"source_call_id": source}
    if content is not None:
        record["content"] = content
    return record | _extra(own, **flag)
