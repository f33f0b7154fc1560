"""Sessions of smaller command-line agents: Pi, OpenClaw, Qwen Code, Copilot, Kimi, Hermes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.other_cli_agents import HermesSession, PiSession, QwenSession
from trajstore.importers.other_cli_events import CopilotSession, KimiSession
from trajstore.importers.other_cli_session import FAMILY, CliSession
from trajstore.importers.source import Source

_AGENTS: tuple[type[CliSession], ...] = (
    PiSession,
    QwenSession,
    CopilotSession,
    KimiSession,
    HermesSession,
)


class OtherCliImporter(Importer):
    """Reads what is understood of these sessions and keeps the rest as bookkeeping records.

    Identity is the agent and its session id. Nobody judges a session: success is unknown.
    """

    name = FAMILY
    title = "Sessions of Pi, OpenClaw, Qwen Code, GitHub Copilot CLI, Kimi Code and Hermes"
    reads = "messages, reasoning, tool calls and results, tokens where counted; no outcome"

    def detect(self, source: Source) -> float:
        """0.9 for records of one of the agents."""
        return 0.9 if _agent(source.sample) is not None else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """The session, with its sub-agents; unreadable records as problems."""
        del options
        kind = _agent(source.sample)
        if kind is None:
            yield self.problem(source, "no record of a known command-line agent among the first")
            return
        session = kind()
        for record in source.records():
            if isinstance(record, Problem):
                yield record
                continue
            try:
                session.add(_object(record.value))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                yield self.problem(source, f"no {session.agent} record: {error}", record)
        found = list(session.trajectories(source.uri))
        yield from found
        if not found:
            yield self.ignored(source, "no conversation: the session was opened and nothing said")


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"a JSON object was expected, not {type(value).__name__}")
    return value


def _agent(values: list[Any]) -> type[CliSession] | None:
    records = [v for v in values if isinstance(v, Mapping)]
    return next((a for a in _AGENTS if any(a.opens(r) for r in records)), None)


IMPORTER = OtherCliImporter()
"""The importer of this module."""
