"""OpenAI Responses: lists of items, response objects, and records of input and output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from trajstore.importers.building import Draft, StepBuilder, moment
from trajstore.importers.chat_importer import ChatImporter
from trajstore.importers.chat_record import ChatRecord
from trajstore.importers.chat_trajectory import FAMILY, Conversation
from trajstore.importers.response_items import response_steps, usage_fields
from trajstore.importers.source import Source
from trajstore.schema import Status, digest, json_text_or_none, trajectory_id

_LISTS = ("items", "data", "messages", "conversation")
_SAMPLING = ("temperature", "top_p", "max_output_tokens", "top_logprobs", "seed")
_STATUS: Mapping[str, Status] = {
    "completed": "terminated",
    "incomplete": "truncated",
    "failed": "error",
    "cancelled": "truncated",
    "in_progress": "running",
    "queued": "running",
}


class OpenAIResponsesImporter(ChatImporter):
    """Responses items; see :class:`ChatImporter` for identity and task.

    A response object is known by its id. The response before it (``previous_response_id``) is the
    parent that it continues, since its own items are only what is new.
    """

    name: ClassVar[str] = "openai-responses"
    title: ClassVar[str] = "OpenAI Responses: items, {input, output} records, response objects"
    reads: ClassVar[str] = (
        "messages, reasoning, calls and outputs, instructions, usage, status; success and reward "
        "where a column names them"
    )

    def detect(self, source: Source) -> float:
        """0.6 for records with items that only Responses have, also for a bare list of them."""
        values = source.sample
        if source.shape in {"array", "lines"} and values and is_item(values[0]):
            return 0.6 if is_items(values) else 0.0
        return 0.6 if any(self._holds_items(v) for v in values) else 0.0

    def _holds_items(self, value: Any) -> bool:
        if isinstance(value, list):
            return is_items(value)
        return isinstance(value, Mapping) and self.find(value) is not None

    def is_bare(self, value: Any) -> bool:
        """Whether a value is an item and the file so a list of items."""
        return is_item(value)

    def find(self, row: Mapping[str, Any]) -> ChatRecord | None:
        """The items of a record: what came out, or one list of all."""
        if is_items(row.get("output")) or row.get("object") == "response":
            used = {"input", "output", "instructions", "usage"}
            return ChatRecord(conversations=(list(row["output"]),), used=frozenset(used))
        for name in _LISTS:
            if is_items(row.get(name)):
                return ChatRecord(conversations=(list(row[name]),), used=frozenset({name}))
        return None

    def conversation(self, messages: list[Any], row: Mapping[str, Any]) -> Conversation:
        """Steps of items, with what was put in before them."""
        builder = StepBuilder()
        if row.get("instructions"):
            _instructions(row["instructions"], builder)
        if row.get("input"):
            response_steps(row["input"], builder)
        before = len(builder.drafts)
        response_steps(messages, builder)
        new = [d for d in builder.drafts[before:] if d.actor == "agent"]
        fields = _response_fields(row)
        sampling = json_text_or_none({k: row[k] for k in _SAMPLING if row.get(k) is not None})
        if sampling is not None:
            _set(new, {"sampling": sampling})
        usage = usage_fields(row.get("usage"))
        if len(new) == 1:
            _set(new, usage)
        else:
            fields |= usage
        return Conversation(steps=builder.steps(), fields=fields)


def is_item(value: Any) -> bool:
    """Whether this is an item that only Responses have (an easy message without type is not)."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    if not isinstance(kind, str):
        return False
    content = value.get("content")
    if kind == "message":
        parts = content if isinstance(content, list) else []
        return any(isinstance(p, Mapping) and _is_part(p.get("type")) for p in parts)
    if kind == "reasoning":
        return "summary" in value
    return kind in {"function_call", "function_call_output", "custom_tool_call"} and (
        "call_id" in value
    )


def _is_part(kind: Any) -> bool:
    return isinstance(kind, str) and kind.startswith(("input_", "output_"))


def is_items(value: Any) -> bool:
    """Whether this is a list of items."""
    return isinstance(value, list) and any(is_item(v) for v in value[:20])


def _instructions(value: Any, builder: StepBuilder) -> None:
    if isinstance(value, str):
        builder.add("system", value)
    else:
        response_steps(value, builder)


def _set(drafts: list[Draft], values: Mapping[str, Any]) -> None:
    for draft in drafts:
        draft.values.update(values)


def _response_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that only a response object has: id, parent, times, how it ended."""
    if row.get("object") != "response":
        return {}
    own, before = row.get("id"), row.get("previous_response_id")
    details, error = row.get("incomplete_details"), row.get("error")
    found = {
        "trajectory_id": _response_id(own),
        "parent_id": _response_id(before),
        "relation": "continuation" if isinstance(before, str) else None,
        "status": _STATUS.get(str(row.get("status"))),
        "termination_reason": details.get("reason") if isinstance(details, Mapping) else None,
        "error": error.get("message") if isinstance(error, Mapping) else None,
        "started_at": moment(row.get("created_at")),
        "ended_at": moment(row.get("completed_at")),
    }
    return {k: v for k, v in found.items() if v is not None}


def _response_id(value: Any) -> str | None:
    """Id of the run of a response; only ids that the API gave are unique."""
    if isinstance(value, str) and value.startswith("resp_"):
        return trajectory_id(FAMILY, digest("response", value))
    return None


IMPORTER = OpenAIResponsesImporter()
