"""Import: files in, one commit a batch, and a report that accounts for every record."""

from __future__ import annotations

import glob
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from trajstore.errors import ImportFormatError, RecordError, TrajstoreError
from trajstore.filters import redact, redact_trajectory
from trajstore.importers import (
    Importer,
    ImportOptions,
    Problem,
    Source,
    detect,
    importer,
    sound,
    sources,
)
from trajstore.importers.items import Item
from trajstore.pipeline.media import without_inline_media
from trajstore.schema import Label, Reflection, Skill, Trajectory, Workflow, finish
from trajstore.store import AppendReport, Conflict, Store

_T = TypeVar("_T")
_TEXTS = ("text", "code", "description", "docstring", "rationale", "steps", "metadata")
_BATCH_ROWS = 20_000
_BATCH_BYTES = 32 << 20
_PROBLEMS_KEPT = 1_000


@dataclass
class ImportReport:
    """What went in, what was there, what did not go in and why."""

    files: int = 0
    """Sources looked at."""
    trajectories: int = 0
    """Trajectories found in them."""
    added: int = 0
    """Of those, new ones."""
    replaced: int = 0
    """Of those, longer versions that took the place of shorter ones."""
    already: int = 0
    """Of those, ones that were there already, as whole or more so."""
    conflicting: int = 0
    """Of ``already``, ones with another outcome than the stored one, which stays."""
    steps: int = 0
    """Steps written."""
    labels: int = 0
    """Labels written."""
    labels_already: int = 0
    """Labels that were there already."""
    skills: int = 0
    """Skills written."""
    reflections: int = 0
    """Reflections written."""
    workflows: int = 0
    """Workflows written."""
    media: int = 0
    """Inline pictures and sounds moved to blobs."""
    secrets: Counter[str] = field(default_factory=Counter)
    """Secrets found and replaced, by kind."""
    formats: dict[str, Counter[str]] = field(default_factory=dict)
    """Per format: files, trajectories, labels, ..."""
    bad: int = 0
    """Records or files that could not be read."""
    ignored: int = 0
    """Files that are readable and on purpose not imported, or that no importer knows."""
    problems: list[Problem] = field(default_factory=list)
    """The first 1,000 of bad, ignored and conflicting, with file, line and reason."""
    snapshot: int = 0
    """Snapshot after the import."""

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        return {
            "files": self.files,
            "trajectories": self.trajectories,
            "added": self.added,
            "replaced": self.replaced,
            "already": self.already,
            "conflicting": self.conflicting,
            "steps": self.steps,
            "labels": self.labels,
            "labels_already": self.labels_already,
            "skills": self.skills,
            "reflections": self.reflections,
            "workflows": self.workflows,
            "media": self.media,
            "secrets": dict(sorted(self.secrets.items())),
            "formats": {n: dict(c) for n, c in sorted(self.formats.items())},
            "bad": self.bad,
            "ignored": self.ignored,
            "problems": [
                {
                    "kind": p.kind,
                    "source": p.source,
                    "line": p.line,
                    "record": p.record,
                    "reason": p.reason,
                }
                for p in self.problems
            ],
            "snapshot": self.snapshot,
        }

    def count(self, done: AppendReport) -> None:
        """Add what one append did."""
        self.added += done.added
        self.replaced += done.replaced
        self.already += done.already
        self.steps += done.steps
        self.labels += done.labels
        self.labels_already += done.labels_already
        self.snapshot = done.snapshot


Progress = Callable[[Source, ImportReport], None]
"""Called before each source."""


def import_into(
    store: Store,
    paths: Iterable[str | Path],
    *,
    format: str | None = None,  # noqa: A002  the name of the flag
    options: ImportOptions | None = None,
    strict: bool = False,
    redact: bool = True,
    progress: Progress | None = None,
) -> ImportReport:
    """Read files, folders, globs or ``-`` (stdin) into a store.

    A bad record is left out with its place and reason, and costs no other. The same run in several
    files, versions or renderings goes in once.

    Args:
        store: where to.
        paths: what to read.
        format: name of the importer; found by content where None.
        options: what the user says about the files.
        strict: stop at the first record that cannot be read; what came before it is kept.
        redact: find secrets and replace them by typed placeholders.
        progress: called before each source.

    Raises:
        ImportFormatError: a path does not exist, or the format is unknown.
        RecordError: in strict mode, at the first bad record.
    """
    chosen = importer(format) if format is not None else None
    run = _Import(store, options or ImportOptions(), strict=strict, redact=redact)
    for path in paths:
        with _found(str(path)) as found:
            for source in found:
                if isinstance(source, Problem):
                    run.refuse(source)
                    continue
                if progress is not None:
                    progress(source, run.report)
                run.read(source, chosen)
    run.flush()
    if not run.report.snapshot:
        run.report.snapshot = store.snapshot()
    return run.report


@contextmanager
def _found(path: str) -> Iterator[Iterable[Source | Problem]]:
    """The sources of a path, a glob or stdin."""
    if path == "-":
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "stdin"
            with copy.open("wb") as file:
                while chunk := sys.stdin.buffer.read(1 << 20):
                    file.write(chunk)
            yield [Source(copy, uri="stdin")]
        return
    if Path(path).exists():
        yield sources(Path(path))
        return
    matches = sorted(Path(p) for p in glob.glob(path, recursive=True))  # noqa: PTH207  absolute too
    if not matches:
        raise ImportFormatError(f"There is nothing at {path}.", path=path)
    yield (source for match in matches for source in sources(match))


class _Import:
    """One import under way: a buffer and a report."""

    def __init__(self, store: Store, options: ImportOptions, *, strict: bool, redact: bool) -> None:
        self.report = ImportReport()
        self._store = store
        self._options = options
        self._strict = strict
        self._redact = redact
        self._buffer: list[Trajectory | Label] = []
        self._rows = 0
        self._bytes = 0
        self._memories: list[Skill | Reflection | Workflow] = []

    def read(self, source: Source, chosen: Importer | None) -> None:
        """Take what a source holds; one that cannot be read is a problem and costs no other."""
        self.report.files += 1
        try:
            reader = chosen or detect(source)
            unknown = None if reader is not None else unrecognised(source)
        except _STOPS:
            raise
        except Exception as error:  # noqa: BLE001  files of others hold anything
            self.refuse(_unreadable(source, error))
            return
        if reader is None:
            reason = f"no importer recognises it ({unknown})"
            self.refuse(Problem(source=source.uri, reason=reason, kind="ignored"))
            return
        counts = self.report.formats.setdefault(reader.name, Counter())
        counts["files"] += 1
        for item in _guarded(reader, source, self._options):
            counts[_kind(item)] += 1
            self._take(item)

    def _take(self, item: Item) -> None:
        if isinstance(item, Problem):
            self.refuse(item)
            return
        if isinstance(item, Skill | Reflection | Workflow):
            self._memories.append(self._clean(item))
            self._rows += 1
        elif isinstance(item, Label):
            self._buffer.append(self._clean(item))
            self._rows += 1
        else:
            self._take_run(item)
        if self._rows >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
            self.flush()

    def _clean(self, item: _T) -> _T:
        """A label or memory without secrets in its texts."""
        changes: dict[str, Any] = {}
        for name in _TEXTS if self._redact else ():
            before = getattr(item, name, None)
            if isinstance(before, str):
                after, found = redact(before)
                self.report.secrets.update(found)
                changes |= {name: after} if found else {}
        return replace(item, **changes) if changes else item  # type: ignore[type-var]

    def _take_run(self, run: Trajectory) -> None:
        try:
            sound(run)
        except TypeError as error:
            self._unfit(run, error)
            return
        self.report.trajectories += 1
        options = self._options
        run = replace(
            run,
            environment=run.environment or options.environment,
            agent=run.agent or options.agent,
            model=run.model or options.model,
        )
        if self._redact:
            run, found = redact_trajectory(run)
            self.report.secrets.update(found)
        run, moved = without_inline_media(run, self._store.blobs.put)
        self.report.media += moved
        run = finish(run)
        self._buffer.append(run)
        self._rows += 1 + len(run.steps)
        self._bytes += run.size_bytes

    def refuse(self, problem: Problem) -> None:
        """Count what is not taken in, and stop there in strict mode."""
        match problem.kind:
            case "bad":
                self.report.bad += 1
            case "ignored":
                self.report.ignored += 1
            case "conflicting":
                self.report.conflicting += 1
        if len(self.report.problems) < _PROBLEMS_KEPT:
            self.report.problems.append(problem)
        if self._strict and problem.kind == "bad":
            self.flush()
            raise RecordError(
                f"{problem} (strict mode stops here; what came before is stored)",
                path=problem.source,
                line=problem.line,
                record=problem.record,
            )

    def _unfit(self, item: Trajectory | Label, error: Exception) -> None:
        place = item.source_uri if isinstance(item, Trajectory) else None
        reason = f"does not fit the schema: {error}"
        self.refuse(Problem(source=place or "", record=item.trajectory_id, reason=reason))

    def _append(self, items: list[Trajectory | Label]) -> None:
        """Append items; where some do not fit, all the others go in."""
        try:
            done = self._store.append(items)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            if len(items) == 1:
                self._unfit(items[0], error)
                return
            half = len(items) // 2
            self._append(items[:half])
            self._append(items[half:])
            return
        self.report.count(done)
        for conflict in done.conflicts:
            self.refuse(_conflicting(conflict))

    def flush(self) -> None:
        if self._buffer:
            self._append(self._buffer)
        memories, self._memories = self._memories, []
        self.report.skills += self._store.add_skills(_of(memories, Skill))
        self.report.reflections += self._store.add_reflections(_of(memories, Reflection))
        self.report.workflows += self._store.add_workflows(_of(memories, Workflow))
        self._buffer, self._rows, self._bytes = [], 0, 0


_STOPS = (TrajstoreError, MemoryError)
"""What is no fault of one file: a missing package, an option that makes no sense."""


def _guarded(reader: Importer, source: Source, options: ImportOptions) -> Iterator[Item]:
    """What an importer reads; where it fails, the rest of that source is one problem."""
    items = iter(reader.read(source, options))
    while True:
        try:
            item = next(items, None)
        except _STOPS:
            raise
        except Exception as error:  # noqa: BLE001  files of others hold anything
            yield _unreadable(source, error)
            return
        if item is None:
            return
        yield item


def _unreadable(source: Source, error: Exception) -> Problem:
    reason = f"cannot be read to its end: {type(error).__name__}: {error}"
    return Problem(source=source.uri, reason=reason)


def _conflicting(found: Conflict) -> Problem:
    reason = f"same run, another outcome: {found}; add this one with `trajstore label`"
    source, run = found.source_uri or "", found.trajectory_id
    return Problem(source=source, record=run, reason=reason, kind="conflicting")


def _of(items: Sequence[object], kind: type[_T]) -> list[_T]:
    return [i for i in items if isinstance(i, kind)]


def _kind(item: Item) -> str:
    if isinstance(item, Problem):
        return item.kind
    plural = {"Trajectory": "trajectories"}
    name = type(item).__name__
    return plural.get(name, f"{name.lower()}s")


_UNRECOGNISED = {
    "text": "text without a JSON value on any line",
    "binary": "binary data",
    "zip": "a ZIP archive of another kind",
    "object": "a JSON object of another kind",
    "array": "a JSON array of another kind",
    "lines": "JSON lines of another kind",
    "parquet": "a Parquet file without a messages, conversations or trajectory column; say which "
    "column is which with --map",
    "arrow": "an Arrow file without a messages, conversations or trajectory column; say which "
    "column is which with --map",
    "folder": "a folder of another kind",
}


def unrecognised(source: Source) -> str:
    """What a source that no importer knows is, in words."""
    if source.shape == "text" and not source.head.strip():
        return "an empty file"
    if source.shape == "object" and not source.sample:
        return "broken JSON"
    if source.shape == "array" and isinstance(fault := next(source.elements(), None), Problem):
        return fault.reason
    return _UNRECOGNISED[source.shape]
