"""Codex CLI: rollout files of all versions, and the stream of ``codex exec --json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajstore.importers.codex_cli_items import is_line, is_whole, line_of
from trajstore.importers.codex_cli_lineage import FAMILY
from trajstore.importers.codex_cli_rollout import Rollout
from trajstore.importers.codex_cli_stream import Stream, is_event
from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source


class CodexCliImporter(Importer):
    """Reads Codex sessions.

    What the model said and did comes from the items; events only fill in what no item says, and
    how calls ended. Totals are the highest count of the session, never a sum of counts. Identity
    is the session id of the first line that has one; a copy of an ancestor's history is marked
    ``is_copied`` and its tokens are taken off. Nobody judges a session: success is unknown.
    """

    name = "codex-cli"
    title = "Codex CLI rollouts (all versions) and codex exec --json streams"
    reads = "messages, reasoning summaries, tool calls and results, tokens; no outcome in the files"

    def detect(self, source: Source) -> float:
        """0.9 for lines of a rollout or events of the stream."""
        known = any(is_line(v) or is_whole(v) or is_event(v) for v in source.sample)
        return 0.9 if known else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """The session as one trajectory; unreadable lines as problems."""
        del options
        session: Rollout | Stream | None = None
        for record in source.records():
            if isinstance(record, Problem):
                yield record
                continue
            for value in _unfolded(record.value):
                try:
                    session = session or (Stream() if is_event(value) else Rollout())
                    if isinstance(session, Stream):
                        session.add(value)
                    else:
                        session.add(line_of(value))
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    yield self.problem(source, f"no {FAMILY} record: {error}", record)
        trajectory = session.trajectory(source.uri) if session is not None else None
        if trajectory is None:
            yield self.ignored(source, "no conversation: the session was opened and nothing said")
        else:
            yield trajectory


def _unfolded(value: Any) -> Iterator[Any]:
    """The lines of one JSON value: those of the oldest, whole form, else itself."""
    if is_whole(value):
        yield {"type": "session_meta", "payload": value["session"]}
        yield from value["items"]
    else:
        yield value


IMPORTER = CodexCliImporter()
"""The importer of this module."""
