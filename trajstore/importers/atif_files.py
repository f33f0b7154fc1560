"""ATIF documents that lie in several files: continuations and sub-agents found by reference."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from trajstore.importers.source import Source

_MOST_FILES = 64
_MOST_ENTRIES = 1024
_BACK_REFERENCES = (b"continued_trajectory_ref", b"trajectory_path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One document of a run: the first, or one that continues the one before."""

    document: Mapping[str, Any]
    """The parsed document."""
    path: Path | None
    """Its file; None where the document is a record among others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Referrer:
    """The document that names a file as its continuation or sub-agent."""

    segment: Segment
    """The document and its file."""
    step: int | None
    """Position in its ``steps`` of the step that refers, from 0; None for a continuation."""


def is_atif(value: Any) -> bool:
    """Whether this is an ATIF document of any version."""
    if not isinstance(value, Mapping) or not isinstance(value.get("steps"), list):
        return False
    tag = value.get("schema_version")
    return isinstance(tag, str) and tag.upper().startswith("ATIF-")


def load(path: Path) -> Mapping[str, Any] | None:
    """The ATIF document in a file, or None where there is none."""
    try:
        value = Source(path).document()
    except (OSError, ValueError, RecursionError):
        return None
    return value if is_atif(value) else None


def resolve(path: Path, reference: Any) -> Path | None:
    """The file that a reference in ``path`` means, or None.

    Copies of a trial often carry a common prefix (``X.trajectory.json`` that refers to
    ``trajectory.cont-1.json``): then the file whose name has the same prefix is meant. Nothing
    outside the folder is ever opened.
    """
    if not isinstance(reference, str) or not reference or "://" in reference:
        return None
    relative = PurePosixPath(reference)
    if relative.is_absolute() or ".." in relative.parts:
        return None
    exact = path.parent / relative
    if exact.is_file():
        return exact
    prefixes = [path.name[:n] for n in range(len(path.name), 0, -1)]
    alike = (path.parent / f"{prefix}{relative.name}" for prefix in prefixes)
    return next((p for p in alike if p.is_file()), None)


def references(document: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """References to sub-agents with the position of their step, in order."""
    for position, step in enumerate(document["steps"]):
        observation = step.get("observation") if isinstance(step, Mapping) else None
        results = observation.get("results") if isinstance(observation, Mapping) else None
        for result in results or ():
            found = result.get("subagent_trajectory_ref") if isinstance(result, Mapping) else None
            listed = [found] if isinstance(found, Mapping) else found or ()
            yield from ((position, r) for r in listed if isinstance(r, Mapping))


def chain(first: Segment) -> tuple[list[Segment], str | None]:
    """A document and all that continue it, and the reference that could not be followed."""
    segments = [first]
    while True:
        last = segments[-1]
        reference = last.document.get("continued_trajectory_ref")
        if not reference:
            return segments, None
        path = None if last.path is None else resolve(last.path, reference)
        document = None if path is None else load(path)
        if document is None or any(s.path == path for s in segments):
            return segments, str(reference)
        segments.append(Segment(document=document, path=path))


def referrer(path: Path) -> Referrer | None:
    """The document beside a file that refers to it; a continuation goes before a sub-agent."""
    found: Referrer | None = None
    for other in _candidates(path):
        segment = _with_references(other)
        if segment is None:
            continue
        if resolve(other, segment.document.get("continued_trajectory_ref")) == path:
            return Referrer(segment=segment, step=None)
        for step, reference in references(segment.document):
            if found is None and resolve(other, reference.get("trajectory_path")) == path:
                found = Referrer(segment=segment, step=step)
    return found


def head(segment: Segment) -> list[Segment]:
    """The segments before this one and itself, in order."""
    back = [segment]
    while back[0].path is not None:
        before = referrer(back[0].path)
        if before is None or before.step is not None:
            break
        if any(s.path == before.segment.path for s in back):
            break
        back.insert(0, before.segment)
    return back


def _with_references(path: Path) -> Segment | None:
    try:
        with Source(path).open() as stream:
            content = stream.read()
    except OSError:
        return None
    if not any(word in content for word in _BACK_REFERENCES):
        return None
    document = load(path)
    return None if document is None else Segment(document=document, path=path)


def _candidates(path: Path) -> Iterator[Path]:
    """Files that may refer to ``path``: its neighbours, or in a large folder those named alike."""
    parts = path.name.split(".")
    named = [".".join([*parts[:n], parts[-1]]) for n in range(1, len(parts) - 1)]
    for folder in dict.fromkeys((path.parent, path.parent.parent)):
        names = _names(folder, path.suffix)
        if names is None:
            names = [*named, f"trajectory{path.suffix}"]
        others = (folder / name for name in dict.fromkeys(names))
        yield from (p for p in others if p != path and p.is_file())


def _names(folder: Path, suffix: str) -> list[str] | None:
    """Names of the files with a suffix in a folder; None where there are too many to open each."""
    found: list[str] = []
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if entry.name.endswith(suffix) and not entry.name.startswith("."):
                found.append(entry.name)
            if count >= _MOST_ENTRIES or len(found) > _MOST_FILES:
                return None
    return sorted(found)
