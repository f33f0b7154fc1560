"""Messages that a span carries in flattened attributes or in its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trajstore.importers.framework_messages import decoded

_PROMPT_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_PROMPTS = (
    "ai.prompt.messages",
    "gen_ai.prompt",
    "ai.prompt",
    "langfuse.observation.input",
    "gcp.vertex.agent.llm_request",
    "input.value",
    "traceloop.entity.input",
    "input",
)
_OUTPUTS = (
    "gen_ai.completion",
    "langfuse.observation.output",
    "gcp.vertex.agent.llm_response",
    "output.value",
    "traceloop.entity.output",
    "output",
)


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """The list behind names like ``<prefix>.<i>.a.b``, as nested objects and lists.

    >>> indexed({"p.0.role": "user", "p.1.calls.0.id": "x"}, "p")
    [{'role': 'user'}, {'calls': [{'id': 'x'}]}]
    """
    given = attributes.get(prefix)
    if isinstance(given, list):
        return given
    tree: dict[str, Any] = {}
    start = f"{prefix}."
    for name, value in attributes.items():
        if not name.startswith(start):
            continue
        *way, last = name[len(start) :].split(".")
        at = tree
        for part in way:
            inner = at.get(part)
            if not isinstance(inner, dict):
                inner = at[part] = {}
            at = inner
        at[last] = value
    plain = _lists(tree)
    return plain if isinstance(plain, list) else []


def _lists(value: Any) -> Any:
    """Objects whose names are all numbers become lists, in order of the numbers."""
    if not isinstance(value, dict):
        return value
    inner = {k: _lists(v) for k, v in value.items()}
    if inner and all(k.isdigit() for k in inner):
        return [inner[k] for k in sorted(inner, key=int)]
    return inner


def prompt_of(attributes: Mapping[str, Any], said: list[dict[str, Any]]) -> Any:
    """The prompt: the newest convention that is there wins, raw inputs come last."""
    if attributes.get("gen_ai.input.messages") is not None:
        return attributes["gen_ai.input.messages"]
    found = openinference_messages(attributes, "llm.input_messages")
    found = found or openllmetry_messages(attributes, "gen_ai.prompt") or said
    if found:
        return found
    return next((attributes[n] for n in _PROMPTS if attributes.get(n) is not None), None)


def output_of(attributes: Mapping[str, Any], answered: list[dict[str, Any]]) -> Any:
    """The output: the newest convention that is there wins, raw outputs come last."""
    if attributes.get("gen_ai.output.messages") is not None:
        return attributes["gen_ai.output.messages"]
    found = openinference_messages(attributes, "llm.output_messages")
    found = found or openllmetry_messages(attributes, "gen_ai.completion") or answered
    if found:
        return found
    text, calls = (
        attributes.get("ai.response.text"),
        decoded(attributes.get("ai.response.toolCalls")),
    )
    if text is not None or calls:
        parts = [*([{"type": "text", "text": text}] if text else ()), *(calls or ())]
        return [{"role": "assistant", "content": parts}]
    return next((attributes[n] for n in _OUTPUTS if attributes.get(n) is not None), None)


def openinference_messages(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """OpenInference messages (``<prefix>.<i>.message.role`` ...) as chat messages."""
    found = []
    for entry in indexed(attributes, prefix):
        message = entry.get("message", entry) if isinstance(entry, dict) else {}
        message = _undotted(message, "message.")
        if not message:
            continue
        calls = [_openinference_call(c) for c in message.pop("tool_calls", None) or ()]
        parts = message.pop("contents", None)
        if parts:
            message["content"] = [_openinference_part(p) for p in parts]
        if calls:
            message["tool_calls"] = calls
        found.append(message)
    return found


def _undotted(value: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Without the prefix that data frames keep on the names inside lists."""
    return {k.removeprefix(prefix): v for k, v in value.items()}


def _openinference_call(entry: Mapping[str, Any]) -> dict[str, Any]:
    call = _undotted(entry.get("tool_call", entry), "tool_call.")
    function = call.get("function") or {
        "name": call.get("function.name"),
        "arguments": call.get("function.arguments"),
    }
    return {"id": call.get("id"), "function": function}


def _openinference_part(entry: Any) -> Any:
    part = entry.get("message_content", entry) if isinstance(entry, dict) else entry
    return _undotted(part, "message_content.") if isinstance(part, dict) else part


def openllmetry_messages(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """OpenLLMetry messages (``<prefix>.<i>.role|content|tool_calls.<k>...``) as chat messages."""
    found = []
    for message in indexed(attributes, prefix):
        if not isinstance(message, dict):
            return []
        content = decoded(message.get("content"), levels=1)
        parts = isinstance(content, list) and all(isinstance(p, dict) for p in content)
        found.append({**message, "content": content if parts else message.get("content")})
    return found


def event_messages(
    events: Iterable[tuple[str, Mapping[str, Any]]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages of the prompt and of the answer from ``gen_ai.*.message`` and ``gen_ai.choice``."""
    said: list[dict[str, Any]] = []
    answered: list[dict[str, Any]] = []
    for name, values in events:
        if name in _PROMPT_EVENTS:
            message = _event_body(values)
            said.append({**message, "role": message.get("role") or _PROMPT_EVENTS[name]})
        elif name == "gen_ai.choice":
            choice = _event_body(values)
            inner = decoded(choice.pop("message", None))
            message = {**choice, **inner} if isinstance(inner, dict) else {**choice}
            answered.append({**message, "role": message.get("role") or "assistant"})
    return said, answered


def _event_body(values: Mapping[str, Any]) -> dict[str, Any]:
    """An event's message: its attributes, or the JSON text that some keep in one attribute."""
    whole = decoded(values.get("gen_ai.event.content", values.get("body")))
    body = dict(whole) if isinstance(whole, dict) else dict(values)
    if body.get("role") == "tool" or "id" in body:
        body.setdefault("tool_call_id", body.get("id"))
    for name in ("tool_calls", "content"):
        plain = decoded(body.get(name), levels=1)
        if isinstance(plain, list):
            body[name] = plain
    return {k: v for k, v in body.items() if not k.startswith("gen_ai.")}
