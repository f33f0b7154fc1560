"""What a store has to offer to be measured: a small class, and one protocol a kind of work."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa

from benchmarks.measure import folder_bytes
from benchmarks.workload import Record, Whole


class Peer:
    """One store in a folder of its own; what it can do is said by the protocols that it fits."""

    name: ClassVar[str]
    """Its name in the tables."""
    about: ClassVar[str] = ""
    """What one has to know to read its numbers, such as what durable means there."""
    packages: ClassVar[Mapping[str, str]] = {}
    """Module to import and package to install, for each one that it needs."""
    shares: ClassVar[str | None] = None
    """Name of another store whose files it reads, if it has none of its own."""
    sample: ClassVar[int | None] = None
    """It takes this many trajectories of a batch only, since it would take hours."""
    commits: ClassVar[int | None] = 0
    """Commits of one trajectory to measure; 0 for none, None for as many as asked for."""

    def __init__(self, folder: Path) -> None:
        """Keep everything in ``folder``, which is made."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def missing(cls) -> list[str]:
        """Packages that have to be installed first, each once."""
        absent = (p for m, p in cls.packages.items() if importlib.util.find_spec(m) is None)
        return list(dict.fromkeys(absent))

    def settle(self) -> None:
        """Bring the store into the state that its documentation recommends for reading."""

    def open(self) -> None:
        """Make ready to read what the folder holds."""

    def close(self) -> None:
        """Let go of everything held in memory."""

    def size_bytes(self) -> int:
        """Bytes on disk."""
        return folder_bytes(self.folder)

    def stored(self) -> list[str] | None:
        """Ids that may be asked for, where it did not take all; else None."""
        return None


@runtime_checkable
class Ingests(Protocol):
    """Takes trajectories as plain dicts."""

    def ingest(self, records: Sequence[Record]) -> None:
        """Return when all of them are stored, in one commit."""


@runtime_checkable
class IngestsArrow(Protocol):
    """Takes trajectories as Arrow tables."""

    def ingest_arrow(self, trajectories: pa.Table, steps: pa.Table) -> None:
        """Return when all rows are stored."""


@runtime_checkable
class Answers(Protocol):
    """Answers the analytical questions."""

    def answer(self, question: str) -> Sequence[Sequence[Any]]:
        """Rows of the answer in any order; ``question`` is a key of ``workload.QUESTIONS``."""


@runtime_checkable
class Fetches(Protocol):
    """Gives whole trajectories back as Python objects of its own kind."""

    def fetch(self, ids: Sequence[str]) -> Any:
        """The trajectories with those ids; this is what is timed."""

    def fetched(self, found: Any) -> list[Whole]:
        """What ``fetch`` gave, in the form in which stores are compared; not timed."""


@runtime_checkable
class FetchesArrow(Protocol):
    """Gives whole trajectories back as Arrow tables."""

    def fetch_arrow(self, ids: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """Rows of trajectories and of steps; this is what is timed."""

    def fetched_arrow(self, found: tuple[pa.Table, pa.Table]) -> list[Whole]:
        """What ``fetch_arrow`` gave, in the form in which stores are compared; not timed."""
