"""What one run of the benchmark shares: the work, the stores and the limits."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import Row
from benchmarks.peers import Peer
from benchmarks.report import tables
from benchmarks.workload import Workload


@dataclass(kw_only=True)
class Bench:
    """One run."""

    workload: Workload
    """What is stored and asked."""
    peers: Sequence[type[Peer]]
    """Stores to measure, trajstore first."""
    folder: Path
    """Where they keep their files."""
    repeats: int = 5
    """Runs of everything that is repeated."""
    budget_s: float = 60.0
    """A store that has spent this much on one piece of work is not asked again."""
    commits: int = 500
    """Commits of one trajectory."""
    rows: list[Row] = field(default_factory=list)
    """Results so far."""
    filled: dict[str, Peer] = field(default_factory=dict)
    """Stores that hold the whole workload, by name."""
    quiet: bool = False
    """Print nothing while it runs."""

    def add(self, rows: Sequence[Row]) -> None:
        """Keep results, and print them at once."""
        self.rows.extend(rows)
        if rows and not self.quiet:
            print(tables(rows), end="\n\n", flush=True)

    def say(self, line: str) -> None:
        """Tell on stderr what is going on."""
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def fresh(self, kind: type[Peer], use: str) -> Peer:
        """A new, empty store of that kind."""
        folder = self.folder / use / kind.name
        shutil.rmtree(folder, ignore_errors=True)
        return kind(folder)

    def drop(self, peer: Peer) -> None:
        """Close a store and remove its files."""
        peer.close()
        shutil.rmtree(peer.folder, ignore_errors=True)
