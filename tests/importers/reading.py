"""Small helpers of the importer tests: write a file, read it, look at what came."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.source import Source
from trajstore.schema import Label, Trajectory, finish


@dataclass
class Found:
    """What one reading of one file gave."""

    runs: list[Trajectory]
    labels: list[Label]
    problems: list[Problem]

    @property
    def run(self) -> Trajectory:
        """The one trajectory."""
        (only,) = self.runs
        return only


def read(importer: Importer, path: Path, **options: Any) -> Found:
    """Read a file with an importer; the trajectories come finished."""
    items = list(importer.read(Source(path), ImportOptions(**options)))
    return Found(
        runs=[finish(i) for i in items if isinstance(i, Trajectory)],
        labels=[i for i in items if isinstance(i, Label)],
        problems=[i for i in items if isinstance(i, Problem)],
    )


def jsonl(folder: Path, *rows: Any, name: str = "rows.jsonl") -> Path:
    """A JSON Lines file; text rows stand in it as they are."""
    path = folder / name
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def document(folder: Path, value: Any, name: str = "file.json") -> Path:
    """A file of one JSON value."""
    path = folder / name
    path.write_text(json.dumps(value))
    return path


def files_below(folder: Path) -> Iterator[Path]:
    """All files below a folder, by name."""
    for root, _, names in sorted(os.walk(folder)):
        yield from (Path(root) / name for name in sorted(names))


def recognised(importer: Importer, folder: Path) -> set[str]:
    """Paths below a folder that an importer claims, relative to it."""
    return {
        path.relative_to(folder).as_posix()
        for path in files_below(folder)
        if importer.detect(Source(path)) > 0
    }


def detail(value: str | None) -> Any:
    """Metadata and the like, parsed."""
    return json.loads(value or "null")
