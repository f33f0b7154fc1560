"""GitHub Copilot CLI and Kimi Code: sessions made of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trajstore.importers.building import Draft, parts_of, text_of, whole
from trajstore.importers.cli_values import flag_in, name_in, objects_in, text_in
from trajstore.importers.other_cli_session import CliSession, notes
from trajstore.schema import Actor, Observation, ToolCall, Trajectory

_COPILOT_EVENTS = {
    "abort": "reason",
    "session.error": "message",
    "system.notification": "content",
}
"""Copilot events that are steps -> the field with their words."""


class CopilotSession(CliSession):
    """GitHub Copilot CLI: events with their data. Messages below a tool call are a sub-agent's."""

    agent = "copilot"

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._thought: str | None = None
        self._below: dict[str, CopilotSession] = {}

    @classmethod
    def opens(cls, record: Mapping[str, Any]) -> bool:
        """Whether a record is an event with data and a dotted type."""
        kind = record.get("type")
        dotted = isinstance(kind, str) and kind.startswith(("session.", "assistant.", "user."))
        return dotted and isinstance(record.get("data"), Mapping) and "parentId" in record

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one event."""
        kind, data = str(record["type"]), record["data"]
        time = self.seen(record.get("timestamp"))
        above = data.get("parentToolCallId")
        if above is not None:
            self._sub_agent(str(above)).add({**record, "data": _without(data, "parentToolCallId")})
        elif kind == "session.start":
            self.header, self.session = dict(data), str(data["sessionId"])
        elif kind in {"user.message", "system.message"}:
            actor: Actor = "user" if kind == "user.message" else "system"
            left = notes(data, "content", "role")
            self.builder.add(actor, text_of(data.get("content")), timestamp=time, metadata=left)
        elif kind == "assistant.reasoning":
            self._thought = text_in(data, "content")
        elif kind == "assistant.message":
            self._agent(data).values.update({"timestamp": time} if time else {})
        elif kind == "tool.execution_complete":
            self._result(data)
        elif kind in _COPILOT_EVENTS:
            text = text_in(data, _COPILOT_EVENTS[kind])
            left = notes({"event": kind, **data}, _COPILOT_EVENTS[kind])
            self.builder.add("environment", text, timestamp=time, metadata=left)
        else:
            self.keep(record)

    def _sub_agent(self, call_id: str) -> CopilotSession:
        if call_id not in self._below:
            child = self._below[call_id] = CopilotSession()
            child.session, child.parent = f"{self.session}/{call_id}", self.session
        return self._below[call_id]

    def _agent(self, data: Mapping[str, Any]) -> Draft:
        known = ("content", "model", "outputTokens", "reasoningText", "toolRequests")
        draft = self.builder.add(
            "agent",
            text_in(data, "content"),
            reasoning=text_in(data, "reasoningText") or self._thought,
            model=name_in(data, "model"),
            completion_tokens=whole(data.get("outputTokens")),
            metadata=notes(data, *known),
        )
        self._thought = None
        for request in objects_in(data, "toolRequests"):
            call_id = request.get("toolCallId")
            draft.calls.append(ToolCall.of(request.get("name"), request.get("arguments"), call_id))
        return draft

    def _result(self, data: Mapping[str, Any]) -> None:
        result, success = data.get("result"), flag_in(data, "success")
        content = result.get("content") if isinstance(result, Mapping) else data.get("error")
        self.builder.observe(
            Observation(
                call_id=name_in(data, "toolCallId"),
                text=text_of(content),
                is_error=None if success is None else not success,
            )
        )

    def trajectories(self, uri: str) -> Iterator[Trajectory]:
        """The session, then its sub-agents."""
        yield from super().trajectories(uri)
        for child in self._below.values():
            yield from child.trajectories(uri)


class KimiSession(CliSession):
    """Kimi Code: the wire log of a session.

    The file does not name its session; the moment its log was created and its first words do.
    """

    agent = "kimi-code"

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._model: str | None = None
        self._steps: dict[str, Draft] = {}

    @classmethod
    def opens(cls, record: Mapping[str, Any]) -> bool:
        """Whether a record opens a wire log or is a change of its context."""
        if record.get("type") == "metadata":
            return "protocol_version" in record and "created_at" in record
        return str(record.get("type")).startswith("context.append_") and "time" in record

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one record."""
        kind, time = str(record["type"]), self.seen(record.get("time"))
        if kind == "metadata":
            self.header = dict(record)
        elif kind == "context.append_loop_event":
            self._event(record["event"], record.get("time"))
        elif kind == "context.append_message":
            message = record["message"]
            typed = message["role"] == "user" and _origin(message) == "user"
            self.builder.add(
                "user" if typed else "environment",
                text_of(message.get("content")),
                content=parts_of(message.get("content")),
                timestamp=time,
                metadata=notes(message, "content", "toolCalls"),
            )
        elif kind == "context.apply_compaction":
            left = notes(record, "contextSummary", "time")
            self.builder.add(
                "environment", text_in(record, "contextSummary"), timestamp=time, metadata=left
            )
        elif kind == "config.update" and isinstance(record.get("systemPrompt"), str):
            self.builder.add("system", record["systemPrompt"], timestamp=time)
        elif kind in {"llm.request", "turn.prompt", "usage.record"}:
            self._model = name_in(record, "model") if kind == "llm.request" else self._model
            self.counted[kind] += 1
        else:
            self.keep(record)

    def _event(self, event: Mapping[str, Any], time: Any) -> None:
        kind = event["type"]
        if kind == "tool.result":
            result = event["result"]
            failed, text = flag_in(result, "isError"), text_of(result.get("output"))
            call_id = name_in(event, "toolCallId")
            observation = Observation(call_id=call_id, text=text, is_error=failed)
            self.builder.observe(observation)
        elif kind == "content.part":
            part, draft = event["part"], self._step(event["stepUuid"], time)
            if part["type"] == "think":
                draft.add_reasoning(text_in(part, "think"))
            else:
                draft.add_text(text_of([part]))
        elif kind == "tool.call":
            call = ToolCall.of(event["name"], event.get("args"), event["toolCallId"])
            self._step(event["stepUuid"], time).calls.append(call)
        elif kind == "step.end":
            self._end(self._step(event["uuid"], time), event)

    def _step(self, uuid: str, time: Any) -> Draft:
        """The step of a model call, from its first word on: some calls are given up before it."""
        if uuid not in self._steps:
            timestamp = self.seen(time)
            self._steps[uuid] = self.builder.add("agent", model=self._model, timestamp=timestamp)
        return self._steps[uuid]

    def _end(self, draft: Draft, event: Mapping[str, Any]) -> None:
        draft.values["metadata"] = notes(event, "type", "uuid")
        usage = event.get("usage")
        if isinstance(usage, Mapping):
            names = ("inputOther", "inputCacheRead", "inputCacheCreation", "output")
            fresh, read, made, written = (whole(usage.get(n)) or 0 for n in names)
            draft.values.update(
                prompt_tokens=fresh + read + made, completion_tokens=written, cached_tokens=read
            )


def _origin(message: Mapping[str, Any]) -> str:
    origin = message.get("origin")
    return str(origin.get("kind")) if isinstance(origin, Mapping) else "user"


def _without(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in data.items() if k != name}
