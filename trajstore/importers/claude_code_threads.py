"""Claude Code records to threads: the main conversation of a session and its sub-agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trajstore.importers.building import Draft, StepBuilder, moment, parts_of, text_of
from trajstore.importers.claude_code_records import (
    ATTACHED_WORDS,
    SYNTHETIC,
    attachment_text,
    error_text,
    has_content,
    is_command,
    left_over,
    small_fields,
    usage_of,
    voice,
)
from trajstore.importers.cli_values import flag_in, name_in, text_in
from trajstore.schema import Actor, Observation, ToolCall

_COUNTED_ONLY = frozenset({"progress", "file-history-snapshot", "stream_event"})
"""Types that repeat what other records say (screen updates, cumulative backups, partial text)."""

_CONSTANTS = ("cwd", "entrypoint", "gitBranch", "slug", "userType", "version")
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


@dataclass(eq=False)
class Thread:
    """One trajectory while it is being built: a session's conversation, or one sub-agent's."""

    session: str | None
    """Session id as the records name it."""
    agent: str | None = None
    """Id of the sub-agent inside the session; None for the main conversation."""
    copied: Mapping[str, str] = field(default_factory=dict)
    """Id of a record -> the session that it was copied from, where the record does not say it."""
    builder: StepBuilder = field(default_factory=StepBuilder)
    parent: str | None = None
    """Session that the history was copied from."""
    forked: bool = False
    """Whether the copied history says that it is a fork."""
    times: list[datetime] = field(default_factory=list)
    """First and last moment seen."""
    constants: dict[str, list[Any]] = field(default_factory=dict)
    records: list[Any] = field(default_factory=list)
    """Bookkeeping records, as they are."""
    counted: Counter[str] = field(default_factory=Counter)
    result: Mapping[str, Any] | None = None
    """Closing record of a stream, where there is one."""
    agents: dict[str, int] = field(default_factory=dict)
    """Sub-agent id -> step that started it."""
    calls: dict[str, list[Draft]] = field(default_factory=dict)
    """Call id -> steps that made a call of that id, in order."""
    messages: dict[str, tuple[Any, Draft]] = field(default_factory=dict)
    """Message id -> request id and step."""
    seen: dict[str, set[int]] = field(default_factory=dict)
    """Record id -> hashes of the contents it was seen with."""
    blocks: dict[int, set[int]] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one record.

        Raises:
            TypeError: it has no type.
            ValueError: it is a message without content.
        """
        kind = record.get("type")
        if not isinstance(kind, str):
            raise TypeError("a record without a type; each Claude Code record names its type")
        if self._replayed(record):
            return
        self._note(record)
        if kind == "user":
            self._user(record, _content(record))
        elif kind == "assistant":
            self._assistant(record, _content(record))
        elif kind in _COUNTED_ONLY:
            self.counted[kind] += 1
        elif kind == "result" and "num_turns" in record:
            self.result = record
        elif not self._event(kind, record):
            self.records.append(dict(record))

    def _replayed(self, record: Mapping[str, Any]) -> bool:
        """Whether a record of that id and content came before (resumes write some twice)."""
        uuid = record.get("uuid")
        if not isinstance(uuid, str):
            return False
        content = hash(repr((record.get("type"), record.get("message", record.get("content")))))
        known = self.seen.setdefault(uuid, set())
        if content in known and (has_content(record) or record.get("type") == "system"):
            return True
        known.add(content)
        return False

    def _note(self, record: Mapping[str, Any]) -> None:
        time = moment(record.get("timestamp"))
        if time is not None:
            first = min(self.times[0], time) if self.times else time
            last = max(self.times[-1], time) if self.times else time
            self.times = [first, last]
        for name in _CONSTANTS:
            value = record.get(name)
            known = self.constants.setdefault(name, []) if value else []
            if value and value not in known:
                known.append(value)

    def _step(
        self, actor: Actor, text: str | None, record: Mapping[str, Any], **values: Any
    ) -> Draft:
        origin = record.get("forkedFrom")
        if isinstance(origin, Mapping):
            self.parent, self.forked = str(origin.get("sessionId")), True
            values["is_copied"] = True
        elif record.get("uuid") in self.copied:
            self.parent = self.copied[record["uuid"]]
            values["is_copied"] = True
        draft = self.builder.add(actor, text, timestamp=moment(record.get("timestamp")), **values)
        draft.values["metadata"] = left_over(record)
        return draft

    def _user(self, record: Mapping[str, Any], content: str | list[Any]) -> None:
        said: str | list[Any] = content
        if isinstance(content, list):
            results = [b for b in content if _type(b) == "tool_result"]
            for block in results:
                self._observe(block, record, alone=len(results) == 1)
            said = [b for b in content if _type(b) != "tool_result"]
            if not said and content:
                return
        text = text_of(said)
        self._step(voice(record, text), text, record, content=parts_of(said))

    def _observe(self, block: Mapping[str, Any], record: Mapping[str, Any], *, alone: bool) -> None:
        call_id = name_in(block, "tool_use_id")
        asked = self.calls.get(call_id, []) if call_id is not None else []
        waiting = [d for d in asked if d.unanswered(call_id)]
        if asked and not waiting:
            return
        observation = Observation(
            call_id=call_id,
            text=text_of(block.get("content")),
            content=parts_of(block.get("content")),
            is_error=flag_in(block, "is_error"),
        )
        if waiting:
            draft = waiting[0]
            draft.observations.append(observation)
        else:
            draft = self.builder.observe(observation)
        if alone:
            self._note_result(draft, call_id, record)

    def _note_result(self, draft: Draft, call_id: str | None, record: Mapping[str, Any]) -> None:
        """Keep what ``toolUseResult`` knows beside the text: ids, exit flags, durations."""
        small = small_fields(record.get("toolUseResult"))
        if record.get("toolDenialKind") is not None:
            small["toolDenialKind"] = record["toolDenialKind"]
        if small:
            notes = draft.values.setdefault("metadata", {})
            notes.setdefault("tool_results", {})[call_id or ""] = small
        if isinstance(small.get("agentId"), str):
            self.agents[small["agentId"]] = self._index(draft)

    def _index(self, draft: Draft) -> int:
        drafts = self.builder.drafts
        return next(i for i in range(len(drafts) - 1, -1, -1) if drafts[i] is draft)

    def _assistant(self, record: Mapping[str, Any], content: str | list[Any]) -> None:
        message = record["message"]
        if message.get("model") == SYNTHETIC or record.get("isApiErrorMessage"):
            draft = self._step("environment", text_of(content), record)
            draft.values["metadata"]["written_by"] = "the CLI"
            return
        draft = self._call(message, record)
        usage = message.get("usage")
        draft.values.update({k: v for k, v in usage_of(usage).items() if v is not None})
        notes = draft.values["metadata"]
        if record.get("uuid"):
            notes.setdefault("uuids", []).append(record["uuid"])
        for name in ("id", "stop_reason", "stop_sequence", "stop_details", "usage"):
            if message.get(name) is not None:
                notes[f"message_{name}" if name == "id" else name] = message[name]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        known = self.blocks.setdefault(id(draft), set())
        for block in blocks:
            content_hash = hash(repr(block))
            if content_hash not in known:
                known.add(content_hash)
                self._block(draft, block)

    def _call(self, message: Mapping[str, Any], record: Mapping[str, Any]) -> Draft:
        """The step of a model call: lines that share a message id are one call."""
        key, request = str(message.get("id") or ""), record.get("requestId")
        known = self.messages.get(key) if key else self._running(request)
        if known is not None and (request is None or known[0] in (None, request)):
            for name, value in left_over(record).items():
                if name != "uuid":
                    known[1].values["metadata"].setdefault(name, value)
            return known[1]
        draft = self._step("agent", None, record, model=name_in(message, "model"))
        draft.values["metadata"].pop("uuid", None)
        self.messages[key] = (request, draft)
        return draft

    def _running(self, request: Any) -> tuple[Any, Draft] | None:
        """The latest message without an id, while nothing came after it."""
        last = self.messages.get("")
        if last is None or request is None or last[0] != request:
            return None
        return last if last[1] is self.builder.drafts[-1] and not last[1].observations else None

    def _block(self, draft: Draft, block: Any) -> None:
        kind = _type(block)
        if kind == "text":
            draft.add_text(text_in(block, "text"))
        elif kind == "thinking":
            draft.add_reasoning(text_in(block, "thinking") or None)
            if block.get("signature"):
                draft.values["metadata"].setdefault("signatures", []).append(block["signature"])
        elif kind in _CALLS:
            call = ToolCall.of(block.get("name"), block.get("input"), block.get("id"))
            draft.calls.append(call)
            if call.call_id is not None:
                self.calls.setdefault(call.call_id, []).append(draft)
        elif kind.endswith("tool_result"):
            self._observe(block, {}, alone=False)
        else:
            draft.values["metadata"].setdefault("blocks", []).append(block)

    def _event(self, kind: str, record: Mapping[str, Any]) -> bool:
        """Add a step for an event that has words; False where it has none."""
        if kind == "system":
            content = record.get("content")
            text = content if isinstance(content, str) and content else None
            text = text or error_text(record.get("error"))
            boundary = record.get("subtype") == "compact_boundary"
            if text is not None or boundary:
                self._step("environment", text, record)
            return text is not None or boundary
        attachment = record.get("attachment")
        if not isinstance(attachment, Mapping):
            return False
        text = attachment_text(attachment)
        if text is None:
            return False
        queued = attachment.get("type") == "queued_command"
        actor = voice({**record, **attachment}, text) if queued else "environment"
        draft = self._step(actor, text, record, content=parts_of(attachment.get("prompt")))
        notes = {k: v for k, v in attachment.items() if k not in ATTACHED_WORDS}
        draft.values["metadata"]["attachment"] = notes
        return True

    def inherit(self, other: Thread) -> None:
        """Take over the history of an earlier session of the same file, as copied context."""
        self.parent = other.session
        self.builder.drafts = deepcopy(other.builder.drafts)
        for draft in self.builder.drafts:
            draft.values["is_copied"] = True

    def goal(self) -> str | None:
        """What the user asked first; a command to the CLI only where nothing else was said."""
        said = [d.text for d in self.builder.drafts if d.actor == "user" and (d.text or "").strip()]
        return next((t for t in said if t and not is_command(t)), said[0] if said else None)

    def model(self) -> str | None:
        """The model that made most steps."""
        models = Counter(d.values["model"] for d in self.builder.drafts if d.values.get("model"))
        return models.most_common(1)[0][0] if models else None


def _type(block: Any) -> str:
    return str(block.get("type", "")) if isinstance(block, Mapping) else ""


def _content(record: Mapping[str, Any]) -> str | list[Any]:
    if not has_content(record):
        raise ValueError(f"a {record['type']} record without message content")
    content: str | list[Any] = record["message"]["content"]
    return content
