"""Gemini CLI sessions: one object a file (until 2026), then JSON Lines that patch each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trajstore.importers.building import StepBuilder, moment
from trajstore.importers.gemini_cli_replay import Replay, is_header, is_message
from trajstore.importers.gemini_cli_steps import actor_of, add_message, typed
from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Step, Trajectory, digest, json_text_or_none, trajectory_id

FAMILY = "gemini-cli"


class GeminiCliImporter(Importer):
    """Reads Gemini CLI sessions.

    The file is rewritten or patched as the session grows, so the last word on each message counts.
    Identity is the session id; where the header is lost, the first message's id stands for it.
    Nobody judges a session: success is unknown.
    """

    name = "gemini-cli"
    title = "Gemini CLI sessions (one object, or JSON Lines with $set and $rewindTo)"
    reads = "messages, thoughts, tool calls and results, tokens; no outcome in the files"

    def detect(self, source: Source) -> float:
        """0.9 for a session with messages or the header of one."""
        values = source.sample
        patched = any(isinstance(v, Mapping) and v.keys() & {"$set", "$rewindTo"} for v in values)
        known = any(_opens(v) or (patched and is_message(v)) for v in values)
        return 0.9 if known else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """The session as one trajectory; unreadable records as problems."""
        del options
        replay = Replay()
        for record in source.records():
            if isinstance(record, Problem):
                yield record
                continue
            try:
                replay.add(record.value)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                yield self.problem(source, f"no {FAMILY} record: {error}", record)
        if not replay.messages:
            yield self.ignored(source, "no conversation: the session was opened and nothing said")
            return
        builder = StepBuilder()
        for message in replay.messages:
            try:
                add_message(builder, message)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                yield self.problem(source, f"message {message.get('id')}: {error}")
        yield _trajectory(replay, builder.steps(), source)


def _opens(value: Any) -> bool:
    """Whether a value is a session's object or header; Gemini's own field tells it from others."""
    return is_header(value) and "projectHash" in value and "type" not in value


def _trajectory(replay: Replay, steps: tuple[Step, ...], source: Source) -> Trajectory:
    header, messages = replay.header, replay.messages
    session = str(header.get("sessionId") or digest(messages[0].get("id"))[:32])
    models = Counter(s.model for s in steps if s.model)
    started, ended = moment(header.get("startTime")), moment(header.get("lastUpdated"))
    return Trajectory(
        trajectory_id=trajectory_id(FAMILY, session),
        task_id=f"{FAMILY}/{session}",
        source=FAMILY,
        source_uri=source.uri,
        goal=_goal(messages),
        agent=FAMILY,
        model=models.most_common(1)[0][0] if models else None,
        started_at=started,
        ended_at=ended,
        duration_s=(ended - started).total_seconds() if started and ended else None,
        metadata=json_text_or_none(header),
        steps=steps,
        **_parent(header, source),
        **_ending(messages),
    )


def _goal(messages: list[Mapping[str, Any]]) -> str | None:
    """What the user typed first."""
    texts = (typed(m) for m in messages if m["type"] == "user")
    return next((t for t in texts if (t or "").strip() and actor_of(t) == "user"), None)


def _ending(messages: list[Mapping[str, Any]]) -> dict[str, Any]:
    """An error where the session ends with one; how else it ended is not said."""
    last = next((m for m in reversed(messages) if m["type"] not in {"info", "warning"}), None)
    if last is None or last["type"] != "error":
        return {}
    return {"status": "error", "error": typed(last)}


def _parent(header: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """A sub-agent's file lies in a folder named by its parent's session."""
    folder = source.path.parent.name
    if header.get("kind") != "subagent" or folder in {"", "chats"}:
        return {}
    return {"parent_id": trajectory_id(FAMILY, folder), "relation": "sub-agent"}


IMPORTER = GeminiCliImporter()
"""The importer of this module."""
