"""Steps from the event stream of OpenHands V0: actions, observations, and what nobody said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trajstore.importers.building import Draft, StepBuilder, moment, text_of, whole
from trajstore.schema import Actor, Observation, Step, ToolCall, json_text, json_text_or_none

_EVENT_ACTIONS = frozenset(
    {
        "",
        "change_agent_state",
        "condensation",
        "condensation_request",
        "loop_recovery",
        "null",
        "pause",
        "recall",
        "resume",
        "start",
        "stop",
        "summarize",
    }
)
"""Actions that move the machinery along; the model never made them."""

_EVENT_OBSERVATIONS = frozenset(
    {"agent_state_changed", "condense", "loop_detection", "null", "recall"}
)
"""Observations that answer no tool call."""

_BOOKKEEPING = frozenset(
    {
        "action_risk",
        "blocking",
        "confirmation_state",
        "cwd",
        "hidden",
        "impl_source",
        "include_extra",
        "is_confirmed",
        "is_static",
        "keep_prompt",
        "kernel_init_code",
        "security_risk",
        "thought",
        "translated_ipython_code",
    }
)
"""Fields of ``args`` that the model did not write as an argument."""

_FLAT = frozenset({"action_risk", "outputs", "thought", "wait_for_response"})
"""Fields that tell a flat action from other objects with an ``action``."""

_TOP = frozenset(
    {
        "action",
        "args",
        "cause",
        "content",
        "extras",
        "id",
        "llm_metrics",
        "message",
        "observation",
        "source",
        "success",
        "timestamp",
        "tool_call_metadata",
    }
)

_COPIES = frozenset(
    {
        "_diff_cache",
        "formatted_output_and_error",
        "new_content",
        "old_content",
        "screenshot",
        "set_of_marks",
        "translated_ipython_code",
    }
)
"""Whole files around an edit and pictures: said again by the call, the diff or the content."""


def is_event(value: Any) -> bool:
    """Whether a value has the shape of one V0 event, also of the flat one of 2024."""
    if not isinstance(value, dict) or value.keys() & {"kind", "role"}:
        return False
    action, observation = value.get("action"), value.get("observation")
    if isinstance(action, str) and observation is None:
        return isinstance(value.get("args"), dict) or bool(value.keys() & _FLAT)
    return isinstance(observation, str) and action is None and "content" in value


def flatten(history: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Events in order; the [action, observation] pairs of old files are taken apart.

    Raises:
        ValueError: an entry is neither an event nor a pair of them.
    """
    for entry in history:
        for event in entry if isinstance(entry, list) else [entry]:
            if not is_event(event):
                message = f"an entry of the history is no event: {json_text(event)[:80]}"
                raise ValueError(message)
            yield event


@dataclass(slots=True)
class Stream:
    """What a stream of events says, as steps and as facts about the whole run."""

    builder: StepBuilder = field(default_factory=StepBuilder)
    tools: list[Any] | None = None
    """Tool definitions of the system event."""
    agent_class: str | None = None
    version: str | None = None
    model: str | None = None
    state: str | None = None
    """The agent state that the last change led to."""
    last_action: str | None = None
    """The last action of the agent itself."""
    usage: Mapping[str, Any] | None = None
    """The newest cumulative ``llm_metrics``."""
    first_user: Mapping[str, Any] | None = None
    """The event of the first user message: the stream's identity."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    _drafts: dict[Any, Draft] = field(default_factory=dict)
    _calls: dict[Any, str | None] = field(default_factory=dict)
    _responses: dict[str, Draft] = field(default_factory=dict)
    _arguments: dict[Any, Mapping[str, Any]] = field(default_factory=dict)

    def read(self, events: Iterable[Mapping[str, Any]]) -> Stream:
        """Take in events in their order."""
        for event in events:
            when = moment(event.get("timestamp"))
            self.started_at = self.started_at or when
            self.ended_at = when or self.ended_at
            if event.get("llm_metrics"):
                self.usage = event["llm_metrics"]
            if "action" in event:
                self._action(event)
            else:
                self._observation(event)
        return self

    @property
    def goal(self) -> str | None:
        """What the first user message asks."""
        first = self.first_user or {}
        return text_of((first.get("args") or first).get("content"))

    def steps(self, latencies: Mapping[str, float]) -> tuple[Step, ...]:
        """The finished steps, with the seconds each model response took."""
        for response, draft in self._responses.items():
            if response in latencies:
                draft.values["latency_s"] = latencies[response]
        for draft in self.builder.drafts:
            draft.values["metadata"] = json_text_or_none(draft.values.get("metadata"))
        return self.builder.steps()

    def _action(self, event: Mapping[str, Any]) -> None:
        kind = event["action"]
        args = event.get("args")
        if not isinstance(args, dict):
            args = {k: v for k, v in event.items() if k not in _TOP or k == "content"}
        if kind == "system":
            self._system(event, args)
        elif kind in _EVENT_ACTIONS:
            self._nobody(event, args, text_of(args.get("summary")) or event.get("message"))
        elif kind == "message":
            self._message(event, args)
        else:
            self._call(event, args)

    def _system(self, event: Mapping[str, Any], args: Mapping[str, Any]) -> None:
        self.tools = args.get("tools") or self.tools
        self.agent_class = args.get("agent_class") or self.agent_class
        self.version = args.get("openhands_version") or self.version
        draft = self._add("system", args.get("content"), event)
        _note(draft, event, _rest(args, {"content", "tools"}))

    def _message(self, event: Mapping[str, Any], args: Mapping[str, Any]) -> None:
        actor = self._speaker(event, args)
        pictures = args.get("image_urls") or args.get("images_urls")
        draft = self._add(actor, args.get("content"), event)
        if pictures:
            draft.values["content"] = _with_pictures(args.get("content"), pictures)
        if actor == "user":
            self.first_user = self.first_user or event
        elif actor == "agent":
            self.last_action = "message"
            self._model_call(draft, event)
        _note(draft, event, _rest(args, {"content", "image_urls", "images_urls"}))

    def _speaker(self, event: Mapping[str, Any], args: Mapping[str, Any]) -> Actor:
        """The actor of a message; flat files say nothing, but only agents wait for an answer."""
        source = event.get("source")
        if source in {"user", "agent", "environment"}:
            actor: Actor = source
            return actor
        if self.first_user is None:
            return "user"
        return "agent" if args.get("wait_for_response") else "user"

    def _call(self, event: Mapping[str, Any], args: Mapping[str, Any]) -> None:
        call = _tool_call(event, args)
        by_user = event.get("source") == "user"
        response = _response(event)
        draft = self._responses.get(response.get("id", "")) if not by_user else None
        if draft is None:
            text = None if event["action"] == "think" else args.get("thought")
            draft = self._add("user" if by_user else "agent", text, event)
            self._model_call(draft, event)
        draft.calls.append(call)
        if not by_user:
            self.last_action = event["action"]
        given = _parsed(call)
        left = {k: v for k, v in _rest(args, {"thought"}).items() if given.get(k) != v}
        _note(draft, event, left)
        self._drafts[event.get("id")] = draft
        self._calls[event.get("id")] = call.call_id
        self._arguments[event.get("id")] = {**args, **given}

    def _model_call(self, draft: Draft, event: Mapping[str, Any]) -> None:
        """Put on a draft what the model response says: text, thinking, model and usage, once."""
        response = _response(event)
        if not response:
            return
        message = _first_message(response)
        if "content" in message:
            draft.text = text_of(message["content"])
        values = draft.values
        values["reasoning"] = text_of(message.get("reasoning_content"))
        values["model"] = response.get("model")
        self.model = self.model or response.get("model")
        usage = response.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens")
        values["prompt_tokens"] = whole(usage.get("prompt_tokens"))
        values["completion_tokens"] = whole(usage.get("completion_tokens"))
        values["cached_tokens"] = whole(
            usage.get("cache_read_input_tokens") if cached is None else cached
        )
        if response.get("id"):
            self._responses[response["id"]] = draft

    def _observation(self, event: Mapping[str, Any]) -> None:
        kind, content = event["observation"], event.get("content")
        extras = event.get("extras")
        if not isinstance(extras, dict):
            extras = {k: v for k, v in event.items() if k not in _TOP}
        asked = self._drafts.get(event.get("cause")) if event.get("cause") is not None else None
        call_id = (event.get("tool_call_metadata") or {}).get("tool_call_id")
        call_id = None if call_id is None else str(call_id)
        free = asked is None and call_id is None
        if kind in _EVENT_OBSERVATIONS or (kind == "error" and free and "id" in event):
            self.state = extras.get("agent_state") or self.state
            self._nobody(event, extras, content)
            return
        observation = Observation(
            call_id=self._calls.get(event.get("cause")) if asked else call_id,
            text=content,
            is_error=_is_error(event, extras),
            content=_with_pictures(content, _pictures(extras)),
        )
        if asked is None:
            asked = self.builder.observe(observation)
        else:
            asked.observations.append(observation)
        given = self._arguments.get(event.get("cause"), {})
        left = {k: v for k, v in _rest(extras, _COPIES).items() if v not in (content, given.get(k))}
        _note(asked, event, left)

    def _nobody(
        self, event: Mapping[str, Any], fields: Mapping[str, Any], text: str | None
    ) -> None:
        draft = self._add("environment", text, event)
        repeated = {"content", "summary", "thought"}
        if fields.get("query") == self.goal:
            repeated.add("query")
        _note(draft, event, _rest(fields, repeated))

    def _add(self, actor: Actor, text: Any, event: Mapping[str, Any]) -> Draft:
        return self.builder.add(actor, text_of(text), timestamp=moment(event.get("timestamp")))


def _note(draft: Draft, event: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    """Keep the event's name, id and fields without a column in the step's metadata."""
    kind = "action" if "action" in event else "observation"
    note = {"id": event.get("id"), kind: event[kind], **fields}
    if kind == "observation":
        note["timestamp"] = event.get("timestamp")
    if "args" in event or "extras" in event:
        note |= {k: v for k, v in event.items() if k not in _TOP}
    noted = draft.values.setdefault("metadata", {"events": []})
    noted["events"].append({k: v for k, v in note.items() if v is not None})


def _rest(fields: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    return {k: v for k, v in fields.items() if k not in {*known, *_COPIES} and v is not None}


def _response(event: Mapping[str, Any]) -> Mapping[str, Any]:
    about = event.get("tool_call_metadata")
    response = about.get("model_response") if isinstance(about, dict) else None
    return response if isinstance(response, dict) else {}


def _first_message(response: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = response.get("choices") or [{}]
    return choices[0].get("message") or {}


def _tool_call(event: Mapping[str, Any], args: Mapping[str, Any]) -> ToolCall:
    """The call as the model wrote it, else as the action has it."""
    about = event.get("tool_call_metadata") or {}
    call_id = about.get("tool_call_id")
    for call in _first_message(_response(event)).get("tool_calls") or ():
        if call.get("id") == call_id and call_id is not None:
            function = call.get("function") or {}
            return ToolCall.of(function.get("name"), function.get("arguments"), call_id)
    name, kind = about.get("function_name"), event["action"]
    if call_id is None:
        call_id = event.get("id")
    if kind == "call_tool_mcp":
        return ToolCall.of(name or args.get("name"), args.get("arguments"), call_id)
    left = {
        k: v
        for k, v in args.items()
        if v is not None and (k not in _BOOKKEEPING or (kind == "think" and k == "thought"))
    }
    return ToolCall.of(name or kind, left, call_id)


def _parsed(call: ToolCall) -> Mapping[str, Any]:
    value = json.loads(call.arguments) if call.arguments is not None else None
    return value if isinstance(value, dict) else {}


def _is_error(event: Mapping[str, Any], extras: Mapping[str, Any]) -> bool | None:
    """True or False where the event says so, by OpenHands' own rules; None where nothing does.

    An exit code other than 0 is an error; the file editor starts the text of its errors so.
    """
    if event["observation"] == "error":
        return True
    if isinstance(event.get("success"), bool):
        return not event["success"]
    if extras.get("impl_source") == "oh_aci":
        return str(event.get("content")).startswith("ERROR:\n")
    code = (extras.get("metadata") or {}).get("exit_code", extras.get("exit_code"))
    return None if code is None else code != 0


def _pictures(extras: Mapping[str, Any]) -> list[str]:
    shots = [extras.get("screenshot"), *(extras.get("image_urls") or ())]
    return [
        s if s.startswith(("data:", "http")) else f"data:image/png;base64,{s}" for s in shots if s
    ]


def _with_pictures(text: str | None, pictures: Iterable[str]) -> str | None:
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": picture}} for picture in pictures
    ]
    if parts and text:
        parts.insert(0, {"type": "text", "text": text})
    return json_text(parts) if parts else None
