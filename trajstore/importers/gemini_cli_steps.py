"""Gemini CLI messages to steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trajstore.importers.building import Draft, StepBuilder, moment, whole
from trajstore.importers.cli_values import name_in, objects_in
from trajstore.importers.gemini_cli_replay import COMPRESSION
from trajstore.schema import Actor, Observation, ToolCall, json_text, json_text_or_none

_NOBODY_SAID = ("<hook_context>", "<session_context>", "System: Please continue.")
"""Openings of user messages that the CLI wrote."""

_COLUMNS = frozenset({"content", "model", "thoughts", "timestamp", "tokens", "toolCalls", "type"})


def add_message(builder: StepBuilder, message: Mapping[str, Any]) -> None:
    """Add a message to the steps: one of the model is one call with its tool calls."""
    kind = message["type"]
    if kind == "gemini":
        _agent(builder, message)
    elif kind == "user":
        _user(builder, message)
    else:
        text = _text(message.get("content"))
        draft = builder.add("environment", text, timestamp=moment(message.get("timestamp")))
        event = {} if kind == COMPRESSION else _left(message)
        draft.values["metadata"] = json_text({"event": kind, **event})


def tokens_of(tokens: Any) -> dict[str, int]:
    """Token columns: cached ones are inside ``input``, thoughts outside ``output``.

    ``total`` is ``input + output + thoughts + tool``. All zeros are a call that was cancelled
    before it was counted, so nothing is known.
    """
    if not isinstance(tokens, Mapping):
        return {}
    found = {
        k: whole(tokens.get(k)) or 0 for k in ("input", "output", "thoughts", "tool", "cached")
    }
    if not any(found.values()):
        return {}
    return {
        "prompt_tokens": found["input"] + found["tool"],
        "completion_tokens": found["output"] + found["thoughts"],
        "cached_tokens": found["cached"],
    }


def typed(message: Mapping[str, Any]) -> str | None:
    """What the user typed: without files and context that the CLI added to it."""
    shown = message.get("displayContent")
    return _text(shown if shown is not None else message.get("content"))


def actor_of(text: str | None) -> Actor:
    """Who a ``user`` message speaks for."""
    return "environment" if (text or "").lstrip().startswith(_NOBODY_SAID) else "user"


def _user(builder: StepBuilder, message: Mapping[str, Any]) -> None:
    said = []
    for part in _parts(message.get("content")):
        response = part.get("functionResponse")
        if isinstance(response, Mapping):
            builder.observe(_observation(name_in(response, "id"), [part], None))
        else:
            said.append(part)
    content = message.get("content")
    if isinstance(content, list) and content and not said:
        return
    text = _text(content)
    builder.add(
        actor_of(text),
        text,
        content=_media(said),
        timestamp=moment(message.get("timestamp")),
        metadata=json_text_or_none(_left(message)),
    )


def _agent(builder: StepBuilder, message: Mapping[str, Any]) -> None:
    parts = _parts(message.get("content"))
    draft = builder.add(
        "agent",
        _text(message.get("content")),
        reasoning=_reasoning(message, parts),
        content=_media([p for p in parts if "functionCall" not in p]),
        model=name_in(message, "model"),
        timestamp=moment(message.get("timestamp")),
        **tokens_of(message.get("tokens")),
    )
    notes = _left(message)
    if message.get("tokens"):
        notes["tokens"] = message["tokens"]
    calls = objects_in(message, "toolCalls")
    for call in calls:
        _call(draft, call)
    made = {c.call_id for c in draft.calls}
    for part in parts:
        function = part.get("functionCall")
        if isinstance(function, Mapping) and function.get("id") not in made:
            draft.calls.append(
                ToolCall.of(function.get("name"), function.get("args"), function.get("id"))
            )
    states = {str(c.get("id")): c["status"] for c in calls if c.get("status")}
    if states:
        notes["tool_status"] = states
    draft.values["metadata"] = json_text_or_none(notes)


def _call(draft: Draft, call: Mapping[str, Any]) -> None:
    draft.calls.append(ToolCall.of(call.get("name"), call.get("args"), call.get("id")))
    result = call.get("result")
    if result is not None:
        call_id, status = name_in(call, "id"), name_in(call, "status")
        draft.observations.append(_observation(call_id, result, status))


def _observation(call_id: str | None, result: Any, status: str | None) -> Observation:
    """A result; it failed where the status or the response itself says so."""
    texts: list[str] = []
    failed = {"success": False, "error": True}.get(str(status))
    media = []
    for part in _parts(result):
        function = part.get("functionResponse")
        response = function.get("response") if isinstance(function, Mapping) else None
        if isinstance(response, Mapping):
            failed = True if response.get("error") is not None else failed
            inner = response.get("output", response.get("error"))
            texts.append(inner if isinstance(inner, str) else json_text(inner or response))
        elif isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            media.append(part)
    return Observation(
        call_id=call_id,
        text="\n".join(texts) if texts else None,
        is_error=failed,
        content=json_text(media) if media else None,
    )


def _reasoning(message: Mapping[str, Any], parts: list[Mapping[str, Any]]) -> str | None:
    """Thoughts as subject and description; parts marked as thought only where there are none."""
    thoughts = objects_in(message, "thoughts")
    texts = ["\n".join(str(t[k]) for k in ("subject", "description") if t.get(k)) for t in thoughts]
    if not texts:
        texts = [p["text"] for p in parts if p.get("thought") and isinstance(p.get("text"), str)]
    return "\n\n".join(texts) or None


def _parts(content: Any) -> list[Mapping[str, Any]]:
    """Content as a list of parts, whatever its shape."""
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, Mapping):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        {"text": p} if isinstance(p, str) else p for p in content if isinstance(p, str | Mapping)
    ]


def _text(content: Any) -> str | None:
    """What was said; None where there are only other parts."""
    if isinstance(content, str):
        return content
    said = [
        p["text"]
        for p in _parts(content)
        if isinstance(p.get("text"), str) and not p.get("thought")
    ]
    return "\n".join(said) if said else None


def _media(parts: list[Mapping[str, Any]]) -> str | None:
    """JSON text of the parts where one is more than text."""
    return json_text(parts) if any("text" not in p for p in parts) else None


def _left(message: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in message.items() if k not in _COLUMNS and v not in (None, [], {})}
