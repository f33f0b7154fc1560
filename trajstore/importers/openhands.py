"""OpenHands V0: exported event streams, stored sessions, evaluation and resolver outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from trajstore.importers import swe_bench
from trajstore.importers.importer import Importer, uri
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.openhands_events import is_event
from trajstore.importers.openhands_runs import from_events, from_output, is_output, verdict
from trajstore.importers.source import Record, Source
from trajstore.schema import Label

_OUTPUT = "output.jsonl"
_REPORTS = ("report.json", "output.report.json")
_NUMBERED = re.compile(r"\d+\.json")


class OpenHandsImporter(Importer):
    """Reads every form in which OpenHands V0 keeps a run.

    A run is known by the time and text of its first user message, which the exported file, the
    stored session and the evaluation output share. Streams of 2024 have no times: there the whole
    history stands for the run, together with the instance and the evaluation folder it names. The
    evaluation outputs of the V1 benchmarks, whose history holds SDK events, are read here too.
    """

    name: ClassVar[str] = "openhands"
    title: ClassVar[str] = "OpenHands V0 event streams, sessions, evaluation and resolver outputs"
    reads: ClassVar[str] = (
        "actions and observations; outcome from test_result.report.resolved or the resolver's "
        "success, never from a patch alone"
    )
    array_is_one: ClassVar[bool] = True

    def detect(self, source: Source) -> float:
        """0.9 for events, outputs and sessions; 0.6 for flat events without times."""
        if source.shape == "folder":
            return 0.9 if _NUMBERED.fullmatch(source.files[0].name) else 0.0
        if source.shape not in {"object", "array", "lines"}:
            return 0.0
        first = source.first
        if source.shape == "array":
            if not source.sample or not all(is_event(e) for e in source.sample):
                return 0.0
            return 0.9 if "timestamp" in first else 0.6
        if (
            _is_run_metadata(first)
            or _downloaded(first)
            or any(is_output(value) for value in source.sample)
        ):
            return 0.9
        if swe_bench.is_report(first) and _evaluated(source) is not None:
            return 0.95
        return 0.7 if _is_lone_event(source) else 0.0

    def claims(self, folder: Path, names: frozenset[str]) -> Iterable[tuple[str, ...]]:
        """A stored session: ``events/<n>.json`` with the page cache and metadata beside it."""
        if "events" not in names:
            return
        numbered = [n for n in _names(folder / "events") if _NUMBERED.fullmatch(n)]
        numbered.sort(key=lambda name: int(name.removesuffix(".json")))
        if not numbered or not is_event(_load(folder / "events" / numbered[0])):
            return
        group = [f"events/{name}" for name in numbered]
        if "event_cache" in names:
            group += [f"event_cache/{name}" for name in _names(folder / "event_cache")]
        if "metadata.json" in names:
            group.append("metadata.json")
        yield tuple(group)

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """Everything the source holds; a folder is one run whose events are files."""
        if source.shape == "folder":
            yield from super().read(_Session(source), options)
        elif _is_lone_event(source):
            reason = (
                "one event of a stored session: import the folder that holds 'events', so that "
                "all events of the run are read together"
            )
            yield self.ignored(source, reason)
        elif source.shape == "object" and _is_run_metadata(source.first):
            reason = "metadata of an evaluation; each line of its output repeats it"
            yield self.ignored(source, reason)
        elif swe_bench.is_report(source.first) and not is_output(source.first):
            yield from self._labels(source)
        else:
            yield from super().read(source, options)

    def _labels(self, source: Source) -> Iterator[Item]:
        """The outcomes of an evaluation report, for the runs in the output that it speaks of."""
        output, report = _evaluated(source), source.document()
        known = swe_bench.verdicts(report)
        found = set()
        for record in Source(output).records() if output is not None else ():
            value: Any = record.value if isinstance(record, Record) else None
            instance = str(value.get("instance_id")) if is_output(value) else None
            if instance is not None and instance in known:
                try:
                    run = from_output(value, "")
                except (KeyError, TypeError, ValueError, AttributeError):
                    continue  # reading the output itself says what is wrong with it
                found.add(instance)
                yield swe_bench.outcome(report, instance, run.trajectory_id)
        for instance in sorted(known.keys() - found):
            reason = f"no run of {instance} beside this report: put it where its output.jsonl lies"
            yield Problem(source=source.uri, record=instance, reason=reason)

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One run from a list of events, a stored session or a line of an output."""
        del options
        value = record.value
        if isinstance(source, _Session):
            return [from_events(value["events"], value["session"], source.uri)]
        events = value if isinstance(value, list) else _downloaded(value)
        if events is not None:
            return [from_events(events, {}, source.uri)]
        if not is_output(value):
            message = (
                "neither a list of events nor an output with 'history' and either 'instance_id' "
                "and 'test_result' or 'issue' and 'git_patch'"
            )
            raise ValueError(message)
        run = from_output(value, uri(source, record))
        labels = [verdict(value, run.trajectory_id), *_reported(source, value, run.trajectory_id)]
        return [run, *(label for label in labels if label is not None)]


def _downloaded(value: Any) -> list[Any] | None:
    """The events of a run as the web interface hands them out, under ``trajectory``."""
    events = value.get("trajectory") if isinstance(value, dict) else None
    known = isinstance(events, list) and events and is_event(events[0]) and "id" in events[0]
    return events if known else None


def _is_run_metadata(value: Any) -> bool:
    """Whether a value is the ``metadata.json`` beside an evaluation output."""
    return (
        isinstance(value, dict)
        and {"eval_output_dir", "max_iterations"} <= value.keys()
        and ("llm_config" in value or "llm" in value)
    )


def _is_lone_event(source: Source) -> bool:
    first: Any = source.first if source.shape == "object" else None
    return is_event(first) and {"id", "timestamp", "source"} <= first.keys()


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _evaluated(report: Source) -> Path | None:
    """The output that a report of its evaluation lies beside, or two folders above it."""
    folder = report.path.resolve().parent
    folders = [folder]
    if folder.parent.name == "eval_outputs":
        folders.append(folder.parent.parent)
    return next((f / _OUTPUT for f in folders if (f / _OUTPUT).is_file()), None)


def _reported(source: Source, record: Any, trajectory_id: str) -> Iterator[Label]:
    """Outcomes of one run from the reports beside its output."""
    instance = str(record.get("instance_id"))
    folder = source.path.parent
    paths = [folder / name for name in _REPORTS]
    if Path(instance).name == instance:
        paths.append(folder / "eval_outputs" / instance / "report.json")
    for path in paths:
        report: Any = _load(path) if path.is_file() else None
        if swe_bench.is_report(report) and instance in swe_bench.verdicts(report):
            yield swe_bench.outcome(report, instance, trajectory_id)


class _Session(Source):
    """A stored session as one record: its events in order, and its metadata."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.path, uri=source.uri, files=source.files)

    def records(self, *, array_is_one: bool = False) -> Iterator[Record | Problem]:
        """Problems of single event files first, then the session."""
        del array_is_one
        events: list[Any] = []
        session: dict[str, Any] = {}
        for path in self.files:
            if path.parent.name == "event_cache":
                continue
            value = _load(path)
            if path.name == "metadata.json" and isinstance(value, dict):
                session = value
            elif is_event(value):
                events.append(value)
            else:
                reason = "not an event of OpenHands; the rest of its session is read without it"
                yield Problem(source=path.as_posix(), reason=reason)
        yield Record({"events": events, "session": session}, 0)


IMPORTER = OpenHandsImporter()
"""The importer that the registry loads."""
