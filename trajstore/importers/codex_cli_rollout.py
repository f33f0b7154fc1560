"""A Codex rollout (all versions) to one trajectory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from trajstore.importers.building import Draft, moment, parts_of, text_of
from trajstore.importers.cli_values import name_in, text_in
from trajstore.importers.codex_cli_events import Ended, ended_of, is_noise, said_of
from trajstore.importers.codex_cli_items import (
    Line,
    actor_of,
    call_of,
    reasoning_of,
    result_of,
    tokens_of,
)
from trajstore.importers.codex_cli_lineage import FAMILY, Clock, Usage, is_fork, lineage
from trajstore.importers.codex_cli_turns import Turns, note
from trajstore.schema import Trajectory, digest, json_text, json_text_or_none, trajectory_id

_ITEM_FIELDS = frozenset(
    {
        "arguments",
        "call_id",
        "content",
        "input",
        "name",
        "output",
        "role",
        "status",
        "summary",
        "type",
    }
)


class _Said(NamedTuple):
    """Words that an event repeats; they count only where no item says them."""

    who: str
    text: str
    event: str
    time: datetime | None
    at: int


class Rollout:
    """Builds the trajectory of one rollout, line by line."""

    def __init__(self) -> None:
        """Start empty."""
        self.turns = Turns()
        self.meta: Mapping[str, Any] | None = None
        self._ancestors: list[Mapping[str, Any]] = []
        self._clock = Clock()
        self._usage = Usage()
        self._kinds: set[str] = set()
        self._said: list[_Said] = []
        self._ended: dict[str, Ended] = {}
        self._contexts: list[dict[str, Any]] = []
        self._context: dict[str, Any] = {}
        self._records: list[dict[str, Any]] = []
        self._counted: Counter[str] = Counter()
        self._rate_limits: Any = None
        self._ending: dict[str, Any] = {}
        self._copied = 0

    def add(self, line: Line) -> None:
        """Take in one line."""
        time = moment(line.timestamp)
        if self._clock.tick(time) and self._copied:
            self.turns.close()
        payload = line.payload
        if line.kind == "session_meta":
            self._session(payload, time)
        elif line.kind == "turn_context":
            self._turn(payload)
        elif line.kind == "response_item":
            self._item(payload, time)
        elif line.kind == "event_msg":
            self._event(payload, time)
        elif line.kind == "compacted":
            self._compacted(payload, time)
        elif line.kind != "state":
            self._records.append({"type": line.kind, "payload": dict(payload)})

    def _compacted(self, payload: Mapping[str, Any], time: datetime | None) -> None:
        self._kinds.add("compaction")
        draft = self.turns.step("environment", text_in(payload, "message") or None, timestamp=time)
        kept = {k: v for k, v in payload.items() if k not in {"message", "replacement_history"}}
        replaced = payload.get("replacement_history")
        items = len(replaced) if isinstance(replaced, list) else None
        note(draft, event="compacted", replacement_items=items, **kept)

    def _session(self, payload: Mapping[str, Any], time: datetime | None) -> None:
        """The first session data owns the identity; before any step, others are ancestors'."""
        if self.meta is not None:
            if any(d.actor == "agent" for d in self.turns.drafts):
                self._records.append({"type": "session_meta", "payload": dict(payload)})
            elif payload.get("id") != self.meta.get("id"):
                self._ancestors.append(payload)
            return
        self.meta = payload
        base = payload.get("base_instructions")
        text = base.get("text") if isinstance(base, Mapping) else base
        if isinstance(text, str):
            note(self.turns.step("system", text, timestamp=time), event="base_instructions")

    def _turn(self, payload: Mapping[str, Any]) -> None:
        context = {k: v for k, v in payload.items() if k != "turn_id"}
        if context not in self._contexts:
            self._contexts.append(context)
        self._context = context

    def _call_values(self, time: datetime | None) -> dict[str, Any]:
        effort = self._context.get("effort")
        return {
            "timestamp": time,
            "model": name_in(self._context, "model"),
            "sampling": json_text({"reasoning_effort": effort}) if effort else None,
        }

    def _item(self, item: Mapping[str, Any], time: datetime | None) -> None:
        kind = str(item.get("type"))
        call, result = call_of(item), result_of(item)
        if kind == "message":
            self._message(item, time)
        elif kind == "reasoning":
            self._kinds.add("reasoning")
            draft = self.turns.agent(**self._call_values(time))
            draft.add_reasoning(reasoning_of(item))
            if item.get("encrypted_content"):
                note(draft).setdefault("encrypted_reasoning", []).append(item["encrypted_content"])
        elif call is not None:
            draft = self.turns.call(call, **self._call_values(time))
            left = {k: v for k, v in item.items() if k not in _ITEM_FIELDS and v is not None}
            if kind != "function_call" or left.keys() - {"id"}:
                left.pop("result", None)
                note(draft).setdefault("calls", {})[call.call_id or ""] = {"type": kind, **left}
        elif result is None:
            self._other(kind, item, time)
        if result is not None:
            self.turns.result(result)
        if call is not None or result is not None:
            self._evidence()

    def _message(self, item: Mapping[str, Any], time: datetime | None) -> None:
        content = item.get("content")
        text = text_of(content)
        actor = actor_of(item.get("role"), text)
        self._kinds.add("agent" if actor == "agent" else str(item.get("role")))
        left = {k: v for k, v in item.items() if k not in _ITEM_FIELDS}
        if actor == "agent":
            draft = self.turns.agent(**self._call_values(time))
            draft.add_text(text)
            parts = parts_of(content)
            if parts is not None:
                draft.values["content"] = parts
            self._evidence()
        else:
            draft = self.turns.step(actor, text, content=parts_of(content), timestamp=time)
        note(draft, **left)

    def _other(self, kind: str, item: Mapping[str, Any], time: datetime | None) -> None:
        """A message between agents is an event; items without words are kept as they are."""
        text = text_of(item.get("content")) if kind == "agent_message" else None
        if text is None:
            self._records.append(dict(item))
            return
        draft = self.turns.step("environment", text, timestamp=time)
        note(draft, event=kind, author=item.get("author"), recipient=item.get("recipient"))

    def _evidence(self) -> None:
        """Note that the agent acted; inside the opening burst of a fork it was the ancestor."""
        if self._clock.burst and is_fork(self.meta or {}, self._ancestors):
            self._copied = len(self.turns.drafts)
            self._usage.mark_copied()

    def _event(self, payload: Mapping[str, Any], time: datetime | None) -> None:
        kind = str(payload.get("type"))
        said, ended = said_of(payload), ended_of(payload)
        if kind == "token_count":
            self._tokens(payload)
        elif said is not None:
            self._said.append(_Said(*said, kind, time, len(self.turns.drafts)))
        elif ended is not None:
            self._ended.setdefault(ended.call_id, ended)
        elif kind in _ENDINGS:
            self._end(kind, payload, time)
        elif is_noise(kind):
            self._counted[kind] += 1
        else:
            self._records.append(dict(payload))

    def _tokens(self, payload: Mapping[str, Any]) -> None:
        """A count that moved ends a model call; its tokens go to the step before it."""
        self._rate_limits = payload.get("rate_limits") or self._rate_limits
        used = self._usage.count(payload.get("info"))
        if used is None:
            return
        draft = next((d for d in reversed(self.turns.drafts) if d.actor == "agent"), None)
        if draft is not None and "completion_tokens" not in draft.values:
            draft.values.update(used)
        self.turns.close()
        self._evidence()

    def _end(self, kind: str, payload: Mapping[str, Any], time: datetime | None) -> None:
        """Keep how the latest turn ended; errors and aborted turns are events too."""
        error = payload.get("error")
        text = text_in(payload, "message")
        if text is None and isinstance(error, Mapping):
            text = text_in(error, "message")
        kept = {k: v for k, v in payload.items() if k not in {"last_agent_message", "message"}}
        self._ending = {"status": _ENDINGS[kind], "termination_reason": kind}
        if kind == "error" or (kind == "task_complete" and error):
            self._ending |= {"status": "error", "error": text}
        elif kind in {"task_started", "task_complete"}:
            self._ending = self._ending if kind == "task_complete" else {}
            self._records.append(kept)
            return
        elif kind == "turn_aborted":
            self._ending["termination_reason"] = name_in(payload, "reason")
        elif kind == "turn.completed":
            self._usage.reach(tokens_of(payload.get("usage")))
        draft = self.turns.step("environment", text, timestamp=time)
        note(draft, event=kind, **{k: v for k, v in kept.items() if k != "type"})

    def trajectory(self, uri: str) -> Trajectory | None:
        """The trajectory, or None where nothing was said and no turn ended."""
        self._settle()
        if not any(_tells(d) for d in self.turns.drafts):
            return None
        meta = self.meta or {}
        session = str(meta.get("id") or meta.get("session_id") or self._opening())
        started, ended = moment(meta.get("timestamp")) or self._clock.first, self._clock.last
        models = Counter(d.values["model"] for d in self.turns.drafts if d.values.get("model"))
        model = models.most_common(1)[0][0] if models else name_in(self._context, "model")
        tools = meta.get("dynamic_tools")
        return Trajectory(
            trajectory_id=trajectory_id(FAMILY, session),
            task_id=f"{FAMILY}/{session}",
            source=FAMILY,
            source_uri=uri,
            goal=self._goal(),
            agent=FAMILY,
            model=model,
            tools=json_text_or_none(tools),
            started_at=started,
            ended_at=ended,
            duration_s=(ended - started).total_seconds() if started and ended else None,
            metadata=json_text_or_none(self._metadata()),
            steps=self.turns.steps(),
            **lineage(meta, self._ancestors),
            **self._usage.own(),
            **self._ending,
        )

    def _opening(self) -> str:
        first = self.turns.drafts[0]
        return digest(first.actor, first.text, str(first.values.get("timestamp")))[:32]

    def _goal(self) -> str | None:
        """What the user typed first: as the screen shows it, else the first message."""
        typed = [s.text for s in self._said if s.who == "user" and s.at >= self._copied]
        shown = (t for t in typed if t.strip() and actor_of("user", t) == "user")
        said = [d for d in self.turns.drafts if d.actor == "user" and (d.text or "").strip()]
        own = (d.text for d in said if not d.values.get("is_copied"))
        return next(shown, None) or next(own, None) or (said[0].text if said else None)

    def _settle(self) -> None:
        """Bring in what only events say, and mark what a fork copied."""
        for call_id, ended in self._ended.items():
            if self.turns.knows(call_id):
                self.turns.settle(ended.observation(), ended.notes)
            else:
                self._records.append(ended.record())
        for draft in self.turns.drafts[: self._copied]:
            if note(draft).get("event") != "base_instructions":
                draft.values["is_copied"] = True
        first_event = {s.who: s.event for s in reversed(self._said)}
        for said in reversed(self._said):
            if said.who not in self._kinds and said.event == first_event[said.who]:
                self.turns.drafts.insert(said.at, _spoken(said, copied=said.at < self._copied))

    def _metadata(self) -> dict[str, Any]:
        meta = {k: v for k, v in (self.meta or {}).items() if k != "base_instructions"}
        found = {
            "session": meta,
            "ancestors": [a.get("id") for a in self._ancestors],
            "turn_contexts": self._contexts,
            "rate_limits": self._rate_limits,
            "records": self._records,
            "records_not_kept": dict(self._counted),
        }
        return {k: v for k, v in found.items() if v}


_ENDINGS: Mapping[str, str | None] = {
    "task_started": None,
    "task_complete": "terminated",
    "turn.completed": "terminated",
    "turn_aborted": "truncated",
    "error": "error",
}


def _tells(draft: Draft) -> bool:
    """Whether a step is more than a system prompt."""
    return draft.actor in {"user", "agent"} or "event" in (draft.values.get("metadata") or {})


def _spoken(said: _Said, *, copied: bool) -> Draft:
    """The step of words that only an event has."""
    draft = Draft("environment", values={"timestamp": said.time})
    if copied:
        draft.values["is_copied"] = True
    note(draft, event=said.event)
    if said.who == "reasoning":
        draft.actor = "agent"
        draft.add_reasoning(said.text)
    else:
        draft.text = said.text or None
        draft.actor = "agent" if said.who == "agent" else actor_of(said.who, said.text)
    return draft
