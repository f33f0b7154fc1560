"""OpenAI chat messages, fine-tuning rows, preference pairs, and their kin of other trainers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from trajstore.importers.building import Draft, StepBuilder, openai_steps, parts_of, rest, text_of
from trajstore.importers.chat_importer import ChatImporter
from trajstore.importers.chat_record import chat_record, is_turn, speaker
from trajstore.importers.chat_trajectory import Conversation
from trajstore.importers.response_items import usage_fields
from trajstore.importers.source import Source
from trajstore.importers.written_calls import written_calls
from trajstore.schema import Observation, json_text

_RESULT_FIELDS = frozenset({"role", "content", "tool_call_id", "is_error", "error"})
_BLOCKS = frozenset({"reasoning", "tool_call"})


class OpenAIChatImporter(ChatImporter):
    """Chat messages by ``role``, as OpenAI defines them; see :class:`ChatImporter` for identity.

    A record may also hold the ``response`` to its messages (a logged call); it becomes the last
    step with its tokens. Also read: the legacy ``function_call``, the content blocks of
    LLaMA-Factory v1 (``{type: text | reasoning | tool_call, value}``), KTO's ``label`` and TRL's
    forms.
    """

    name: ClassVar[str] = "openai-chat"
    title: ClassVar[str] = "OpenAI chat messages: JSON, JSONL, fine-tuning, DPO and KTO rows"
    reads: ClassVar[str] = (
        "messages, tools, chosen and rejected; preference and KTO labels; success and reward "
        "where a column names them"
    )

    def detect(self, source: Source) -> float:
        """0.5 for records with messages by role, 0.4 for a bare list of them."""
        if source.shape in {"array", "lines"} and _is_message(source.first):
            return 0.4
        return max(map(_sureness, source.sample), default=0.0)

    def conversation(self, messages: list[Any], row: Mapping[str, Any]) -> Conversation:
        """Steps of messages by role, and of the one answer that a logged ``response`` holds."""
        builder = chat_steps(messages, StepBuilder())
        response = row.get("response")
        answer = _answer(response)
        if answer is None or not isinstance(response, Mapping):
            return Conversation(steps=builder.steps())
        draft = chat_steps([answer], builder).drafts[-1]
        draft.values |= usage_fields(response.get("usage"))
        if isinstance(response.get("model"), str):
            draft.values["model"] = response["model"]
        reason = response["choices"][0].get("finish_reason")
        return Conversation(
            steps=builder.steps(),
            fields={} if reason is None else {"termination_reason": str(reason)},
        )


def _sureness(value: Any) -> float:
    if isinstance(value, list):
        return 0.4 if value and _is_message(value[0]) else 0.0
    found = chat_record(value) if isinstance(value, Mapping) else None
    if found is None:
        return 0.0
    last = (c[-1] for c in found.conversations)
    return 0.5 if all(isinstance(m, Mapping) and "role" in m for m in last) else 0.0


def _answer(response: Any) -> Any:
    """The message of a chat completion with one choice, or None."""
    choices = response.get("choices") if isinstance(response, Mapping) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        return None
    message = choices[0].get("message")
    return message if _is_message(message) else None


def _is_message(value: Any) -> bool:
    return is_turn(value) and isinstance(value.get("role"), str)


def chat_steps(messages: Iterable[Any], builder: StepBuilder) -> StepBuilder:
    """Add chat messages to a builder; nothing of a message is lost.

    Args:
        messages: OpenAI messages, their content strings, parts or LLaMA-Factory v1 blocks.
        builder: where the steps go.

    Raises:
        ValueError: a message is no object or has no role.
    """
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping) or not speaker(message):
            raise ValueError(f"message {i} has no role")
        if speaker(message) in {"tool", "function"}:
            _result(message, builder)
        elif _has_blocks(message.get("content")):
            _blocks(message, builder)
        else:
            openai_steps([message], builder)
    return builder


def _result(message: Mapping[str, Any], builder: StepBuilder) -> None:
    flag = message.get("is_error", message.get("error"))
    call_id = message.get("tool_call_id")
    content = message.get("content")
    draft = builder.observe(
        Observation(
            call_id=None if call_id is None else str(call_id),
            text=text_of(content),
            content=parts_of(content),
            is_error=None if flag is None else bool(flag),
        )
    )
    names = {c.name for c in draft.calls}
    known = _RESULT_FIELDS if message.get("name") not in names else _RESULT_FIELDS | {"name"}
    if isinstance(message.get("error"), str | Mapping):
        known = known - {"error"}
    keep(draft, "results", rest(message, known))


def keep(draft: Draft, name: str, more: str | None) -> None:
    """Append a JSON object to the list ``name`` in the metadata of a step; nothing for None."""
    if more is None:
        return
    before = json.loads(draft.values.get("metadata") or "{}")
    entries = [*before.get(name, ()), json.loads(more)]
    draft.values["metadata"] = json_text({**before, name: entries})


def _has_blocks(content: Any) -> bool:
    """Whether content is LLaMA-Factory v1 blocks that hold more than what parts can say."""
    return isinstance(content, list) and any(
        isinstance(p, Mapping) and p.get("type") in _BLOCKS and "value" in p for p in content
    )


def _blocks(message: Mapping[str, Any], builder: StepBuilder) -> None:
    blocks = message["content"]
    others = [b for b in blocks if b.get("type") not in _BLOCKS]
    openai_steps([{**message, "content": others or None}], builder)
    draft = builder.drafts[-1]
    for block in blocks:
        if block.get("type") == "reasoning":
            draft.add_reasoning(block["value"])
        elif block.get("type") == "tool_call":
            found = written_calls(block["value"])
            draft.calls.extend(found.calls)
            if found.malformed:
                draft.values["format_error"] = True


IMPORTER = OpenAIChatImporter()
