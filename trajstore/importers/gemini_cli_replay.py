"""Replay of a Gemini CLI session file: its records rewrite, patch and truncate each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trajstore.importers.building import text_of

KINDS = frozenset({"user", "gemini", "info", "warning", "error"})
"""Types of messages."""

COMPRESSION = "compression"
"""Type of the message that stands for a replaced context."""


class Replay:
    """The conversation as it stands after each record, in the order in which it was held.

    A message written again under its id keeps its place and takes its last content. ``$set`` with
    ``messages`` replaces all, ``$rewindTo`` drops that message and what follows. One case differs
    from what the CLI itself keeps: when it compresses its context it replaces all messages by a
    summary and by copies under new ids. What was said is not forgotten here: the messages stay,
    and the summary becomes one event.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.header: dict[str, Any] = {}
        self._messages: dict[str, Mapping[str, Any]] = {}
        self._copies: set[str] = set()
        """Ids that a compression gave to copies of earlier messages."""

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """The messages, in order."""
        return list(self._messages.values())

    def add(self, record: Any) -> None:
        """Take in one record.

        Raises:
            TypeError: it is no JSON object.
            ValueError: it is neither header, message nor patch, or rewinds to an unknown message.
        """
        if not isinstance(record, Mapping):
            raise TypeError(f"a JSON object was expected, not {type(record).__name__}")
        if "$rewindTo" in record:
            self._rewind(str(record["$rewindTo"]))
        elif isinstance(record.get("$set"), Mapping):
            self._patch(record["$set"])
        elif is_message(record):
            self._put(record)
        elif is_header(record):
            self._patch(record)
        else:
            raise ValueError("neither a session header, a message nor a patch of Gemini CLI")

    def _patch(self, patch: Mapping[str, Any]) -> None:
        self.header.update({k: v for k, v in patch.items() if k != "messages"})
        messages = patch.get("messages")
        if not isinstance(messages, list):
            return
        known = [m for m in messages if is_message(m)]
        if self._compresses(known):
            self._copies = {str(m.get("id")) for m in known}
            summary = {"type": COMPRESSION, "content": text_of(known[0].get("content"))}
            self._messages[f"{COMPRESSION} {len(self._messages)}"] = summary
        elif known or not messages:
            self._messages = {}
            for message in known:
                self._put(message)
        if len(known) < len(messages):
            lost = len(messages) - len(known)
            raise ValueError(f"{lost} of {len(messages)} messages have no known type")

    def _compresses(self, messages: list[Mapping[str, Any]]) -> bool:
        """Whether new messages are a summary of the old ones, and no edit of them."""
        if not messages or not self._messages:
            return False
        if any(str(m.get("id")) in self._messages for m in messages):
            return False
        return "<state_snapshot>" in (text_of(messages[0].get("content")) or "")

    def _put(self, message: Mapping[str, Any]) -> None:
        key = str(message.get("id") or f"#{len(self._messages)}")
        if key not in self._copies:
            self._messages[key] = message

    def _rewind(self, target: str) -> None:
        order = list(self._messages)
        if target in self._copies:
            at = 1 + max(i for i, k in enumerate(order) if k.startswith(COMPRESSION))
        elif target in self._messages:
            at = order.index(target)
        else:
            raise ValueError(
                f"rewinds to message '{target}', which is not there: nothing was dropped"
            )
        for key in order[at:]:
            del self._messages[key]


def is_header(value: Any) -> bool:
    """Whether a JSON value opens a session: its id, its project and its start."""
    if not isinstance(value, Mapping) or not isinstance(value.get("sessionId"), str):
        return False
    return "startTime" in value or isinstance(value.get("messages"), list)


def is_message(value: Any) -> bool:
    """Whether a JSON value is a message of a session; one of the model may have calls only."""
    if not isinstance(value, Mapping) or str(value.get("type")) not in KINDS:
        return False
    return "content" in value or (value["type"] == "gemini" and "tokens" in value)
