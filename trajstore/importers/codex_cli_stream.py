"""The event stream of ``codex exec --json`` to one trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trajstore.importers.cli_values import text_in
from trajstore.importers.codex_cli_items import output_text, tokens_of
from trajstore.importers.codex_cli_lineage import FAMILY, Usage
from trajstore.importers.codex_cli_turns import Turns, note
from trajstore.schema import Observation, ToolCall, Trajectory, digest, json_text_or_none
from trajstore.schema import trajectory_id as id_of

_EVENTS = frozenset(
    {
        "error",
        "item.completed",
        "item.started",
        "item.updated",
        "thread.started",
        "turn.completed",
        "turn.failed",
        "turn.started",
    }
)

_TOOLS = {
    "command_execution": ("command",),
    "file_change": ("changes",),
    "mcp_tool_call": ("arguments",),
    "todo_list": ("items",),
    "web_search": ("query", "action"),
}
"""Item type -> fields that are the call's arguments."""


def is_event(value: Any) -> bool:
    """Whether a JSON value can only be an event of ``codex exec --json``."""
    if not isinstance(value, Mapping) or str(value.get("type")) not in _EVENTS:
        return False
    if value["type"].startswith("item."):
        item = value.get("item")
        return isinstance(item, Mapping) and "type" in item
    return value["type"] != "error" and not value.keys() & {"payload", "timestamp", "sessionId"}


class Stream:
    """Builds the trajectory of one stream. It has no times and not what the user asked."""

    def __init__(self) -> None:
        """Start empty."""
        self.turns = Turns()
        self._thread: str | None = None
        self._started: set[str] = set()
        self._usage = Usage()
        self._ending: dict[str, Any] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event.

        Raises:
            ValueError: it is no event of this stream.
        """
        kind = str(event.get("type"))
        if kind not in _EVENTS:
            raise ValueError(f"'{kind}' is no event of codex exec --json")
        if kind == "thread.started":
            self._thread = str(event["thread_id"])
        elif kind.startswith("item."):
            self._item(kind, event["item"])
        elif kind == "turn.completed":
            self._usage.reach(tokens_of(event.get("usage")))
            self._ending = {"status": "terminated", "termination_reason": kind}
            self.turns.close()
        elif kind in {"turn.failed", "error"}:
            self._fail(kind, event.get("error") or event)

    def _fail(self, kind: str, error: Any) -> None:
        text = text_in(error, "message") if isinstance(error, Mapping) else str(error)
        note(self.turns.step("environment", text), event=kind)
        if kind == "turn.failed" or not self._ending:
            self._ending = {"status": "error", "termination_reason": kind, "error": text}

    def _item(self, kind: str, item: Mapping[str, Any]) -> None:
        what, ended = str(item["type"]), kind == "item.completed"
        if what in _TOOLS:
            self._tool(what, item, ended=ended)
        elif not ended:
            return
        elif what == "agent_message":
            self.turns.agent().add_text(text_in(item, "text"))
        elif what == "reasoning":
            self.turns.agent().add_reasoning(text_in(item, "text"))
        else:
            words = text_in(item, "message") or text_in(item, "text")
            draft = self.turns.step("environment", words)
            note(draft, event=what, item={k: v for k, v in item.items() if k != "message"})

    def _tool(self, what: str, item: Mapping[str, Any], *, ended: bool) -> None:
        """A tool call: announced when it starts, answered when it is completed."""
        call_id = str(item.get("id"))
        if call_id not in self._started and (ended or what != "todo_list"):
            self._started.add(call_id)
            self.turns.call(_call(what, item, call_id))
            self.turns.running += 1
        if ended:
            self.turns.running -= 1
            if what != "todo_list":
                self.turns.result(_result(item, call_id))

    def trajectory(self, uri: str) -> Trajectory | None:
        """The trajectory, or None where nothing was said."""
        if not self.turns.drafts:
            return None
        session = self._thread or digest(self.turns.drafts[0].text)[:32]
        return Trajectory(
            trajectory_id=id_of(FAMILY, session),
            task_id=f"{FAMILY}/{session}",
            source=FAMILY,
            source_uri=uri,
            agent=FAMILY,
            metadata=json_text_or_none({"rendering": "codex exec --json"}),
            steps=self.turns.steps(),
            **self._usage.own(),
            **self._ending,
        )


def _call(what: str, item: Mapping[str, Any], call_id: str) -> ToolCall:
    if what == "mcp_tool_call":
        name = f"mcp__{item.get('server')}__{item.get('tool')}"
        return ToolCall.of(name, item.get("arguments"), call_id)
    arguments = {k: item[k] for k in _TOOLS[what] if item.get(k) is not None}
    return ToolCall.of(what, arguments, call_id)


def _result(item: Mapping[str, Any], call_id: str) -> Observation:
    error, code = item.get("error"), item.get("exit_code")
    text = text_in(item, "aggregated_output")
    if text is None and error is not None:
        text = text_in(error, "message") if isinstance(error, Mapping) else str(error)
    if text is None:
        text = output_text(item.get("result"))
    failed: bool | None = None
    if isinstance(code, int):
        failed = code != 0
    elif error is not None or item.get("status") in {"failed", "completed"}:
        failed = error is not None or item.get("status") == "failed"
    return Observation(call_id=call_id, text=text, is_error=failed)
