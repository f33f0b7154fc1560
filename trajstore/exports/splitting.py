"""Runs whose context was condensed on the way, as the stretches that the model saw.

When a context grows too long, an agent replaces old steps by a summary. The log keeps every step,
so a run read from top to bottom is a prompt that no model call ever had. Here such a run becomes
windows: what was in the context up to a condensation, then the context that the condensation left,
and so on. A step that an earlier window has already is context in a later one, not trained on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trajstore.schema import Step, Trajectory

_SIGNS = ("ompact", "ondensation", "context_management")


class UnclearCondensationError(ValueError):
    """A condensation after which nobody can tell what the model saw."""


def context_windows(trajectory: Trajectory) -> list[Trajectory]:
    """The run as one trajectory for each context that the model saw, in order.

    Read are condensations as these sources tell them:

    * Claude Code: the system messages, then the summary, as a user message.
    * OpenHands (V0 and SDK): what was not forgotten, with the summary as a user message at its
      place.
    * ATIF: the steps behind a boundary that replaces the context are the whole new context.

    Args:
        trajectory: a run. Its other columns stand in every window.

    Returns:
        The run alone where nothing was condensed.

    Raises:
        UnclearCondensationError: a condensation does not say what the model saw after it; the
            message names its step.
    """
    view = _View()
    windows: list[tuple[Step, ...]] = []
    for index, step in enumerate(trajectory.steps):
        told = _condensation(step)
        if told is None:
            view.add(step)
        elif told.is_boundary:
            view.wait(index)
        else:
            if view.has_new_turns:
                windows.append(view.steps())
            view = told.applied(view, step, index)
    if view.waits_since is not None:
        raise _unclear(view.waits_since, "its summary is not recorded")
    if not windows:
        return [trajectory]
    if view.has_new_turns:
        windows.append(view.steps())
    # Where a user speaks, the goal is no message, even in a window that the user is not in.
    spoken = any(step.actor == "user" for step in trajectory.steps)
    goal = None if spoken else trajectory.goal
    return [replace(trajectory, steps=steps, goal=goal) for steps in windows]


@dataclass(slots=True)
class _Seen:
    """A step in the context."""

    step: Step
    events: tuple[Any, ...] = ()
    """Ids of the source's events that it is made of."""
    is_summary: bool = False


@dataclass(slots=True)
class _View:
    """The context of the model at one moment."""

    seen: list[_Seen] = field(default_factory=list)
    has_new_turns: bool = False
    """Whether the agent has said something since the last condensation."""
    waits_since: int | None = None
    """Step of a boundary whose summary has not come yet."""

    def add(self, step: Step) -> None:
        self.seen.append(_Seen(step, _event_ids(step)))
        new = step.actor == "agent" and not step.is_copied
        if new and self.waits_since is not None:
            raise _unclear(self.waits_since, "its summary is not recorded")
        self.has_new_turns |= new

    def wait(self, index: int) -> None:
        self.waits_since = index

    def steps(self) -> tuple[Step, ...]:
        return tuple(seen.step for seen in self.seen)

    def as_context(self) -> list[_Seen]:
        """What is there, none of it to be trained on again, without earlier summaries."""
        return [
            _Seen(replace(s.step, is_copied=True), s.events) for s in self.seen if not s.is_summary
        ]


@dataclass(frozen=True, slots=True)
class _Condensation:
    """What a step says about the context after it."""

    is_boundary: bool = False
    """It only says that a summary follows."""
    replaces: bool = False
    """The steps behind it are the whole new context."""
    forgotten: frozenset[Any] | None = None
    """Ids of the events that go; None for all but the system messages."""
    offset: int | None = None
    """How many events stand before the summary."""
    unclear: str | None = None
    """Why nobody can tell what the context is."""

    def applied(self, view: _View, step: Step, index: int) -> _View:
        if self.unclear is not None:
            raise _unclear(index, self.unclear)
        if self.replaces:
            return _View()
        kept = self._kept(view.as_context(), index)
        if step.text:
            summary = _Seen(replace(step, actor="user"), is_summary=True)
            kept.insert(self._place(kept), summary)
        elif self.forgotten is None:
            raise _unclear(index, "its summary is empty")
        return _View(kept)

    def _kept(self, context: list[_Seen], index: int) -> list[_Seen]:
        if self.forgotten is None:
            head = next((i for i, s in enumerate(context) if s.step.actor != "system"), None)
            return context[:head]
        kept = [s for s in context if not (s.events and s.events[0] in self.forgotten)]
        if self.forgotten and len(kept) == len(context):
            raise _unclear(index, "none of the events that it forgets is known")
        return kept

    def _place(self, kept: Sequence[_Seen]) -> int:
        """Before which step the summary stands: behind ``offset`` events, else behind the head."""
        if self.offset is None:
            return next((i for i, s in enumerate(kept) if s.step.actor == "agent"), len(kept))
        before = 0
        for place, seen in enumerate(kept):
            if before >= self.offset:
                return place
            before += max(1, len(seen.events))
        return len(kept)


def _unclear(index: int, why: str) -> UnclearCondensationError:
    return UnclearCondensationError(f"the condensation at step {index} cannot be followed: {why}")


def _condensation(step: Step) -> _Condensation | None:
    """What a step says about the context; None for any step that is no condensation."""
    noted = step.metadata
    if step.actor != "environment" or not noted or not any(sign in noted for sign in _SIGNS):
        return None
    told = _object(noted)
    if told.get("isCompactSummary"):
        return _Condensation()
    if told.get("subtype") == "compact_boundary":
        return _Condensation(is_boundary=True)
    if told.get("event") == "compacted":
        return _Condensation(unclear="Codex does not say which messages stay")
    if told.get("type") in {"compaction", "context.apply_compaction"}:
        return _Condensation(unclear="the source does not say which messages stay")
    for extra in (told, told.get("extra")):
        managed = extra.get("context_management") if isinstance(extra, Mapping) else None
        if isinstance(managed, Mapping) and managed.get("type") == "compaction":
            return _managed(managed)
    for event in _events(told):
        if event.get("action") == "condensation" or event.get("kind") == "Condensation":
            return _forgetting(event)
    return None


def _managed(managed: Mapping[str, Any]) -> _Condensation:
    boundary = managed.get("boundary")
    if boundary == "replace":
        return _Condensation(replaces=True)
    return _Condensation(unclear=f"its boundary is {boundary!r}, not 'replace'")


def _forgetting(event: Mapping[str, Any]) -> _Condensation:
    """OpenHands: ids of forgotten events, as a list or (V0) as a first and a last one."""
    ids = event.get("forgotten_event_ids")
    first, last = event.get("forgotten_events_start_id"), event.get("forgotten_events_end_id")
    if isinstance(first, int) and isinstance(last, int):
        ids = range(first, last + 1)
    if not isinstance(ids, Iterable):
        return _Condensation(unclear="it does not say what is forgotten")
    offset = event.get("summary_offset")
    return _Condensation(forgotten=frozenset(ids), offset=offset if _is_count(offset) else None)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _event_ids(step: Step) -> tuple[Any, ...]:
    if not step.metadata or '"events"' not in step.metadata:
        return ()
    return tuple(e["id"] for e in _events(_object(step.metadata)) if e.get("id") is not None)


def _events(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    events = told.get("events")
    return [e for e in events if isinstance(e, Mapping)] if isinstance(events, list) else []


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}
