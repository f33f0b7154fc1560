"""A Claude Code file (or a session's files) to trajectories: which record is whose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trajstore.importers.building import Draft, number
from trajstore.importers.claude_code_records import session_of, usage_of
from trajstore.importers.claude_code_threads import Thread
from trajstore.importers.cli_values import name_in
from trajstore.schema import (
    Trajectory,
    digest,
    json_text_or_none,
    trajectory_id,
)

FAMILY = "claude-code"
"""Family of all renderings of a session: files, web form, stream."""

_STOPPED = {"end_turn": "terminated", "stop_sequence": "terminated", "max_tokens": "truncated"}


class Transcript:
    """Sorts records into threads: one a session, and one a sub-agent."""

    def __init__(self, uri: str, copied: Mapping[str, str] | None = None) -> None:
        """Start empty.

        Args:
            uri: the file that the session's own records come from.
            copied: id of a record -> the session that it was copied from.
        """
        self.uri = uri
        self._copied = copied or {}
        self.uris: dict[int, str] = {}
        self.threads: dict[tuple[str | None, str | None], Thread] = {}
        self.notes: dict[str, Mapping[str, Any]] = {}
        """Sub-agent id -> what the ``.meta.json`` beside its file says."""
        self.parent_session: str | None = None
        """Session that a sub-agent's file belongs to by its place, where its records do not say."""
        self._session: str | None = None
        self._owner: dict[str, Thread] = {}

    def add(self, record: Any, uri: str | None = None) -> None:
        """Take in one record.

        Raises:
            TypeError: it is no object, or has no type.
            ValueError: it is a message without content.
        """
        if not isinstance(record, Mapping):
            raise TypeError(f"a JSON object was expected, not {type(record).__name__}")
        self._session = session_of(record) or self._session
        thread = self._thread(record)
        self.uris.setdefault(id(thread), uri or self.uri)
        uuid = record.get("uuid")
        if isinstance(uuid, str):
            self._owner.setdefault(uuid, thread)
        thread.add(record)

    def _thread(self, record: Mapping[str, Any]) -> Thread:
        parent = self._owner.get(str(record.get("parentUuid")))
        if record.get("isSidechain") or record.get("parent_tool_use_id"):
            return self._side(record, parent)
        thread = self._named(None)
        fresh = not thread.builder.drafts and thread.parent is None
        if fresh and parent is not None and parent is not thread and parent.agent is None:
            thread.inherit(parent)
        return thread

    def _side(self, record: Mapping[str, Any], parent: Thread | None) -> Thread:
        """The sub-agent's thread: by its id, else by following ``parentUuid``, else the latest."""
        agent = record.get("agentId") or record.get("parent_tool_use_id")
        if agent:
            return self._named(str(agent))
        if parent is not None and parent.agent is not None:
            return parent
        running = [t for (s, a), t in self.threads.items() if s == self._session and a]
        if parent is None and record.get("parentUuid") is not None and running:
            return running[-1]
        return self._named(str(record.get("uuid") or len(self.threads)))

    def _named(self, agent: str | None) -> Thread:
        key = (self._session, agent)
        if key not in self.threads:
            self.threads[key] = Thread(*key, copied=self._copied)
        return self.threads[key]

    def trajectories(self) -> Iterator[Trajectory]:
        """The trajectories, main conversations before their sub-agents' as the file has them."""
        for thread in self.threads.values():
            _close(thread)
        kept = [t for t in self.threads.values() if _spoken(t)]
        if kept:
            for thread in self.threads.values():
                if thread not in kept:
                    kept[0].records.extend(thread.records)
                    kept[0].counted.update(thread.counted)
        for thread in kept:
            yield self._trajectory(thread)

    def _trajectory(self, thread: Thread) -> Trajectory:
        key, task = _key(thread), thread.session or _key(thread)
        parent = self._parent(thread)
        started, ended = (thread.times[0], thread.times[-1]) if thread.times else (None, None)
        values = {
            "duration_s": (ended - started).total_seconds() if started and ended else None,
            **_ending(thread),
            **_totals(thread),
            **parent,
        }
        metadata = self._metadata(thread)
        for draft in thread.builder.drafts:
            draft.values["metadata"] = json_text_or_none(draft.values.get("metadata"))
        return Trajectory(
            trajectory_id=trajectory_id(FAMILY, key),
            task_id=f"{FAMILY}/{task if thread.agent is None else key}",
            source=FAMILY,
            source_uri=self.uris[id(thread)],
            steps=thread.builder.steps(),
            goal=thread.goal(),
            agent=FAMILY,
            model=thread.model(),
            started_at=started,
            ended_at=ended,
            metadata=json_text_or_none(metadata),
            **values,
        )

    def _parent(self, thread: Thread) -> dict[str, Any]:
        """Parent columns: the session of a sub-agent, or the one that history is copied from."""
        if thread.agent is None:
            if thread.parent is None:
                return {}
            relation = "branch" if thread.forked else "continuation"
            return {"parent_id": trajectory_id(FAMILY, thread.parent), "relation": relation}
        notes = self.notes.get(thread.agent, {})
        above = self.threads.get((thread.session, notes.get("parentAgentId")))
        if above is None or not _spoken(above):
            above = next((t for t in self.threads.values() if t.agent is None and _spoken(t)), None)
        if above is not None:
            parent_id: str | None = trajectory_id(FAMILY, _key(above))
        else:
            session = thread.session
            if session in {None, f"agent-{thread.agent}"}:
                session = self.parent_session
            parent_id = trajectory_id(FAMILY, session) if session else None
        step = _started_by(above, thread, notes) if above is not None else None
        return {"parent_id": parent_id, "parent_step": step, "relation": "sub-agent"}

    def _metadata(self, thread: Thread) -> dict[str, Any]:
        result = {k: v for k, v in (thread.result or {}).items() if k not in {"type", "result"}}
        found = {
            "session_id": thread.session,
            "agent_id": thread.agent,
            "sub_agent": self.notes.get(thread.agent or ""),
            **thread.constants,
            "result": result,
            "records": thread.records,
            "records_not_kept": dict(thread.counted),
        }
        return {k: v for k, v in found.items() if v}


def _key(thread: Thread) -> str:
    """Identity: session id, with the sub-agent's behind a slash; the first step without one."""
    session = thread.session
    if session is None:
        first = thread.builder.drafts[0]
        session = digest(first.actor, first.text, str(first.values.get("timestamp")))[:32]
    return session if thread.agent is None else f"{session}/{thread.agent}"


def _spoken(thread: Thread) -> bool:
    return any(d.actor in {"user", "agent"} for d in thread.builder.drafts)


def _close(thread: Thread) -> None:
    """Give a run of which only the closing record is there its one known step."""
    if thread.result is None or any(d.actor == "agent" for d in thread.builder.drafts):
        return
    text = thread.result.get("result")
    if isinstance(text, str):
        thread.builder.add("agent", text)


def _totals(thread: Thread) -> dict[str, int | None]:
    """Run totals, only where no model call of its own says what it used."""
    if thread.result is None or any("prompt_tokens" in d.values for d in thread.builder.drafts):
        return {}
    return usage_of(thread.result.get("usage"))


def _ending(thread: Thread) -> dict[str, Any]:
    """How the run ended: by the closing record of a stream, else by the last thing said."""
    if thread.result is not None:
        return _result_ending(thread.result)
    last = next((d for d in reversed(thread.builder.drafts) if not _is_aside(d)), None)
    if last is None or last.actor == "user":
        return {}
    notes = last.values.get("metadata") or {}
    if last.actor == "environment":
        return {"status": "error", "error": last.text}
    reason = name_in(notes, "stop_reason")
    return {"status": _STOPPED.get(str(reason)), "termination_reason": reason}


def _is_aside(draft: Draft) -> bool:
    notes = draft.values.get("metadata") or {}
    return draft.actor == "environment" and not notes.get("isApiErrorMessage")


def _result_ending(result: Mapping[str, Any]) -> dict[str, Any]:
    subtype = str(result.get("subtype"))
    failed = bool(result.get("is_error")) or subtype == "error_during_execution"
    status = "truncated" if subtype.startswith("error_max") else "error" if failed else "terminated"
    milliseconds = number(result.get("duration_ms"))
    ending: dict[str, Any] = {
        "status": status,
        "termination_reason": subtype,
        "error": str(result.get("result") or result.get("errors") or "") or None
        if failed
        else None,
        "cost_usd": number(result.get("total_cost_usd")),
    }
    if milliseconds is not None:
        ending["duration_s"] = milliseconds / 1000
    return ending


def _started_by(above: Thread, thread: Thread, notes: Mapping[str, Any]) -> int | None:
    """The parent's step that started a sub-agent: by call id, by result, else by its prompt."""
    call_ids = {notes.get("toolUseId"), thread.agent}
    prompt = thread.goal()
    for index, draft in enumerate(above.builder.drafts):
        for call in draft.calls:
            if call.call_id is not None and call.call_id in call_ids:
                return index
    if thread.agent in above.agents:
        return above.agents[thread.agent]
    for index, draft in enumerate(above.builder.drafts):
        for call in draft.calls:
            asked = json_text_or_none({"prompt": prompt})
            if prompt and asked and asked[1:-1] in (call.arguments or ""):
                return index
    return None
