"""Which sources a path holds: a file is one, a folder many, and some files belong together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trajstore.importers.registry import importers
from trajstore.importers.source import Source

_SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules", ".venv"})


def sources(path: Path) -> Iterator[Source]:
    """Sources at ``path`` in a stable order (by name, files of a folder before its subfolders).

    Files that an importer claims as one (an OpenHands conversation, a session with its sub-agents)
    come as one folder source. Hidden files and trajectory
    stores are left out.
    """
    if path.is_dir():
        yield from _folder(path, claimed=set())
    else:
        yield Source(path)


def _folder(folder: Path, claimed: set[Path]) -> Iterator[Source]:
    entries = sorted(os.scandir(folder), key=lambda e: e.name)
    entries = [e for e in entries if not e.name.startswith(".")]
    names = frozenset(e.name for e in entries)
    if (folder / "trajectories" / "_delta_log").is_dir():
        return
    for importer in importers().values():
        for group in importer.claims(folder, names):
            files = tuple(folder / name for name in group)
            claimed.update(files)
            yield Source(folder, uri=files[0].as_posix(), files=files)
    for entry in entries:
        if entry.is_file() and Path(entry.path) not in claimed:
            yield Source(Path(entry.path))
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED_FOLDERS:
            yield from _folder(Path(entry.path), claimed)
