"""Which sources a path holds: a file is one, a folder many, and some files belong together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trajstore.importers.items import Problem
from trajstore.importers.registry import importers
from trajstore.importers.source import Source

_SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules", ".venv"})


def sources(path: Path) -> Iterator[Source | Problem]:
    """Sources at ``path`` in a stable order (by name, files of a folder before its subfolders).

    Files that an importer claims as one (an OpenHands conversation, a session with its sub-agents)
    come as one folder source. Hidden files, folders of tools such as ``node_modules``, and
    trajectory stores in a folder are left out. What else is left out is a problem: a folder that
    cannot be listed is bad; a link to a folder, a link to nothing, and a store that ``path``
    itself names are ignored.
    """
    if _is_store(path):
        yield _left(path, "a trajectory store; query it, or export runs and import those")
    elif path.is_dir():
        yield from _folder(path, claimed=set())
    else:
        yield Source(path)


def _folder(folder: Path, claimed: set[Path]) -> Iterator[Source | Problem]:
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except OSError as error:
        yield Problem(source=folder.as_posix(), reason=f"cannot be read: {error.strerror}")
        return
    entries = [e for e in entries if not e.name.startswith(".")]
    names = frozenset(e.name for e in entries)
    if _is_store(folder):
        return
    for files in _groups(folder, names):
        claimed.update(files)
        yield Source(folder, uri=files[0].as_posix(), files=files)
    for entry in entries:
        if entry.is_file() and Path(entry.path) not in claimed:
            yield Source(Path(entry.path))
        elif not entry.is_file() and not entry.is_dir():
            yield _left(entry.path, "a link to nothing" if entry.is_symlink() else "no file")
    for entry in entries:
        if entry.name in _SKIPPED_FOLDERS or not entry.is_dir():
            continue
        if entry.is_symlink():
            yield _left(entry.path, "a link to a folder, which is not followed; import it by name")
        else:
            yield from _folder(Path(entry.path), claimed)


def _groups(folder: Path, names: frozenset[str]) -> Iterator[tuple[Path, ...]]:
    """Files of the folder that an importer claims as one source."""
    for importer in importers().values():
        with suppress(OSError):  # of a folder below, which is told of when it is its turn
            for group in importer.claims(folder, names):
                yield tuple(folder / name for name in group)


def _is_store(folder: Path) -> bool:
    return (folder / "trajectories" / "_delta_log").is_dir()


def _left(path: str | Path, reason: str) -> Problem:
    return Problem(source=Path(path).as_posix(), reason=reason, kind="ignored")
