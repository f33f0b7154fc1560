"""What one record of a chat data set holds: conversations, and which of two is preferred.

The forms that trainers and hubs use differ in field names only; all of them are read here:

* ``messages`` or ``conversations``: one conversation;
* ``prompt`` + ``completion``: one conversation in two parts, messages or plain strings;
* ``chosen`` + ``rejected`` (also ``chosen_messages`` / ``rejected_messages``): two conversations,
  whole or as answers to a ``prompt`` (or to ``messages`` / ``conversations``);
* ``input`` + ``preferred_output`` + ``non_preferred_output``: the same at OpenAI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trajstore.importers.items import Problem
from trajstore.importers.source import Record, Source

Side = Literal["chosen", "rejected"]
"""Which answer of a preference pair a conversation is."""

_SIDES: tuple[Side, Side] = ("chosen", "rejected")
_CONVERSATION = ("messages", "conversations", "conversation")
_PROMPT = ("prompt", *_CONVERSATION)
_PAIRS = (
    ("chosen_messages", "rejected_messages"),
    ("preferred_output", "non_preferred_output"),
    ("chosen", "rejected"),
)
_SYSTEM = ("system", "system_prompt")
_AGENTS = frozenset({"assistant", "gpt", "model", "ai", "agent", "function_call", "bot", "chatgpt"})
_TURN_FIELDS = ("content", "text", "value", "tool_calls", "function_call", "parts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRecord:
    """The conversations of one record: one, or the chosen and the rejected one."""

    conversations: tuple[list[Any], ...]
    """Each with the prompt in front."""
    sides: tuple[Side, ...] = ()
    """Which conversation is which in a pair; empty where there is no pair."""
    prompt_turns: int = 0
    """How many leading turns the two of a pair share as their prompt."""
    tools: Any = None
    """Tool definitions that stood beside the prompt, inside the same field."""
    used: frozenset[str] = frozenset()
    """Fields of the record that went into this."""


def speaker(turn: Mapping[str, Any]) -> str:
    """Who speaks: ``role``, or ``from`` in ShareGPT; '' where there is neither."""
    value = turn.get("role", turn.get("from"))
    return value if isinstance(value, str) else ""


def is_turn(value: Any) -> bool:
    """Whether this is one chat message of any dialect."""
    if not isinstance(value, Mapping) or not speaker(value):
        return False
    return any(k in value for k in _TURN_FIELDS)


def is_conversation(value: Any) -> bool:
    """Whether this is a list of chat messages, seen from the first three."""
    if not isinstance(value, list) or not value:
        return False
    first = value[:3]
    if not all(isinstance(v, Mapping) for v in first) or not speaker(first[0]):
        return False
    return any(map(is_turn, first))


def chat_record(row: Mapping[str, Any]) -> ChatRecord | None:
    """The conversations of a record, or None where it has none.

    A system prompt beside the conversation is put in front of it as a message.
    """
    found = _openai_pair(row) or _pair(row) or _completion(row) or _single(row)
    return None if found is None else _with_system(found, row)


def _single(row: Mapping[str, Any]) -> ChatRecord | None:
    for name in _CONVERSATION:
        if is_conversation(row.get(name)):
            return ChatRecord(conversations=(list(row[name]),), used=frozenset({name}))
    return None


def _completion(row: Mapping[str, Any]) -> ChatRecord | None:
    prompt = _turns(row.get("prompt"), "user")
    completion = _turns(row.get("completion"), "assistant")
    if not prompt or not completion:
        return None
    return ChatRecord(
        conversations=([*prompt, *completion],), used=frozenset({"prompt", "completion"})
    )


def _openai_pair(row: Mapping[str, Any]) -> ChatRecord | None:
    names = _PAIRS[1]
    given = row.get("input")
    if not isinstance(given, Mapping) or not all(n in row for n in names):
        return None
    prompt = _turns(given.get("messages"), "user")
    whole = [[*prompt, *_turns(row[n], "assistant")] for n in names]
    if not all(whole):
        return None
    return ChatRecord(
        conversations=tuple(whole),
        sides=_SIDES,
        prompt_turns=len(prompt),
        tools=given.get("tools"),
        used=frozenset({"input", *names}),
    )


def _pair(row: Mapping[str, Any]) -> ChatRecord | None:
    names = next((p for p in _PAIRS if all(row.get(n) for n in p)), None)
    if names is None:
        return None
    sides = [_turns(row[n], "assistant") for n in names]
    if not all(sides):
        return None
    if all(_is_answer(side) for side in sides):
        name = next((n for n in _PROMPT if row.get(n)), None)
        prompt = [] if name is None else _turns(row[name], "user")
        used = {*names} if name is None else {*names, name}
        whole = [[*prompt, *side] for side in sides]
    else:
        whole = sides
        used = {*names, *(n for n in _PROMPT if _repeats(row.get(n), whole[0]))}
    return ChatRecord(
        conversations=tuple(whole),
        sides=_SIDES,
        prompt_turns=_shared(whole[0], whole[1]),
        used=frozenset(used),
    )


def _turns(value: Any, role: str) -> list[Any]:
    """Messages from a list, from one message, or from a plain string said by ``role``."""
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if is_turn(value):
        return [value]
    return list(value) if is_conversation(value) else []


def _is_answer(turns: Sequence[Mapping[str, Any]]) -> bool:
    return speaker(turns[0]) in _AGENTS


def _repeats(value: Any, conversation: list[Any]) -> bool:
    """Whether a field only says again what the conversation already holds."""
    if isinstance(value, str):
        said = (t.get("content", t.get("value")) for t in conversation)
        return any(value == text for text in said)
    return bool(value) and isinstance(value, list) and conversation[: len(value)] == value


def _shared(one: list[Any], other: list[Any]) -> int:
    """Length of the common prompt; the last turn of a conversation is never part of it."""
    most = max(0, min(len(one), len(other)) - 1)
    return next((i for i in range(most) if one[i] != other[i]), most)


def _with_system(found: ChatRecord, row: Mapping[str, Any]) -> ChatRecord:
    name = next((n for n in _SYSTEM if isinstance(row.get(n), str | list) and row[n]), None)
    if name is None or any(speaker(c[0]) == "system" for c in found.conversations):
        return found
    system = {"role": "system", "content": row[name]}
    return ChatRecord(
        conversations=tuple([system, *c] for c in found.conversations),
        sides=found.sides,
        prompt_turns=found.prompt_turns + 1 if found.sides else 0,
        tools=found.tools,
        used=found.used | {name},
    )


class WholeList(Source):
    """A file that is one bare list of messages, seen as one record."""

    def __init__(self, source: Source) -> None:
        """Look at the same file."""
        super().__init__(source.path, uri=source.uri, files=source.files)

    def records(self, *, array_is_one: bool = False) -> Iterator[Record | Problem]:
        """The whole list as one record; what cannot be read in it comes as problems."""
        del array_is_one
        messages = []
        for record in super().records():
            if isinstance(record, Problem):
                yield record
            else:
                messages.append(record.value)
        yield Record(messages, 0)
