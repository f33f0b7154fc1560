"""OpenAI's fine-tuning file: one JSON object a line with nothing but what the API allows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trajstore.exports.files import Format, Kind
from trajstore.exports.messages import Message
from trajstore.exports.sft import Refusal, SftOptions, SftRow
from trajstore.exports.target import Record, SftTarget

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEYS = ("role", "content", "tool_calls", "tool_call_id")


class OpenAITarget(SftTarget):
    """``messages``, ``tools`` and ``parallel_tool_calls``; weight 0 on turns not trained on."""

    name: ClassVar[str] = "openai"
    title: ClassVar[str] = "OpenAI fine-tuning, and hosts that read its files"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl",)
    usage: ClassVar[str] = """Upload the data file with purpose `fine-tune`. Every assistant message
is trained on but those with `"weight": 0`. The format has no place for reasoning or for ids; rows
follow the order of the trajectories, whose ids `manifest.json` hashes.
"""
    refusals: ClassVar[Mapping[str, str]] = {
        "unanswered-call": "a call that is not in the last message has no result, and the API "
        "wants a tool message for each; leave such runs out of the selection",
        "function-name": "a function's name has other characters than letters, digits, _ and -, "
        "or more than 64; rename the tool in the source, or leave such runs out",
    }

    def prepare(self, options: SftOptions) -> SftOptions:
        """Arguments as text, no reasoning, and masked turns kept with weight 0."""
        options = super().prepare(options)
        return replace(options, arguments="text", include_reasoning=False, masked_turns="keep")

    def columns(self, options: SftOptions) -> Mapping[str, Kind]:
        """Messages and tools as JSON values."""
        del options
        return {"messages": "json-list", "tools": "json-list", "parallel_tool_calls": "bool"}

    def record(self, row: SftRow, options: SftOptions) -> Record | Refusal:
        """``tools`` and ``parallel_tool_calls`` (whether a turn made several calls) where known."""
        del options
        tools = [] if row.tools is None else json.loads(row.tools)
        bad = bad_name(row.messages, tools)
        if bad is not None:
            return self.refuse(row, "function-name", f"function {bad!r}")
        lost = unanswered(row.messages)
        if lost is not None:
            return self.refuse(row, "unanswered-call", f"call {lost!r}")
        messages = [_message(m, t) for m, t in zip(row.messages, row.trainable, strict=True)]
        values: dict[str, Any] = {"messages": messages}
        if tools:
            values["tools"] = tools
            several = any(len(m.get("tool_calls", ())) > 1 for m in messages)
            values["parallel_tool_calls"] = several
        return Record(values=values)


def _message(message: Message, trained: bool) -> Message:  # noqa: FBT001 - the mask of that message
    kept = bare(message)
    return kept if trained or message["role"] != "assistant" else {**kept, "weight": 0}


def bare(message: Message) -> Message:
    """The message with nothing but what the API allows."""
    return {k: message[k] for k in _KEYS if k in message}


def bad_name(messages: list[Message], tools: list[Any]) -> str | None:
    """The first name of a function, called or offered, that the API does not take."""
    called = [c["function"]["name"] for m in messages for c in m.get("tool_calls", ())]
    names = [*called, *(str(t["function"].get("name", "")) for t in tools)]
    return next((n for n in names if not _NAME.fullmatch(n)), None)


def unanswered(messages: list[Message]) -> str | None:
    """Id of the first call before the last message that no tool message answers."""
    answered = {m["tool_call_id"] for m in messages if m["role"] == "tool"}
    asked = (c["id"] for m in messages[:-1] for c in m.get("tool_calls", ()))
    return next((i for i in asked if i not in answered), None)


TARGET = OpenAITarget()
"""The target of this module."""
