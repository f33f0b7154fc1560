"""Messages of a tau2-bench simulation: agent, simulated user, and the tools that each may call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from trajstore.schema import Actor, Observation, Step, ToolCall, json_text_or_none

_PLACED = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "turn_idx",
        "timestamp",
        "raw_data",
        "usage",
        "generation_time_seconds",
    }
)
_USUAL = {"is_audio": False, "is_final_chunk": True, "contains_speech": True, "cost": 0.0}
"""Values that say nothing; left out of the metadata."""


def message_steps(messages: Iterable[Mapping[str, Any]]) -> tuple[Step, ...]:
    """Steps of a conversation in turns, in the order of its messages.

    A tool call belongs to the message that makes it, so a call of the simulated user
    (``requestor: user``) is on the user's step. A result goes back to the latest step of its
    requestor with an open call of that id; ids repeat inside one simulation.
    """
    builder = StepBuilder()
    for message in messages:
        if message["role"] == "tool":
            _answer(builder, message)
        else:
            _speak(builder, message)
    return builder.steps()


def tick_steps(ticks: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """Steps of a spoken conversation, whose ticks (parts of a second) cut every utterance.

    Chunks of one utterance become one step again; silence has no step, and a tool call has a step
    of its own.
    """
    builder = StepBuilder()
    spoken: dict[Actor, tuple[Draft, set[str]]] = {}
    for message in _flatten(ticks):
        if message["role"] == "tool":
            _answer(builder, message)
            continue
        actor = ROLES[message["role"]]
        ids = {str(u) for u in message.get("utterance_ids") or ()}
        before, known = spoken.get(actor, (None, set()))
        is_speech = before is not None and not before.calls and not message.get("tool_calls")
        if before is not None and is_speech and (ids & known or before is builder.drafts[-1]):
            another = bool(ids and known and not ids & known)
            before.add_text(_text(message), between=" " if another else "")
            known |= ids
        else:
            draft = _speak(builder, message)
            spoken[actor] = (draft, ids)
    return builder.steps()


def _flatten(ticks: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for tick in ticks:
        for side, role in (("agent", "assistant"), ("user", "user")):
            chunk = tick.get(f"{side}_chunk") or {}
            calls = tick.get(f"{side}_tool_calls") or None
            if calls or _text(chunk):
                when = chunk.get("timestamp", tick.get("timestamp"))
                yield {**chunk, "role": role, "tool_calls": calls, "timestamp": when}
            yield from tick.get(f"{side}_tool_results") or ()


def _text(message: Mapping[str, Any]) -> str | None:
    """What was said: the script where ``content`` is the sound itself."""
    if message.get("is_audio"):
        return text_of(message.get("audio_script_gold"))
    return text_of(message.get("content"))


def _speak(builder: StepBuilder, message: Mapping[str, Any]) -> Draft:
    actor = ROLES.get(message["role"], "environment")
    response = message.get("raw_data") or {}
    draft = builder.add(
        actor,
        _text(message),
        content=parts_of(message.get("content")),
        timestamp=moment(message.get("timestamp")),
        metadata=_metadata(message, actor),
    )
    if actor == "agent":
        draft.values |= {k: v for k, v in _model_call(message, response).items() if v is not None}
        draft.add_reasoning(_reasoning(response))
    for call in message.get("tool_calls") or ():
        draft.calls.append(ToolCall.of(call["name"], call.get("arguments"), call.get("id")))
    return draft


def _model_call(message: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    usage = message.get("usage") or {}
    details = (response.get("usage") or {}).get("prompt_tokens_details") or {}
    return {
        "model": response.get("model"),
        "prompt_tokens": whole(usage.get("prompt_tokens")),
        "completion_tokens": whole(usage.get("completion_tokens")),
        "cached_tokens": whole(details.get("cached_tokens")),
        "latency_s": number(message.get("generation_time_seconds")),
    }


def _reasoning(response: Mapping[str, Any]) -> str | None:
    choices = response.get("choices") or [{}]
    found = (choices[0].get("message") or {}).get("reasoning_content")
    return found if isinstance(found, str) else None


def _metadata(message: Mapping[str, Any], actor: Actor) -> str | None:
    """What has no column; the raw response repeats the message and keeps only its own fields."""
    left = {
        k: v
        for k, v in message.items()
        if k not in _PLACED and v is not None and v != _USUAL.get(k)
    }
    response = message.get("raw_data") or {}
    own = {k: v for k, v in response.items() if k not in {"choices", "usage"} and v is not None}
    reasons = [c.get("finish_reason") for c in response.get("choices") or ()]
    if reasons:
        own["finish_reason"] = reasons[0]
    if own:
        left["response"] = own
    if actor != "agent":
        spent = {k: message.get(k) for k in ("usage", "generation_time_seconds")}
        left |= {k: v for k, v in spent.items() if v is not None}
    return json_text_or_none(left)


def _answer(builder: StepBuilder, message: Mapping[str, Any]) -> None:
    """Attach one result, or each of a ``MultiToolMessage``."""
    if "tool_messages" in message:
        for part in message["tool_messages"]:
            _answer(builder, part)
        return
    call_id, error = message.get("id"), message.get("error")
    observation = Observation(
        call_id=None if call_id is None else str(call_id),
        text=text_of(message.get("content")),
        content=parts_of(message.get("content")),
        is_error=None if error is None else bool(error),
    )
    actor = ROLES.get(message.get("requestor") or "assistant", "agent")
    asking = (
        d
        for d in reversed(builder.drafts)
        if d.actor == actor and d.calls and d.unanswered(observation.call_id)
    )
    draft = next(asking, None)
    if draft is None:
        builder.observe(observation)
    else:
        draft.observations.append(observation)
