"""Hermes function calling: tools, calls, thoughts and results as tags inside the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from trajstore.importers.building import ROLES, StepBuilder, text_of
from trajstore.importers.chat_importer import ChatImporter
from trajstore.importers.chat_record import chat_record, is_turn, speaker
from trajstore.importers.chat_trajectory import Conversation
from trajstore.importers.sharegpt import turn_steps
from trajstore.importers.source import Source
from trajstore.importers.written_calls import json_values, written_calls
from trajstore.schema import Observation, json_text

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_THOUGHT = re.compile(
    r"<(think|scratch_pad)>(?:(.*?)</\1>|(.*?)(?=<tool_call>|\Z))|\A((?:(?!<think>).)*?)</think>",
    re.DOTALL,
)
_RESULT = re.compile(r"<tool_response>(.*?)(?:</tool_response>|\Z)", re.DOTALL)
_TOOLS = re.compile(r"<tools>(.*?)</tools>", re.DOTALL)
_SIGNS = ("<tool_call>", "<tool_response>", "<tools>")


class HermesImporter(ChatImporter):
    """Chat messages or ShareGPT turns with Hermes tags; see :class:`ChatImporter` for identity.

    The tags become calls, reasoning, observations and tool definitions; a step whose text lost tags
    keeps the raw text in its metadata as ``raw``.
    """

    name: ClassVar[str] = "hermes"
    title: ClassVar[str] = "Hermes function calling: <tool_call> tags in chat or ShareGPT text"
    reads: ClassVar[str] = (
        "<tools>, <tool_call> (JSON or Python literal), <think>, <scratch_pad>, <tool_response>; "
        "preference and KTO labels; success and reward where a column names them"
    )

    def detect(self, source: Source) -> float:
        """0.65 for chat records whose text holds the tags."""
        values = source.sample
        if source.shape in {"array", "lines"} and values and is_turn(values[0]):
            return 0.65 if has_tags(values) else 0.0
        return 0.65 if any(_record_has_tags(v) for v in values) else 0.0

    def conversation(self, messages: list[Any], row: Mapping[str, Any]) -> Conversation:
        """Steps of messages with tags."""
        del row
        return Conversation(
            steps=tagged_steps(messages, StepBuilder()).steps(), tools=_tools(messages)
        )


def _record_has_tags(value: Any) -> bool:
    if isinstance(value, list):
        return has_tags(value)
    found = chat_record(value) if isinstance(value, Mapping) else None
    return found is not None and any(has_tags(c) for c in found.conversations)


def has_tags(messages: Iterable[Any]) -> bool:
    """Whether the text of some message holds Hermes tags."""
    contents = (m.get("content", m.get("value")) for m in messages if isinstance(m, Mapping))
    parts = (p for c in contents for p in (c if isinstance(c, list) else [c]))
    texts = (p.get("text", p.get("value")) if isinstance(p, Mapping) else p for p in parts)
    return any(sign in text for text in texts if isinstance(text, str) for sign in _SIGNS)


def _text(turn: Mapping[str, Any]) -> str | None:
    return text_of(turn.get("content", turn.get("value")))


def tagged_steps(messages: Iterable[Any], builder: StepBuilder) -> StepBuilder:
    """Add messages to a builder, their tags taken apart; others are read as they are.

    Raises:
        ValueError: a message is no object or has no role.
    """
    for message in messages:
        text = _text(message) if isinstance(message, Mapping) else None
        if text is None:
            turn_steps([message], builder)
        elif ROLES.get(speaker(message)) == "agent":
            _answer(message, text, builder)
        elif "<tool_response>" in text:
            _results(message, text, builder)
        else:
            turn_steps([message], builder)
    return builder


def _with_text(message: Mapping[str, Any], text: str | None) -> dict[str, Any]:
    name = "content" if "content" in message else "value"
    return {**message, name: text}


def _answer(message: Mapping[str, Any], text: str, builder: StepBuilder) -> None:
    thoughts = ["".join(found[1:]) for found in _THOUGHT.findall(text)]
    spoken = _THOUGHT.sub("", text)
    calls = _CALL.findall(spoken)
    if not thoughts and not calls:
        turn_steps([message], builder)
        return
    turn_steps([_with_text(message, _CALL.sub("", spoken).strip() or None)], builder)
    draft = builder.drafts[-1]
    for thought in thoughts:
        draft.add_reasoning(thought.strip())
    for call in calls:
        found = written_calls(call.strip())
        draft.calls.extend(found.calls if call.strip() else ())
        if found.malformed:
            draft.values["format_error"] = True
    before = json.loads(draft.values.get("metadata") or "{}")
    draft.values["metadata"] = json_text({**before, "raw": text})


def _results(message: Mapping[str, Any], text: str, builder: StepBuilder) -> None:
    results = [found.strip() for found in _RESULT.findall(text)]
    call_id = message.get("tool_call_id") if len(results) == 1 else None
    for result in results:
        builder.observe(Observation(text=result, call_id=None if call_id is None else str(call_id)))
    around = _RESULT.sub("", text).strip()
    if around:
        actor = ROLES.get(speaker(message), "environment")
        builder.add(actor, around)


def _tools(messages: Iterable[Any]) -> list[Any]:
    """Tool definitions in the system text: a list, or one object after another."""
    texts = [_text(m) or "" for m in messages if is_turn(m) and speaker(m) == "system"]
    found: list[Any] = []
    for inside in (i for text in texts for i in _TOOLS.findall(text)):
        for value in json_values(inside):
            found.extend(value if isinstance(value, list) else [value])
    return found


IMPORTER = HermesImporter()
