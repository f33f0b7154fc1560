"""JSON lines, one trajectory a line, read by a loop over all of them."""

from __future__ import annotations

import importlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.peer import Peer
from benchmarks.workload import NEEDLE, SHORTEST, Record, Whole, whole_of_record


def append_durably(path: Path, data: bytes) -> None:
    """Append to a file, and return when the disk has it."""
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


class StandardJsonl(Peer):
    """The standard library's encoder; ingest only, since orjson reads faster."""

    name: ClassVar[str] = "jsonl-std"
    about: ClassVar[str] = "fsync of the file"

    def ingest(self, records: Sequence[Record]) -> None:
        """One line a trajectory."""
        lines = "".join(json.dumps(r) + "\n" for r in records)
        append_durably(self.folder / "runs.jsonl", lines.encode())


class OrjsonJsonl(Peer):
    """orjson both ways; every question is one loop over the file."""

    name: ClassVar[str] = "jsonl-orjson"
    about: ClassVar[str] = "fsync of the file"
    packages: ClassVar[dict[str, str]] = {"orjson": "orjson"}
    commits: ClassVar[int | None] = None

    def __init__(self, folder: Path) -> None:
        """Load orjson."""
        super().__init__(folder)
        self._json: Any = importlib.import_module("orjson")
        self._path = folder / "runs.jsonl"

    def ingest(self, records: Sequence[Record]) -> None:
        """One line a trajectory."""
        dumps = self._json.dumps
        append_durably(self._path, b"".join(dumps(r) + b"\n" for r in records))

    def _runs(self) -> Iterator[Record]:
        loads = self._json.loads
        with self._path.open("rb") as file:
            for line in file:
                yield loads(line)

    def answer(self, question: str) -> Sequence[Sequence[Any]]:
        """One pass."""
        answers = {
            "rates": _rates,
            "histogram": _histogram,
            "errors": _errors,
            "search": _search,
            "shortest": _shortest,
        }
        return answers[question](self._runs())

    def fetch(self, ids: Sequence[str]) -> list[Record]:
        """One pass; one id is looked for in the raw line, so that one line only is parsed."""
        if len(ids) == 1:
            return self._one(ids[0].encode())
        wanted = set(ids)
        return [r for r in self._runs() if r["trajectory_id"] in wanted]

    def _one(self, key: bytes) -> list[Record]:
        with self._path.open("rb") as file:
            for line in file:
                if key in line:
                    return [self._json.loads(line)]
        return []

    def fetched(self, found: Any) -> list[Whole]:
        """Comparable."""
        return [whole_of_record(record) for record in found]


def _rates(runs: Iterator[Record]) -> list[tuple[Any, ...]]:
    known: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for run in runs:
        if run.get("success") is not None:
            known[run["agent"], run["model"]].append(run["success"])
    return [(*key, len(v), sum(v) / len(v)) for key, v in known.items()]


def _histogram(runs: Iterator[Record]) -> list[tuple[Any, ...]]:
    counts: Counter[str] = Counter()
    for run in runs:
        for step in run["steps"]:
            for call in step.get("tool_calls", ()):
                counts[call["name"]] += 1
    return list(counts.items())


def _errors(runs: Iterator[Record]) -> list[tuple[Any, ...]]:
    calls: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for run in runs:
        for step in run["steps"]:
            pairs = zip(step.get("tool_calls", ()), step.get("observations", ()), strict=False)
            for call, result in pairs:
                calls[call["name"]] += 1
                errors[call["name"]] += result["is_error"]
    return [(name, n, errors[name] / n) for name, n in calls.items()]


def _search(runs: Iterator[Record]) -> list[tuple[Any, ...]]:
    found = 0
    for run in runs:
        for step in run["steps"]:
            for result in step.get("observations", ()):
                found += NEEDLE in result["text"]
    return [(found,)]


def _shortest(runs: Iterator[Record]) -> list[tuple[Any, ...]]:
    tasks: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for run in runs:
        if run.get("success"):
            tasks[run["task_id"]].append((run["n_tool_calls"], run["trajectory_id"]))
    return [(t, i, n) for t, found in tasks.items() for n, i in sorted(found)[:SHORTEST]]
