"""Pi and OpenClaw, Qwen Code, and Hermes: sessions made of whole messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trajstore.importers.building import ROLES, number, openai_steps, parts_of, text_of, whole
from trajstore.importers.cli_values import flag_in, name_in, text_in
from trajstore.importers.other_cli_session import CliSession, notes
from trajstore.schema import Observation, ToolCall, json_text


class PiSession(CliSession):
    """Pi, and OpenClaw which writes the same form: a ``session`` line, then entries.

    Entries name their parent, but the chain has holes, so their order is that of the file.
    """

    agent = "pi"

    @classmethod
    def opens(cls, record: Mapping[str, Any]) -> bool:
        """Whether a record is a session line or a message entry."""
        if record.get("type") == "session":
            return "version" in record and "id" in record and "cwd" in record
        return record.get("type") == "message" and "parentId" in record and "message" in record

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one entry."""
        kind, time = str(record["type"]), self.seen(record.get("timestamp"))
        if str(record.get("customType") or record.get("provider")).startswith("openclaw"):
            self.shown = "openclaw"
        if kind == "session":
            self.header, self.session = dict(record), str(record["id"])
        elif kind == "message":
            self._message(record, record["message"])
        elif kind in {"compaction", "branch_summary", "custom_message"}:
            text = text_of(record.get("summary", record.get("content")))
            left = notes(record, "summary", "content", "timestamp")
            self.builder.add("environment", text, timestamp=time, metadata=left)
        else:
            self.keep(record)

    def _message(self, entry: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        role, content = message["role"], message.get("content")
        if role == "toolResult":
            self.builder.observe(
                Observation(
                    call_id=name_in(message, "toolCallId"),
                    text=text_of(content),
                    content=parts_of(content),
                    is_error=flag_in(message, "isError"),
                )
            )
            return
        time = self.seen(message.get("timestamp") or entry.get("timestamp"))
        draft = self.builder.add(
            ROLES.get(str(role), "environment"),
            text_of(content),
            model=name_in(message, "model"),
            timestamp=time,
            metadata=notes(message, "role", "content", "model", "timestamp"),
            **self._usage(message.get("usage")),
        )
        parts = [p for p in content if isinstance(p, Mapping)] if isinstance(content, list) else []
        known = {"text", "thinking", "toolCall"}
        if any(p.get("type") not in known for p in parts):
            draft.values["content"] = json_text(parts)
        for part in parts:
            if part.get("type") == "thinking":
                draft.add_reasoning(text_in(part, "thinking") or None)
            elif part.get("type") == "toolCall":
                call = ToolCall.of(part.get("name"), part.get("arguments"), part.get("id"))
                draft.calls.append(call)

    def _usage(self, usage: Any) -> dict[str, int]:
        """Tokens of a call (what a cache gave or took is read too); its cost goes to the run."""
        if not isinstance(usage, Mapping):
            return {}
        cost = usage.get("cost")
        total = number(cost.get("total")) if isinstance(cost, Mapping) else None
        if total is not None:
            self.cost_usd = (self.cost_usd or 0.0) + total
        fresh, read, written = (
            whole(usage.get(k)) or 0 for k in ("input", "cacheRead", "cacheWrite")
        )
        return {
            "prompt_tokens": fresh + read + written,
            "completion_tokens": whole(usage.get("output")) or 0,
            "cached_tokens": read,
        }


class QwenSession(CliSession):
    """Qwen Code: records like Claude Code's around messages like Gemini's."""

    agent = "qwen-code"

    @classmethod
    def opens(cls, record: Mapping[str, Any]) -> bool:
        """Whether a record names its session and holds parts, or one of Qwen's system events."""
        if not {"uuid", "parentUuid", "sessionId"} <= record.keys():
            return False
        message = record.get("message")
        return "systemPayload" in record or (isinstance(message, Mapping) and "parts" in message)

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one record."""
        kind, time = record["type"], self.seen(record.get("timestamp"))
        self.session = self.session or str(record["sessionId"])
        if kind == "system":
            if record.get("subtype") == "ui_telemetry":
                self.counted["ui_telemetry"] += 1
            else:
                self.keep(record)
            return
        parts = [p for p in record["message"]["parts"] if isinstance(p, Mapping)]
        if kind == "tool_result":
            for part in parts:
                self._result(part.get("functionResponse"), record.get("toolCallResult"))
            return
        said = [p["text"] for p in parts if isinstance(p.get("text"), str) and not p.get("thought")]
        thought = [p["text"] for p in parts if isinstance(p.get("text"), str) and p.get("thought")]
        draft = self.builder.add(
            "agent" if kind == "assistant" else "user",
            "\n".join(said) if said else None,
            reasoning="\n".join(thought) or None,
            model=name_in(record, "model"),
            timestamp=time,
            metadata=notes({k: record.get(k) for k in ("uuid", "parentUuid", "usageMetadata")}),
            **_gemini_usage(record.get("usageMetadata")),
        )
        for part in parts:
            call = part.get("functionCall")
            if isinstance(call, Mapping):
                draft.calls.append(ToolCall.of(call.get("name"), call.get("args"), call.get("id")))

    def _result(self, response: Any, outcome: Any) -> None:
        if not isinstance(response, Mapping):
            return
        value = response.get("response")
        value = value if isinstance(value, Mapping) else {"output": value}
        inner = value.get("output", value.get("error"))
        status = outcome.get("status") if isinstance(outcome, Mapping) else None
        failed = {"success": False, "error": True}.get(str(status))
        self.builder.observe(
            Observation(
                call_id=name_in(response, "id"),
                text=inner
                if isinstance(inner, str)
                else json_text(value if inner is None else inner),
                is_error=True if value.get("error") is not None else failed,
            )
        )


def _gemini_usage(usage: Any) -> dict[str, int | None]:
    """Tokens of a call; what was written is the total less what was read."""
    if not isinstance(usage, Mapping):
        return {}
    read, total = whole(usage.get("promptTokenCount")), whole(usage.get("totalTokenCount"))
    written = whole(usage.get("candidatesTokenCount"))
    return {
        "prompt_tokens": read,
        "completion_tokens": total - read if total is not None and read is not None else written,
        "cached_tokens": whole(usage.get("cachedContentTokenCount")),
    }


class HermesSession(CliSession):
    """Hermes agent: one object with its system prompt, tools and chat messages."""

    agent = "hermes"

    @classmethod
    def opens(cls, record: Mapping[str, Any]) -> bool:
        """Whether an object is a saved session."""
        fields = {"session_id", "platform", "session_start", "messages"}
        return fields <= record.keys() and isinstance(record["messages"], list)

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in the session."""
        self.session = str(record["session_id"])
        self.tools = record.get("tools")
        known = {"messages", "system_prompt", "tools"}
        self.header = {k: v for k, v in record.items() if k not in known}
        for name in ("session_start", "last_updated"):
            self.seen(record.get(name))
        if isinstance(record.get("system_prompt"), str):
            self.builder.add("system", record["system_prompt"])
        model = name_in(record, "model")
        openai_steps(
            [m for m in record["messages"] if m.get("role") != "session_meta"], self.builder
        )
        for draft in self.builder.drafts:
            if draft.actor == "agent" and model is not None:
                draft.values["model"] = model
