"""Anthropic messages: content blocks, the system prompt beside, results in user messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from trajstore.importers.building import (
    ROLES,
    Draft,
    StepBuilder,
    parts_of,
    rest,
    text_of,
    whole,
)
from trajstore.importers.chat_importer import ChatImporter
from trajstore.importers.chat_record import chat_record, speaker
from trajstore.importers.chat_trajectory import Conversation
from trajstore.importers.openai_chat import chat_steps, keep
from trajstore.importers.source import Source
from trajstore.schema import Observation, ToolCall, json_text

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_SHOWN = frozenset({"image", "document"})
_MARKS = _CALLS | {"tool_result", "thinking", "redacted_thinking"}
_USED: Mapping[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "cache_control"}),
    "thinking": frozenset({"type", "thinking"}),
    **dict.fromkeys(_CALLS, frozenset({"type", "id", "name", "input", "cache_control"})),
}
_RESULT = frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"})
_MESSAGE = frozenset({"role", "content", "model", "usage"})


class AnthropicMessagesImporter(ChatImporter):
    """Messages of content blocks; see :class:`ChatImporter` for identity.

    A record may hold the request (``system``, ``messages``, ``tools``, ``model``) and the
    ``response`` to it, which becomes the last step with its tokens.
    """

    name: ClassVar[str] = "anthropic-messages"
    title: ClassVar[str] = "Anthropic messages with content blocks"
    reads: ClassVar[str] = (
        "system, messages with text, thinking, tool_use and tool_result blocks, tools, response; "
        "success and reward where a column names them"
    )

    def detect(self, source: Source) -> float:
        """0.6 where messages hold blocks that only Anthropic has, or tools with input schemas."""
        values = source.sample
        if any(isinstance(v, Mapping) and "role" in v for v in values[:1]):
            marked = source.shape in {"array", "lines"} and is_marked(values)
            return 0.6 if marked else 0.0
        return 0.6 if any(_is_anthropic(v) for v in values) else 0.0

    def conversation(self, messages: list[Any], row: Mapping[str, Any]) -> Conversation:
        """Steps of messages and of the response beside them."""
        builder = block_steps(messages, StepBuilder())
        answer = row.get("response")
        if not isinstance(answer, Mapping) or not _is_answer(answer):
            return Conversation(steps=builder.steps())
        block_steps([answer], builder)
        reason = answer.get("stop_reason")
        return Conversation(
            steps=builder.steps(),
            fields={} if reason is None else {"termination_reason": str(reason)},
            used=frozenset({"response"}),
        )


def _is_anthropic(value: Any) -> bool:
    if isinstance(value, list):
        return is_marked(value)
    if not isinstance(value, Mapping):
        return False
    found = chat_record(value)
    if found is None:
        return False
    if any(is_marked(c) for c in found.conversations):
        return True
    tools = value.get("tools")
    return isinstance(tools, list) and any(
        isinstance(t, Mapping) and "input_schema" in t and "function" not in t for t in tools
    )


def is_marked(messages: Iterable[Any]) -> bool:
    """Whether messages hold blocks that only Anthropic has."""
    contents = (m.get("content") for m in messages if isinstance(m, Mapping))
    return any(_is_mark(b) for c in contents if isinstance(c, list) for b in c)


def _is_mark(block: Any) -> bool:
    kind = block.get("type") if isinstance(block, Mapping) else None
    return isinstance(kind, str) and kind in _MARKS and "value" not in block


def _is_answer(value: Mapping[str, Any]) -> bool:
    return value.get("role") == "assistant" and isinstance(value.get("content"), list)


def block_steps(messages: Iterable[Any], builder: StepBuilder) -> StepBuilder:
    """Add Anthropic messages to a builder, one agent step an assistant message.

    Results in a user message go to the calls they answer, what else it says is a user step.

    Raises:
        ValueError: a message is no object or has no role.
    """
    for message in messages:
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, list):
            chat_steps([message], builder)
        elif ROLES.get(speaker(message)) == "agent":
            _answer(message, builder)
        else:
            _given(message, builder)
    return builder


def _answer(message: Mapping[str, Any], builder: StepBuilder) -> None:
    draft = builder.add(
        "agent",
        model=message.get("model"),
        metadata=rest(message, _MESSAGE),
        content=_content(message["content"]),
    )
    draft.values.update(usage_fields(message.get("usage")))
    for block in message["content"]:
        kind = block.get("type")
        if kind == "text":
            draft.add_text(block["text"])
        elif kind == "thinking":
            draft.add_reasoning(block["thinking"])
        elif kind in _CALLS:
            draft.calls.append(ToolCall.of(block["name"], block.get("input"), block.get("id")))
        elif str(kind).endswith("tool_result"):
            _observe(block, builder)
            continue
        if kind not in _SHOWN:
            keep(draft, "blocks", _left(block))


def _left(block: Mapping[str, Any]) -> str | None:
    """What of a block has no column, with its type; None where that is nothing."""
    known = _USED.get(str(block.get("type")), frozenset())
    left = {k: v for k, v in block.items() if k not in known and v is not None}
    return json_text({"type": block.get("type"), **left}) if left else None


def _content(blocks: list[Any]) -> str | None:
    """Text and pictures as parts, where there are pictures."""
    return parts_of([b for b in blocks if b.get("type") == "text" or b.get("type") in _SHOWN])


def _given(message: Mapping[str, Any], builder: StepBuilder) -> None:
    blocks = message["content"]
    results = [b for b in blocks if isinstance(b, Mapping) and b.get("type") == "tool_result"]
    others = [b for b in blocks if not (isinstance(b, Mapping) and b.get("type") == "tool_result")]
    for block in results:
        _observe(block, builder)
    if others or not results:
        chat_steps([{**message, "content": others}], builder)


def _observe(block: Mapping[str, Any], builder: StepBuilder) -> Draft:
    content, flag = block.get("content"), block.get("is_error")
    text, parts = text_of(content), parts_of(content)
    if text is None and parts is None and content is not None:
        parts = json_text(content)
    draft = builder.observe(
        Observation(
            call_id=None if block.get("tool_use_id") is None else str(block["tool_use_id"]),
            text=text,
            content=parts,
            is_error=None if flag is None else bool(flag),
        )
    )
    keep(draft, "results", rest(block, _RESULT) if block.get("type") == "tool_result" else None)
    return draft


def usage_fields(usage: Any) -> dict[str, int]:
    """Token counts of a ``usage`` object by our columns; cached ones are part of the prompt."""
    if not isinstance(usage, Mapping):
        return {}
    fresh, output = whole(usage.get("input_tokens")), whole(usage.get("output_tokens"))
    read = whole(usage.get("cache_read_input_tokens"))
    written = whole(usage.get("cache_creation_input_tokens"))
    found = {
        "prompt_tokens": None if fresh is None else fresh + (read or 0) + (written or 0),
        "completion_tokens": output,
        "cached_tokens": read,
    }
    return {k: v for k, v in found.items() if v is not None}


IMPORTER = AnthropicMessagesImporter()
