"""OpenHands SDK (V1): conversation folders, event streams and LLM completion logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from trajstore.importers.importer import Importer, uri
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.openhands_llm_logs import CompletionLogs, is_completion_log
from trajstore.importers.openhands_sdk_events import Conversation, is_sdk_event
from trajstore.importers.openhands_sdk_runs import from_conversation
from trajstore.importers.source import Record, Source

_EVENT_FILE = re.compile(r"event-(\d+)-.+\.json")
_LOG_FILE = re.compile(r".+-\d{9,}\.\d+(?:-[\w-]+)?\.json")
_STATE_FILE = "base_state.json"


class OpenHandsSdkImporter(Importer):
    """Reads conversations of the OpenHands SDK and the logs of its model calls.

    A conversation is known by its id, which the base state and the full-state event hold; a stream
    without either by the id of its first event that is not a mere report. Logs of model calls name
    no run and are told apart by their first answer, so a run that is kept both as events and as
    logs is two trajectories.
    """

    name: ClassVar[str] = "openhands-sdk"
    title: ClassVar[str] = (
        "OpenHands SDK conversations (folders, event streams) and completion logs"
    )
    reads: ClassVar[str] = (
        "events by kind, tokens from the state's statistics; the longest completion log of a run; "
        "there is no outcome in it"
    )

    def detect(self, source: Source) -> float:
        """0.9 for a conversation, a stream or a log; 0.7 for a single event file."""
        if source.shape == "folder":
            names = {path.name for path in source.files}
            return 0.9 if _STATE_FILE in names or any(map(_is_ours, names)) else 0.0
        if source.shape not in {"object", "array", "lines"}:
            return 0.0
        first = source.first
        if source.shape != "object":
            known = bool(source.sample) and all(map(is_sdk_event, source.sample))
            return 0.9 if known or is_completion_log(first) else 0.0
        if is_completion_log(first) or _is_state(first):
            return 0.9
        return 0.7 if is_sdk_event(first) else 0.0

    def claims(self, folder: Path, names: frozenset[str]) -> Iterable[tuple[str, ...]]:
        """A conversation (state and events), and all completion logs that lie in one folder."""
        if "events" in names:
            events = sorted(n for n in _names(folder / "events") if _EVENT_FILE.fullmatch(n))
            if events and is_sdk_event(_load(folder / "events" / events[0])):
                state = (_STATE_FILE,) if _STATE_FILE in names else ()
                yield (*state, *(f"events/{name}" for name in events))
        logs = sorted(n for n in names if _LOG_FILE.fullmatch(n))
        if logs and is_completion_log(_load(folder / logs[0])):
            yield tuple(logs)

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """One trajectory a conversation, one a run of completion logs."""
        first = None if source.shape == "folder" else source.first
        if source.shape == "object" and _is_state(first):
            yield self.ignored(source, "state of a conversation; its events are not beside it")
        elif source.shape == "object" and is_sdk_event(first):
            reason = (
                "one event of a conversation: import the folder that holds 'base_state.json' and "
                "'events', so that all events of the run are read together"
            )
            yield self.ignored(source, reason)
        elif is_completion_log(first) or _holds_logs(source):
            yield from self._logs(source)
        else:
            yield from super().read(_Events(source), options)

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """The conversation, from its state and events together."""
        del options
        conversation = Conversation(state=dict(record.value["state"]))
        run = from_conversation(conversation.read(record.value["events"]))
        return [replace(run, source_uri=source.uri)]

    def _logs(self, source: Source) -> Iterator[Item]:
        logs = CompletionLogs()
        for place, record in _log_records(source):
            if isinstance(record, Problem):
                yield record
            elif not is_completion_log(record.value):
                reason = "no log of a model call: 'messages' or 'response' is missing"
                yield self.problem(place, reason, record)
            else:
                try:
                    logs.add(record.value, uri(place, record))
                except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                    yield self.problem(place, f"not a completion log: {error}", record)
        for run in logs.trajectories():
            try:
                yield run
            except TypeError as error:
                yield Problem(source=run.source_uri or source.uri, reason=str(error))


def _is_ours(name: str) -> bool:
    return bool(_EVENT_FILE.fullmatch(name) or _LOG_FILE.fullmatch(name))


def _is_state(value: Any) -> bool:
    """Whether a value is the ``base_state.json`` of a conversation."""
    return (
        isinstance(value, dict)
        and {"id", "agent", "workspace"} <= value.keys()
        and bool(value.keys() & {"execution_status", "agent_status", "stats", "persistence_dir"})
    )


def _holds_logs(source: Source) -> bool:
    return source.shape == "folder" and bool(_LOG_FILE.fullmatch(source.files[0].name))


def _log_records(source: Source) -> Iterator[tuple[Source, Record | Problem]]:
    """Each log with the file that it is from."""
    files = [Source(path) for path in source.files] or [source]
    for file in files:
        for record in file.records():
            yield file, record


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


class _Events(Source):
    """A conversation as one record: its state and its events in order."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.path, uri=source.uri, files=source.files)

    def records(self, *, array_is_one: bool = False) -> Iterator[Record | Problem]:
        """Problems of single events first, then the conversation."""
        del array_is_one
        events: list[Any] = []
        state: dict[str, Any] = {}
        pieces = self._files() if self.files else super().records()
        for piece in pieces:
            if isinstance(piece, Problem):
                yield piece
            elif is_sdk_event(piece.value):
                events.append(piece.value)
            elif _is_state(piece.value):
                state = piece.value
            else:
                reason = "not an event of the SDK; the rest of its conversation is read without it"
                where = None if piece.line is not None else str(piece.index)
                yield Problem(source=self.uri, reason=reason, line=piece.line, record=where)
        yield Record({"events": events, "state": state}, 0)

    def _files(self) -> Iterator[Record | Problem]:
        for index, path in enumerate(self.files):
            value = _load(path)
            if value is None:
                reason = "not JSON; the rest of its conversation is read without it"
                yield Problem(source=path.as_posix(), reason=reason)
            else:
                yield Record(value, index)


IMPORTER = OpenHandsSdkImporter()
"""The importer that the registry loads."""
