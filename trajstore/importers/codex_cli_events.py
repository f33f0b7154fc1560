"""What a Codex event repeats of the conversation, or says of a tool call's end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trajstore.importers.building import text_of
from trajstore.importers.codex_cli_items import seconds_of
from trajstore.schema import Observation

_MESSAGES = {
    "user_message": ("user", "message"),
    "agent_message": ("agent", "message"),
    "agent_reasoning": ("reasoning", "text"),
    "context_compacted": ("compaction", "message"),
}
"""Event type -> whose words it repeats, and the field with them."""

_SHOWN = {"UserMessage": "user", "AgentMessage": "agent", "Reasoning": "reasoning"}
"""Type of a completed screen item -> whose words it repeats."""

_TOOL_ENDS = frozenset(
    {"exec_command_end", "mcp_tool_call_end", "patch_apply_end", "web_search_end"}
)
_TOOL_ITEMS = frozenset({"CommandExecution", "McpToolCall", "FileChange", "Extension"})

_NOISE = ("_delta", "_begin", "item_started", "item_updated", "item_completed", "_section_break")
"""Endings of events that draw the screen while something else is being written."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What an event says of the end of a tool call."""

    call_id: str
    kind: str
    text: str | None
    failed: bool | None
    notes: dict[str, Any] = field(default_factory=dict)

    def observation(self) -> Observation:
        """The end as a result of its call."""
        return Observation(call_id=self.call_id, text=self.text, is_error=self.failed)

    def record(self) -> dict[str, Any]:
        """The end as a bookkeeping record, for a call that no item made."""
        found = {"type": self.kind, "call_id": self.call_id, "text": self.text, **self.notes}
        return {k: v for k, v in found.items() if v is not None}


def said_of(payload: Mapping[str, Any]) -> tuple[str, str] | None:
    """Whose words an event repeats, and the words; None for other events."""
    kind = str(payload.get("type"))
    if kind in _MESSAGES:
        who, name = _MESSAGES[kind]
        return who, str(payload.get(name) or "")
    item = payload.get("item")
    if kind != "item_completed" or not isinstance(item, Mapping):
        return None
    if str(item.get("type")) not in _SHOWN:
        return None
    parts = item.get("content", item.get("summary_text", item.get("text")))
    texts = [text_of([p] if isinstance(p, str) else p) for p in parts or ()]
    return _SHOWN[str(item["type"])], "\n".join(t for t in texts if t)


def ended_of(payload: Mapping[str, Any]) -> Ended | None:
    """What an event says of a tool call's end; None for other events and calls without an id."""
    kind = str(payload.get("type"))
    item = payload.get("item")
    if (
        kind == "item_completed"
        and isinstance(item, Mapping)
        and str(item.get("type")) in _TOOL_ITEMS
    ):
        kind, payload = str(item["type"]), {**item, "call_id": item.get("id")}
    elif kind not in _TOOL_ENDS:
        return None
    call_id = payload.get("call_id")
    if not isinstance(call_id, str):
        return None
    notes = {
        "exit_code": payload.get("exit_code"),
        "status": payload.get("status"),
        "seconds": seconds_of(payload.get("duration")),
        "invocation": payload.get("invocation"),
        "command": payload.get("command"),
        "changes": payload.get("changes"),
        "query": payload.get("query"),
    }
    kept = {k: v for k, v in notes.items() if v is not None}
    return Ended(call_id, kind, _text(payload), _failed(payload), kept)


def is_noise(kind: str) -> bool:
    """Whether events of that type only draw the screen; they are counted and not kept."""
    return kind.endswith(_NOISE)


def _text(payload: Mapping[str, Any]) -> str | None:
    for name in ("formatted_output", "aggregated_output", "stdout"):
        if isinstance(payload.get(name), str):
            return str(payload[name])
    result = payload.get("result")
    if isinstance(result, Mapping):
        inner = result.get("Ok", result)
        error = result.get("Err")
        return str(error) if error is not None else text_of(inner)
    results = payload.get("results")
    if not isinstance(results, list):
        return None
    shown = [f"{r.get('title')}\n{r.get('url')}" for r in results if isinstance(r, Mapping)]
    return "\n\n".join(shown) or None


def _failed(payload: Mapping[str, Any]) -> bool | None:
    code, success, result = (payload.get(k) for k in ("exit_code", "success", "result"))
    if isinstance(code, int):
        return code != 0
    if isinstance(success, bool):
        return not success
    if isinstance(result, Mapping):
        inner = result.get("Ok", result)
        if "Err" in result:
            return True
        if isinstance(inner, Mapping) and isinstance(inner.get("isError"), bool):
            return bool(inner["isError"])
    return None
