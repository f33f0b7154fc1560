"""Claude Code: session files with their sub-agents, the web form, and ``stream-json`` output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trajstore.importers.claude_code_records import is_record, is_web_form, unfolded
from trajstore.importers.claude_code_resumed import copied_records
from trajstore.importers.claude_code_transcript import FAMILY, Transcript
from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source

_CHECKPOINT = {"checkpoint_id", "session_id", "strategy"}
_NOTES = ".meta.json"


class ClaudeCodeImporter(Importer):
    """Reads Claude Code sessions.

    One model call (all lines that share a ``message.id``) is one agent step with all its blocks and
    its last usage. Identity is the session id, for a sub-agent the session id and the agent id; the
    web form has none, so its first step stands for it. History that a resumed or forked session
    copied from another one is marked ``is_copied``: as the records say it, and where the id of a
    record stands in an earlier session file of the same folder. Nobody judges a session: success
    is unknown.
    """

    name = "claude-code"
    title = "Claude Code sessions (JSONL, web form, stream-json), with sub-agents"
    reads = (
        "messages, thinking, tool calls and results, tokens, compaction; no outcome in the files"
    )

    def detect(self, source: Source) -> float:
        """0.9 for records of a session, 0.6 for the notes that lie beside one."""
        if source.shape == "folder":
            subagents = any(_below(source, file) == "subagents" for file in source.files)
            return 0.9 if subagents and self.detect(Source(source.files[0])) else 0.0
        if _companion(source) is not None:
            return 0.6
        if any(is_record(v) or is_web_form(v) for v in source.sample):
            return 0.9
        head = source.head
        inside = source.shape == "lines" and b'"isSidechain":' in head and b'"sessionId":' in head
        return 0.6 if inside else 0.0

    def claims(self, folder: Path, names: frozenset[str]) -> Iterable[tuple[str, ...]]:
        """A session file together with what lies in the folder of the same name."""
        for name in sorted(names):
            stem = name.removesuffix(".jsonl")
            if stem == name or stem not in names or not (folder / stem / "subagents").is_dir():
                continue
            inside = [
                file.relative_to(folder).as_posix()
                for part in ("subagents", "tool-results")
                for file in sorted((folder / stem / part).rglob("*"))
                if file.is_file()
            ]
            yield (name, *inside)

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """The session and its sub-agents, each a trajectory; unreadable lines as problems."""
        del options
        if source.shape != "folder":
            reason = _companion(source)
            if reason is not None:
                yield self.ignored(source, reason)
                return
        main = source.files[0] if source.files else source.path
        transcript = Transcript(source.uri, copied_records(main))
        for part in _parts(source, transcript):
            yield from self._take(part, transcript)
        found = list(transcript.trajectories())
        yield from found
        if not found:
            yield self.ignored(
                source, "no conversation: only records that Claude Code keeps itself"
            )
        kept = sum(_below(source, file) == "tool-results" for file in source.files)
        if kept:
            reason = f"{kept} tool outputs kept aside: the steps hold what the model saw of them"
            yield self.ignored(source, reason)

    def _take(self, part: Source, transcript: Transcript) -> Iterator[Problem]:
        for record in part.records():
            if isinstance(record, Problem):
                yield record
                continue
            for value in unfolded(record.value):
                try:
                    transcript.add(value, part.uri)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    yield self.problem(part, f"no {FAMILY} record: {error}", record)


def _parts(source: Source, transcript: Transcript) -> Iterator[Source]:
    """The record files of a source; the notes beside sub-agents' files go to the transcript."""
    files = source.files or (source.path,)
    for file in files:
        if file.name.endswith(_NOTES):
            _note(file, transcript)
    for file in files:
        if file.name.endswith(_NOTES) or _below(source, file) == "tool-results":
            continue
        if not source.files:
            notes = source.sibling(file.name.rsplit(".", 1)[0] + _NOTES)
            if notes is not None:
                _note(notes, transcript)
            if file.parent.name == "subagents":
                transcript.parent_session = file.parent.parent.name
            yield source
        else:
            yield Source(file)


def _below(source: Source, file: Path) -> str | None:
    """Name of the folder inside the session's folder that a file of a group lies in."""
    parts = file.relative_to(source.path).parts if source.files else ()
    return parts[1] if len(parts) > 2 else None


def _note(file: Path, transcript: Transcript) -> None:
    value = Source(file).first
    if isinstance(value, Mapping):
        transcript.notes[file.name.removesuffix(_NOTES).removeprefix("agent-")] = value


def _companion(source: Source) -> str | None:
    """Why a file beside a session is not a session, or None where it is no such file."""
    if source.shape not in {"object", "lines"} or len(source.sample) != 1:
        return None
    value: Any = source.first
    if not isinstance(value, Mapping):
        return None
    if value.keys() >= _CHECKPOINT:
        return f"checkpoint of session {json.dumps(value['session_id'])}: the session has its steps"
    if isinstance(value.get("agentType"), str) and "messages" not in value and "type" not in value:
        return "notes on a sub-agent: they go into the metadata of its trajectory"
    return None


IMPORTER = ClaudeCodeImporter()
"""The importer of this module."""
