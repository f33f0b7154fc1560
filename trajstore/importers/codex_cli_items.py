"""What one Codex record says: pure functions over rollout lines and response items."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from trajstore.importers.building import number, parts_of, text_of, whole
from trajstore.importers.cli_values import name_in
from trajstore.schema import Actor, Observation, ToolCall, json_text

LINES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
"""Line types that mark a rollout; newer versions write further ones."""

_CALLS: Mapping[str, tuple[str | None, str]] = {
    "function_call": (None, "arguments"),
    "custom_tool_call": (None, "input"),
    "tool_call": (None, "arguments"),
    "local_shell_call": ("local_shell", "action"),
    "web_search_call": ("web_search", "action"),
    "tool_search_call": ("tool_search", "arguments"),
    "image_generation_call": ("image_generation", "revised_prompt"),
}
"""Item type -> name of the tool where the item has none, and the field with the arguments."""

_ITEMS = frozenset({*_CALLS, "message", "reasoning", "function_call_output", "tool_result"})

_BARE = frozenset({"cwd", "git", "id", "instructions", "session_id", "timestamp"})
"""All that the first line of the oldest files holds."""

_NOBODY_SAID = (
    "# AGENTS.md instructions",
    "<environment_context>",
    "<INSTRUCTIONS>",
    "<permissions instructions>",
    "<skill>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_instructions>",
    "<user_shell_command>",
    "Another language model started to solve this problem",
)
"""Openings of user messages that Codex wrote."""

_ROLES: Mapping[str, Actor] = {
    "assistant": "agent",
    "user": "user",
    "developer": "system",
    "system": "system",
}

_EXIT = re.compile(r"^(?:Exit code: |Process exited with code )(-?\d+)\s*$", re.MULTILINE)


class Line(NamedTuple):
    """One rollout line in the newest shape, whatever version wrote it."""

    kind: str
    payload: Mapping[str, Any]
    timestamp: Any


def line_of(record: Any) -> Line:
    """Bring a line of any version into one shape.

    Newer lines wrap what they say (``{timestamp, type, payload}``); the oldest ones are bare items
    after a first line of bare session data, with ``{record_type: state}`` markers between them.

    Raises:
        TypeError: it is no JSON object.
        ValueError: it is no rollout line.
    """
    if not isinstance(record, Mapping):
        raise TypeError(f"a JSON object was expected, not {type(record).__name__}")
    kind, payload, time = record.get("type"), record.get("payload"), record.get("timestamp")
    if isinstance(kind, str):
        if isinstance(payload, Mapping):
            return Line(kind, payload, time)
        if kind in _ITEMS or kind.endswith("_output"):
            return Line("response_item", record, time)
        raise ValueError(f"a line of type '{kind}' without a payload")
    if "record_type" in record:
        return Line("state", record, time)
    if {"id", "timestamp", "instructions"} <= record.keys() <= _BARE:
        return Line("session_meta", record, time)
    raise ValueError("neither a type nor a session id: no line of a Codex rollout")


def is_line(record: Any) -> bool:
    """Whether a JSON value can only be a line of a rollout."""
    try:
        line = line_of(record)
    except (TypeError, ValueError):
        return False
    if line.kind == "session_meta":
        return "id" in line.payload or "session_id" in line.payload
    if line.kind == "state":
        return bool(record["record_type"] == "state")
    return line.kind in LINES and "payload" in record and "timestamp" in record


def is_whole(value: Any) -> bool:
    """Whether a JSON value is a rollout of the oldest form: ``{session: {...}, items: [...]}``."""
    if not isinstance(value, Mapping):
        return False
    session, items = value.get("session"), value.get("items")
    return isinstance(session, Mapping) and "id" in session and isinstance(items, list)


def actor_of(role: Any, text: str | None) -> Actor:
    """Who a message item speaks for; what Codex put into the user's mouth is the environment."""
    actor = _ROLES.get(str(role), "environment")
    if actor == "user" and (text or "").lstrip().startswith(_NOBODY_SAID):
        return "environment"
    return actor


def reasoning_of(item: Mapping[str, Any]) -> str | None:
    """The readable part of a reasoning item; what is encrypted stays encrypted."""
    found: list[str] = []
    for field in ("summary", "content"):
        parts = item.get(field)
        for part in parts if isinstance(parts, list) else ():
            text = part.get("text") if isinstance(part, Mapping) else part
            if isinstance(text, str) and text:
                found.append(text)
    return "\n".join(found) or None


def call_of(item: Mapping[str, Any]) -> ToolCall | None:
    """The tool call of an item, or None where it is none."""
    kind = str(item.get("type"))
    if kind not in _CALLS:
        return None
    name, field = _CALLS[kind]
    function = item.get("function")
    if isinstance(function, Mapping):
        name = function.get("name")
    arguments = item.get(field)
    if kind == "image_generation_call":
        arguments = {field: arguments}
    call_id = name_in(item, "call_id") or name_in(item, "id")
    return ToolCall.of(name_in(item, "name") or name, arguments, call_id)


def result_of(item: Mapping[str, Any]) -> Observation | None:
    """The result that an item brings, or None where it brings none."""
    kind = str(item.get("type"))
    call_id = name_in(item, "call_id")
    if kind == "image_generation_call" and isinstance(item.get("result"), str):
        url = f"data:image/png;base64,{item['result']}"
        content = json_text([{"type": "input_image", "image_url": url}])
        return Observation(call_id=call_id or name_in(item, "id"), content=content)
    if not kind.endswith("_output") and kind != "tool_result":
        return None
    output = item.get("output", item.get("result", item.get("tools")))
    text = output_text(output)
    return Observation(
        call_id=call_id,
        text=text,
        content=parts_of(output),
        is_error=failed(output, text),
    )


def output_text(output: Any) -> str | None:
    """The text of a tool's output as the model saw it: a string, parts, or an object."""
    if output is None or isinstance(output, str):
        return output
    if isinstance(output, Mapping):
        inner = output.get("text", output.get("content", output.get("output")))
        return text_of(inner) if inner is not None else json_text(output)
    found = text_of(output)
    return found if found is not None or parts_of(output) else json_text(output)


def failed(output: Any, text: str | None) -> bool | None:
    """Whether a tool failed, as Codex itself counts it: ``success`` false or a non-zero exit code.

    The code stands in the object, in JSON inside the text (``metadata.exit_code``), or in the
    lines before ``Output:``. None where none of them is there.
    """
    if isinstance(output, Mapping):
        if isinstance(output.get("success"), bool):
            return not output["success"]
        code = whole(output.get("exitCode", output.get("exit_code")))
        if code is not None:
            return code != 0
    if text is None:
        return None
    if text.startswith("{"):
        try:
            code = whole(json.loads(text)["metadata"]["exit_code"])
        except (ValueError, KeyError, TypeError):
            return None
        return None if code is None else code != 0
    found = _EXIT.search(text[:1000].split("Output:", 1)[0])
    return None if found is None else int(found[1]) != 0


def tokens_of(usage: Any) -> dict[str, int]:
    """Token columns of a usage object; ``input_tokens`` has the cached ones inside already."""
    if not isinstance(usage, Mapping):
        return {}
    found = {
        "prompt_tokens": whole(usage.get("input_tokens", usage.get("prompt"))),
        "completion_tokens": whole(usage.get("output_tokens", usage.get("completion"))),
        "cached_tokens": whole(usage.get("cached_input_tokens")),
    }
    return {k: v for k, v in found.items() if v is not None}


def seconds_of(duration: Any) -> float | None:
    """A duration in seconds: a number, or ``{secs, nanos}``."""
    if isinstance(duration, Mapping):
        return (number(duration.get("secs")) or 0.0) + (number(duration.get("nanos")) or 0.0) / 1e9
    return number(duration)
