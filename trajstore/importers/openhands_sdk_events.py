"""Steps from the events of the OpenHands SDK (V1): typed by ``kind``, linked by ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from trajstore.importers.building import Draft, StepBuilder, moment, parts_of, text_of
from trajstore.schema import Actor, Observation, Step, ToolCall, json_text_or_none

_SPEAKING = frozenset({"ActionEvent", "MessageEvent", "SystemPromptEvent"})
"""Kinds whose time is the time of their step."""

_HOMED = frozenset(
    {
        "action",
        "action_id",
        "error",
        "extended_content",
        "llm_message",
        "llm_response_id",
        "observation",
        "reasoning_content",
        "rejection_reason",
        "thought",
        "tool_call",
        "tool_call_id",
        "tool_name",
    }
)
"""Fields of an event that have a place in the step."""


def is_sdk_event(value: Any) -> bool:
    """Whether a value has the shape of one SDK event."""
    return (
        isinstance(value, dict)
        and {"id", "timestamp", "source", "kind"} <= value.keys()
        and isinstance(value["kind"], str)
        and isinstance(value["source"], str)
        and value["source"] in {"agent", "user", "environment", "hook"}
    )


@dataclass(slots=True)
class Conversation:
    """What the events of a conversation say, as steps and as facts about the whole run."""

    builder: StepBuilder = field(default_factory=StepBuilder)
    state: dict[str, Any] = field(default_factory=dict)
    """The base state, kept up to date by the events that report a change of it."""
    tools: list[Any] | None = None
    goal: str | None = None
    error: str | None = None
    reason: str | None = None
    """The code of the error that ended the run."""
    first_id: str | None = None
    """Id of the first event that belongs to the talk."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    logged: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Usage per response id, where the stream carries the completion logs."""
    responses: dict[str, Draft] = field(default_factory=dict)
    """The agent step of each model response, by the response's id."""
    _actions: dict[str, Draft] = field(default_factory=dict)
    _latest: Draft | None = None

    def read(self, events: Iterable[Mapping[str, Any]]) -> Conversation:
        """Take in events in their order.

        Raises:
            ValueError: an entry is no event of the SDK.
        """
        for event in events:
            if not is_sdk_event(event):
                message = "an event lacks 'id', 'timestamp', 'source' or 'kind'"
                raise ValueError(message)
            when = moment(event["timestamp"])
            self.started_at = self.started_at or when
            self.ended_at = when or self.ended_at
            kind = event["kind"]
            if kind not in self._SILENT:
                self.first_id = self.first_id or str(event["id"])
            self._READERS.get(kind, Conversation._nobody)(self, event)
        return self

    def _add(self, actor: Actor, text: str | None, event: Mapping[str, Any]) -> Draft:
        draft = self.builder.add(actor, text, timestamp=moment(event["timestamp"]))
        if actor == "agent":
            self._latest = draft
        return draft

    def _system(self, event: Mapping[str, Any]) -> None:
        prompts = [event.get("system_prompt"), event.get("dynamic_context")]
        said = [t for t in (text_of(p) for p in prompts) if t is not None]
        self.tools = event.get("tools") or self.tools
        draft = self._add("system", "\n".join(said) if said else None, event)
        _note(draft, event, {"system_prompt", "dynamic_context", "tools"})

    def _message(self, event: Mapping[str, Any]) -> None:
        message = event["llm_message"]
        content = message.get("content")
        if isinstance(content, list):
            content = [*content, *(event.get("extended_content") or ())]
        actor: Actor = event["source"] if event["source"] != "hook" else "environment"
        draft = self._add(actor, text_of(content), event)
        draft.values["content"] = parts_of(content)
        draft.values["reasoning"] = _reasoning(message)
        for call in message.get("tool_calls") or ():
            draft.calls.append(_tool_call(call, call))
        if actor == "user" and self.goal is None:
            self.goal = draft.text
        if actor == "agent" and event.get("llm_response_id"):
            self.responses[event["llm_response_id"]] = draft
        _note(draft, event, _HOMED)

    def _action(self, event: Mapping[str, Any]) -> None:
        response = event.get("llm_response_id")
        draft = self.responses.get(response) if response else None
        if draft is None:
            draft = self._add("agent", None, event)
            if response:
                self.responses[response] = draft
        thought = text_of(event.get("thought"))
        if thought or draft.text is None:
            draft.add_text(thought)
        draft.add_reasoning(_reasoning(event))
        draft.calls.append(_tool_call(event.get("tool_call") or {}, event))
        if event.get("action") is None:
            draft.values["format_error"] = True
        self._actions[str(event["id"])] = draft
        self._latest = draft
        _note(draft, event, _HOMED)

    def _observation(self, event: Mapping[str, Any]) -> None:
        result = event.get("observation") or {}
        content = result.get("content", result.get("output"))
        if isinstance(content, list):
            content = [*content, *(event.get("extended_content") or ())]
        failed = result.get("is_error")
        left = {k: v for k, v in result.items() if k not in {"content", "output", "is_error"}}
        flag = failed if isinstance(failed, bool) else None
        self._answer(event, text_of(content), is_error=flag, content=content, left=left)

    def _rejection(self, event: Mapping[str, Any]) -> None:
        self._answer(event, f"Action rejected: {event.get('rejection_reason')}", is_error=None)

    def _agent_error(self, event: Mapping[str, Any]) -> None:
        self._answer(event, event.get("error"), is_error=True)

    def _answer(
        self,
        event: Mapping[str, Any],
        text: str | None,
        *,
        is_error: bool | None,
        content: Any = None,
        left: Mapping[str, Any] | None = None,
    ) -> None:
        """Attach a result to the call of its id, else to the action that it names."""
        call_id = event.get("tool_call_id")
        observation = Observation(
            call_id=call_id, text=text, is_error=is_error, content=parts_of(content)
        )
        draft = self._actions.get(str(event.get("action_id")))
        if draft is not None and draft.unanswered(call_id):
            draft.observations.append(observation)
        else:
            draft = self.builder.observe(observation)
        _note(draft, {**event, **({"result": left} if left else {})}, _HOMED)

    def _remote_call(self, event: Mapping[str, Any]) -> None:
        """A call that another agent made behind the protocol; later events of it replace it."""
        call_id = str(event["tool_call_id"])
        draft = self._actions.get(call_id) or self._add("agent", None, event)
        self._actions[call_id] = draft
        draft.calls = [ToolCall.of(event.get("title"), event.get("raw_input"), call_id)]
        result = event.get("raw_output")
        if result is not None or event.get("status") in {"completed", "failed"}:
            text = result if isinstance(result, str) else json_text_or_none(result)
            flag = bool(event.get("is_error")) or event.get("status") == "failed"
            draft.observations = [Observation(call_id=call_id, text=text, is_error=flag)]
        _note(draft, event, _HOMED | {"title", "raw_input", "raw_output", "is_error"})

    def _state(self, event: Mapping[str, Any]) -> None:
        key, value = event.get("key"), event.get("value")
        if key == "full_state" and isinstance(value, dict):
            self.state.update(value)
        elif isinstance(key, str):
            self.state[key] = value

    def _tokens(self, event: Mapping[str, Any]) -> None:
        if self._latest is not None:
            self._latest.values["prompt_token_ids"] = tuple(map(int, event["prompt_token_ids"]))
            self._latest.values["completion_token_ids"] = tuple(
                map(int, event["response_token_ids"])
            )

    def _completion_log(self, event: Mapping[str, Any]) -> None:
        log = json.loads(event["log_data"])
        usage = log.get("usage_summary") or (log.get("response") or {}).get("usage") or {}
        response = (log.get("response") or {}).get("id")
        if response:
            self.logged[response] = {**usage, "latency": log.get("latency_sec")}

    def _conversation_error(self, event: Mapping[str, Any]) -> None:
        self.error, self.reason = event.get("detail"), event.get("code")
        self._nobody(event)

    def _nobody(self, event: Mapping[str, Any]) -> None:
        text = next((event[k] for k in ("summary", "detail", "reason") if event.get(k)), None)
        draft = self._add("environment", text if isinstance(text, str) else None, event)
        _note(draft, event, {"summary", "detail"})

    def _delta(self, event: Mapping[str, Any]) -> None:
        """A piece of a message that comes whole in a later event."""

    _READERS: ClassVar[Mapping[str, Callable[[Conversation, Mapping[str, Any]], None]]] = {
        "SystemPromptEvent": _system,
        "SystemPromptUpdateEvent": _system,
        "MessageEvent": _message,
        "ActionEvent": _action,
        "ObservationEvent": _observation,
        "UserRejectObservation": _rejection,
        "AgentErrorEvent": _agent_error,
        "ACPToolCallEvent": _remote_call,
        "ConversationStateUpdateEvent": _state,
        "TokenEvent": _tokens,
        "LLMCompletionLogEvent": _completion_log,
        "ConversationErrorEvent": _conversation_error,
        "StreamingDeltaEvent": _delta,
    }
    _SILENT: ClassVar[frozenset[str]] = frozenset(
        {
            "ConversationStateUpdateEvent",
            "LLMCompletionLogEvent",
            "StreamingDeltaEvent",
        }
    )
    """Kinds that only report; they are made anew for each listener."""


def _tool_call(call: Mapping[str, Any], event: Mapping[str, Any]) -> ToolCall:
    """The call as the model wrote it, else as the event names it."""
    inner = call.get("function")
    function = inner if isinstance(inner, dict) else call
    name = function.get("name") or event.get("tool_name")
    arguments = function.get("arguments")
    if arguments is None and isinstance(event.get("action"), dict):
        arguments = {k: v for k, v in event["action"].items() if k != "kind"}
    return ToolCall.of(name, arguments, call.get("id") or event.get("tool_call_id"))


def _reasoning(holder: Mapping[str, Any]) -> str | None:
    """Readable thinking; blocks that are signed or encrypted stay in the metadata."""
    if holder.get("reasoning_content"):
        return text_of(holder["reasoning_content"])
    blocks = [b.get("thinking") for b in holder.get("thinking_blocks") or ()]
    item = holder.get("responses_reasoning_item") or {}
    said = [t for t in (*blocks, *(item.get("summary") or ())) if isinstance(t, str) and t]
    return "\n".join(said) if said else None


def _note(draft: Draft, event: Mapping[str, Any], homed: frozenset[str] | set[str]) -> None:
    """Keep the event's id, kind and the fields that have no column in the step's metadata."""
    left = {
        k: v
        for k, v in event.items()
        if k not in homed and k not in {"source", "timestamp"} and v not in (None, [], {})
    }
    if event["kind"] not in _SPEAKING:
        left["timestamp"] = event["timestamp"]
    message = event.get("llm_message")
    if isinstance(message, dict):
        known = {"role", "content", "reasoning_content", "tool_calls"}
        rest = {k: v for k, v in message.items() if k not in known and v not in (None, [], {})}
        if rest:
            left["llm_message"] = rest
    noted = draft.values.get("metadata")
    if not isinstance(noted, dict):
        noted = draft.values["metadata"] = {"events": []}
    noted["events"].append(left)


def finished_steps(conversation: Conversation, sampling: str | None) -> tuple[Step, ...]:
    """The steps of a conversation that has been read.

    Args:
        conversation: what was read.
        sampling: JSON text of the sampling settings of its model calls, where they are known.
    """
    for draft in conversation.builder.drafts:
        draft.values["metadata"] = json_text_or_none(draft.values.get("metadata"))
        if draft.actor == "agent" and sampling is not None:
            draft.values["sampling"] = sampling
    return conversation.builder.steps()
