"""Messages as agent frameworks write them into traces, brought to one form.

Known are OpenAI chat and Responses, Anthropic, Gemini, Bedrock, LangChain, the Vercel AI SDK and
the OpenTelemetry GenAI ``parts``, as objects or as JSON text at one or two levels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trajstore.importers.building import ROLES, StepBuilder, openai_calls, parts_of, text_of
from trajstore.importers.response_items import response_steps
from trajstore.schema import Actor, Observation, ToolCall, canonical_json, json_text

_TOOL_ROLES = frozenset({"tool", "function"})
_LANGCHAIN = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_ITEMS = frozenset({"function_call", "function_call_output", "message"})


@dataclass(slots=True, kw_only=True)
class Said:
    """One message: something said by an actor, or one result of a tool."""

    actor: Actor
    """Who said it; for a result, the environment."""
    text: str | None = None
    """What was said."""
    reasoning: str | None = None
    """Thinking beside it."""
    content: str | None = None
    """JSON text of the parts, where there is more than text."""
    calls: list[ToolCall] = field(default_factory=list)
    """Tool calls made with it."""
    result: Observation | None = None
    """The tool's result, where the message is one."""
    name: str | None = None
    """Name of the tool whose result it is, where given."""
    finish_reason: str | None = None
    """Why the model stopped, where the message says so."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same message in whatever form: as an output, and later in a prompt.

        Arguments are left out: some exporters drop them where they repeat a call.
        """
        if self.result is not None:
            said = self.result.call_id or (self.name, (self.result.text or "").strip())
            return ("result", said)
        ids = tuple(sorted(c.call_id for c in self.calls if c.call_id))
        if ids:
            return (self.actor, ids)
        names = tuple(c.name for c in self.calls)
        return (self.actor, (self.text or "").strip(), names, self.content)


def decoded(value: Any, *, levels: int = 2) -> Any:
    """The value behind JSON text at up to ``levels`` levels; other text stays as it is."""
    for _ in range(levels):
        if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "[", '"'}:
            break
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            break
    return value


def prompt_messages(value: Any) -> list[Said]:
    """Messages of a prompt; plain text is one user message, an unknown object is none."""
    plain = decoded(value)
    if isinstance(plain, str):
        return [Said(actor="user", text=plain)] if plain else []
    return list(_forms(plain, "user"))


def output_messages(value: Any) -> list[Said]:
    """What a model answered; text and objects that are no message are its text as written."""
    plain = decoded(value)
    if plain is None:
        return []
    if isinstance(plain, str):
        return [Said(actor="agent", text=plain)]
    found = list(_forms(plain, "assistant"))
    if not found and plain:
        text = value if isinstance(value, str) else json_text(value)
        return [Said(actor="agent", text=text)]
    return found


def tools_of(value: Any) -> Any:
    """Tool definitions given beside the messages of a prompt, or None."""
    plain = decoded(value)
    if isinstance(plain, Mapping):
        config = plain.get("config") if isinstance(plain.get("config"), Mapping) else {}
        return plain.get("tools") or plain.get("functions") or (config or {}).get("tools") or None
    if isinstance(plain, list):
        return [m["content"] for m in plain if _is_definition(m)] or None
    return None


def _is_definition(message: Any) -> bool:
    """Whether a "tool" message is really the definition of a tool (a Langfuse rendering)."""
    content = message.get("content") if isinstance(message, Mapping) else None
    return isinstance(content, Mapping) and content.get("type") == "function"


def _forms(value: Any, role: str) -> Iterator[Said]:
    if isinstance(value, str):
        yield from _message({"content": value}, role)
    elif isinstance(value, list):
        yield from _list(value, role)
    elif isinstance(value, Mapping):
        yield from _object(value, role)


def _list(values: list[Any], role: str) -> Iterator[Said]:
    objects = [v for v in values if isinstance(v, Mapping)]
    if any(v.get("type") in _ITEMS and "function" not in v for v in objects):
        yield from _items(values)
    elif objects and not any(_speaks(v) for v in objects):
        yield from _message({"content": values}, role)
    else:
        for value in values:
            yield from _forms(value, role)


def _speaks(value: Mapping[str, Any]) -> bool:
    return any(k in value for k in ("role", "kwargs", "message")) or value.get("type") in _LANGCHAIN


def _items(values: Iterable[Any]) -> Iterator[Said]:
    """Responses items; calls beside a message belong to it, outputs come after."""
    for draft in response_steps(values, StepBuilder(), one_call=False).drafts:
        if draft.actor != "environment" or draft.text is not None:
            yield Said(
                actor=draft.actor,
                text=draft.text,
                reasoning=draft.values.get("reasoning"),
                content=draft.values.get("content"),
                calls=draft.calls,
            )
        for observation in draft.observations:
            yield Said(actor="environment", result=observation)


def _object(value: Mapping[str, Any], role: str) -> Iterator[Said]:
    inner = _inner(value)
    if inner is not None:
        yield from _forms(inner, role)
        return
    for name in ("messages", "contents", "prompt", "new_message"):
        if value.get(name) is not None and "role" not in value:
            yield from _system(value)
            yield from _forms(value[name], "user" if name == "prompt" else role)
            return
    if isinstance(value.get("kwargs"), Mapping) and isinstance(value.get("id"), list):
        kind = str(value["id"][-1]).lower() if value["id"] else ""
        spoken = next((r for k, r in _LANGCHAIN.items() if kind.startswith(k)), role)
        yield from _message(value["kwargs"], spoken)
    elif "role" in value or value.get("type") in _LANGCHAIN:
        yield from _message(value, str(value.get("role") or _LANGCHAIN[value["type"]]))
    elif role == "assistant" and (isinstance(value.get("text"), str) or _has_parts(value)):
        yield from _message({"content": value.get("text"), **value}, role)


def _has_parts(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("content"), list) or isinstance(value.get("parts"), list)


def _inner(value: Mapping[str, Any]) -> Any:
    """The message inside an API response, or None where the object is none."""
    if value.get("object") == "response" and isinstance(value.get("output"), list):
        return value["output"]
    for name in ("choices", "candidates"):
        if isinstance(value.get(name), list) and value[name]:
            first = value[name][0]
            inner = first.get("message") or first.get("content") or {"text": first.get("text")}
            reason = first.get("finish_reason") or first.get("finishReason")
            return {"finish_reason": reason, **inner} if isinstance(inner, Mapping) else inner
    if isinstance(value.get("generations"), list) and value["generations"]:
        first = value["generations"][0]
        first = first[0] if isinstance(first, list) and first else first
        return first.get("message") or {"text": first.get("text")} if first else None
    message = value.get("message")
    if isinstance(message, Mapping) and "role" not in value:
        return message
    content = value.get("content")
    if isinstance(content, Mapping) and "parts" in content and "role" not in value:
        return {"finish_reason": value.get("finish_reason"), **content}
    return None


def _system(value: Mapping[str, Any]) -> Iterator[Said]:
    config = value.get("config") if isinstance(value.get("config"), Mapping) else {}
    given = value.get("system") or value.get("instructions")
    given = given or (config or {}).get("system_instruction")
    if given is not None and text_of(given) is not None:
        yield Said(actor="system", text=text_of(given))


def _message(message: Mapping[str, Any], role: str) -> Iterator[Said]:
    if role in _TOOL_ROLES and _is_definition(message):
        return
    content = message.get("content", message.get("parts"))
    main = Said(
        actor=ROLES.get(role, "environment"),
        reasoning=_thinking(message),
        finish_reason=_text_or_none(message.get("finish_reason")),
        calls=_calls(message),
    )
    results: list[Said] = []
    if isinstance(content, list):
        _read_parts(content, main, results)
    elif role not in _TOOL_ROLES:
        main.text = text_of(content)
    elif not isinstance(content, str):
        content = None if content is None else json_text(content)
    if role in _TOOL_ROLES:
        yield from results or [_result(message, main, content)]
        return
    said = main.text is not None or bool(main.calls or main.reasoning or main.content)
    if main.actor == "agent":
        yield from [main, *results] if said or not results else results
    else:
        yield from [*results, main] if said or not results else results


def _result(message: Mapping[str, Any], main: Said, content: Any) -> Said:
    error = message.get("is_error", message.get("error"))
    if message.get("status") == "error":
        error = True
    observation = Observation(
        call_id=_text_or_none(message.get("tool_call_id") or message.get("id")),
        text=content if isinstance(content, str) else main.text,
        content=main.content,
        is_error=None if error is None else bool(error),
    )
    return Said(actor="environment", result=observation, name=_text_or_none(message.get("name")))


def _thinking(message: Mapping[str, Any]) -> str | None:
    value = message.get("reasoning_content", message.get("reasoning"))
    return text_of(value) if isinstance(value, str | list) else None


def _calls(message: Mapping[str, Any]) -> list[ToolCall]:
    extra = message.get("additional_kwargs")
    extra = extra if isinstance(extra, Mapping) else {}
    given = message.get("tool_calls") or extra.get("tool_calls") or ()
    calls: list[ToolCall] = []
    for call in given:
        if "args" in call and "function" not in call:
            calls.append(ToolCall.of(call.get("name"), call["args"], call.get("id")))
        else:
            calls.extend(openai_calls({"tool_calls": [call]}))
    legacy = message.get("function_call") or extra.get("function_call")
    return calls + (openai_calls({"function_call": legacy}) if legacy else [])


def _read_parts(parts: list[Any], main: Said, results: list[Said]) -> None:
    """Sort the parts of a message into text, reasoning, calls, results and the rest."""
    texts: list[str] = []
    rest: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = str(part.get("type") or "")
        call, result = _part_call(part), _part_result(part)
        if call is not None:
            main.calls.append(call)
        elif result is not None:
            results.append(result)
        elif kind in {"thinking", "reasoning"} or part.get("thought") is True:
            thought = text_of(part.get("thinking") or part.get("content") or part.get("text"))
            main.reasoning = "\n".join(t for t in (main.reasoning, thought) if t) or None
        elif parts_of([part]) is None:
            text = text_of([part])
            texts.append(text if text is not None else "")
        else:
            rest.append(part)
    if texts:
        main.text = "\n".join(texts)
    if rest:
        main.content = json_text(parts)


def _part_call(part: Mapping[str, Any]) -> ToolCall | None:
    inner = part.get("function_call") or part.get("functionCall") or part.get("toolUse")
    if isinstance(inner, Mapping):
        arguments = inner.get("args", inner.get("input"))
        return ToolCall.of(inner.get("name"), arguments, inner.get("id") or inner.get("toolUseId"))
    if part.get("type") in {"tool_call", "tool_use", "server_tool_use"}:
        arguments = part.get("arguments", part.get("input"))
        return ToolCall.of(part.get("name"), arguments, part.get("id"))
    if "toolCallId" in part and "output" not in part and "result" not in part:
        arguments = part.get("input", part.get("args"))
        return ToolCall.of(part.get("toolName"), arguments, part["toolCallId"])
    return None


def _part_result(part: Mapping[str, Any]) -> Said | None:
    inner = part.get("function_response") or part.get("functionResponse") or part.get("toolResult")
    error: Any = None
    if isinstance(inner, Mapping):
        call_id = inner.get("id") or inner.get("toolUseId")
        name, value = inner.get("name"), inner.get("response", inner.get("content"))
        error = True if inner.get("status") == "error" else None
    elif part.get("type") == "tool_call_response":
        call_id, name = part.get("id"), part.get("name")
        value = part.get("response", part.get("result"))
    elif part.get("type") == "tool_result":
        call_id, name, value = part.get("tool_use_id"), None, part.get("content")
        error = part.get("is_error")
    elif part.get("type") == "tool-result" or "toolCallId" in part:
        call_id, name = part.get("toolCallId"), part.get("toolName")
        value = part.get("output", part.get("result"))
        value = value.get("value") if isinstance(value, Mapping) and "value" in value else value
        error = part.get("isError")
    else:
        return None
    observation = Observation(
        call_id=_text_or_none(call_id),
        text=result_text(value),
        content=parts_of(value) if _typed(value) else None,
        is_error=None if error is None else bool(error),
    )
    return Said(actor="environment", result=observation, name=_text_or_none(name))


def _typed(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(v, Mapping) and "type" in v for v in value)


def result_text(value: Any) -> str | None:
    """A tool's result as text: strings and text parts as they are, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        text = text_of(value)
        if text is not None or _typed(value):
            return text
    return json_text(value)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def same_action(call: ToolCall, name: str | None, arguments: Any) -> bool:
    """Whether a call has this name and these arguments, however they were written.

    Some exporters put the arguments into an object of their own, ``{"input": ...}``.
    """
    if call.name != name:
        return False
    given = decoded(arguments)
    if given is None:
        return False
    if isinstance(given, Mapping) and set(given) == {"input"}:
        return call.arguments in {canonical_json(given), canonical_json(decoded(given["input"]))}
    return canonical_json(given) == call.arguments
