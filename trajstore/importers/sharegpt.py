"""ShareGPT conversations, as LLaMA-Factory and the Agent Data Protocol use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from trajstore.importers import adp
from trajstore.importers.adp_sft import is_adp_sft, standard_record
from trajstore.importers.building import Draft, StepBuilder, openai_steps, parts_of, rest, text_of
from trajstore.importers.chat_importer import ChatImporter
from trajstore.importers.chat_record import chat_record
from trajstore.importers.chat_trajectory import Conversation
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.openai_chat import chat_steps
from trajstore.importers.source import Record, Source
from trajstore.importers.written_calls import written_calls
from trajstore.schema import Observation, json_text

_ROLES: Mapping[str, str] = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "bot": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "system": "system",
}
_RESULTS = frozenset({"observation", "tool", "function_response", "ipython"})
_CALLS = frozenset({"function_call", "tool_call"})


class ShareGPTImporter(ChatImporter):
    """Turns of ``from`` and ``value``; see :class:`ChatImporter` for identity.

    A ``function_call`` turn is one model call, a list in it (or several such turns in a row) are
    its parallel calls, and text right before it belongs to the same model call. Records of the
    Agent Data Protocol's SFT form become the very run of the protocol's standard record.
    """

    name: ClassVar[str] = "sharegpt"
    title: ClassVar[str] = "ShareGPT conversations (LLaMA-Factory, Agent Data Protocol SFT)"
    reads: ClassVar[str] = (
        "conversations, system, tools, chosen and rejected; preference and KTO labels; success and "
        "reward where a column names them"
    )

    def detect(self, source: Source) -> float:
        """0.5 where turns have ``from`` and ``value``, more for the SFT form of the protocol."""
        if _is_turn(source.first):
            return 0.4 if source.shape in {"array", "lines"} else 0.0
        return max(map(_sureness, source.sample), default=0.0)

    def conversation(self, messages: list[Any], row: Mapping[str, Any]) -> Conversation:
        """Steps of turns."""
        del row
        return Conversation(steps=turn_steps(messages, StepBuilder()).steps())

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One trajectory, or the two of a pair; SFT records of ADP as what they were made from."""
        if is_adp_sft(record.value):
            standard = Record(standard_record(record.value), record.index, record.line)
            return adp.IMPORTER.convert(source, standard, options)
        return super().convert(source, record, options)


def _sureness(value: Any) -> float:
    if isinstance(value, list):
        return 0.4 if value and _is_turn(value[0]) else 0.0
    found = chat_record(value) if isinstance(value, Mapping) else None
    if found is None or not all(_is_turn(c[-1]) for c in found.conversations):
        return 0.0
    return 0.8 if is_adp_sft(value) else 0.5


def _is_turn(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("from"), str) and "value" in value


def turn_steps(turns: Iterable[Any], builder: StepBuilder) -> StepBuilder:
    """Add ShareGPT turns to a builder; turns by ``role`` among them are read as chat messages.

    Raises:
        ValueError: a turn is no object or says neither ``from`` nor ``role``.
    """
    before: Draft | None = None
    for turn in turns:
        kind = turn.get("from") if isinstance(turn, Mapping) else None
        if kind in _CALLS:
            before = _call(turn, builder, before)
            continue
        before = None
        if kind is None:
            chat_steps([turn], builder)
        elif kind in _RESULTS:
            value = _value(turn)
            builder.observe(Observation(text=text_of(value), content=parts_of(value)))
        else:
            _said(turn, str(kind), builder)
            before = builder.drafts[-1] if _ROLES.get(str(kind)) == "assistant" else None
    return builder


def _said(turn: Mapping[str, Any], kind: str, builder: StepBuilder) -> None:
    more = {k: v for k, v in turn.items() if k not in {"from", "value"}}
    role = _ROLES.get(kind, kind)
    openai_steps([{**more, "role": role, "content": _value(turn)}], builder)


def _value(turn: Mapping[str, Any]) -> Any:
    """What a turn says: text or parts; other values as JSON text."""
    value = turn["value"]
    parts = isinstance(value, list) and all(isinstance(p, Mapping) and "type" in p for p in value)
    return value if value is None or isinstance(value, str) or parts else json_text(value)


def _call(turn: Mapping[str, Any], builder: StepBuilder, before: Draft | None) -> Draft:
    """Put the calls of a turn on the step of the turn right before, if that is the agent's."""
    draft = before or builder.add("agent", metadata=rest(turn, {"from", "value"}))
    value = turn["value"]
    found = written_calls(value if isinstance(value, str) else json_text(value))
    draft.calls.extend(found.calls)
    if found.malformed:
        draft.values["format_error"] = True
    return draft


IMPORTER = ShareGPTImporter()
