"""Timing in rounds, rows of results, and the machine they were measured on."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

OURS = "trajstore"
"""The store that the others are compared with."""

PACKAGES = (
    "trajstore",
    "pyarrow",
    "duckdb",
    "deltalake",
    "polars",
    "orjson",
    "pandas",
    "pylance",
    "pyiceberg",
    "mlflow-skinny",
)
"""Packages whose versions stand beside the results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number: what one store reached at one piece of work."""

    work: str
    """The piece of work."""
    store: str
    """Who did it."""
    value: float
    """Median of the runs, in ``unit``."""
    unit: str
    """``ms``, ``MB`` and ``x`` are better when low; units with ``/s`` when high."""
    runs: tuple[float, ...] = ()
    """Every run, in ``unit``."""
    ratio: float | None = None
    """How many times better trajstore is; below 1 it is worse."""
    target: float | None = None
    """The least ratio that the design asks for."""
    cpu: float | None = None
    """Median with CPU seconds of this process in the place of seconds, in ``unit``."""
    cpu_ratio: float | None = None
    """How many times less CPU trajstore takes; it moves less than ``ratio`` on a busy machine."""
    note: str = ""
    """What one has to know to read the number."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.target is None or self.ratio is None:
            return None
        return self.ratio >= self.target


@dataclass(frozen=True, slots=True)
class Took:
    """What one call cost."""

    wall_s: float
    """Seconds until it returned."""
    cpu_s: float
    """CPU seconds of all threads of this process meanwhile."""


class DisagreementError(AssertionError):
    """Two stores gave different answers, so their times say nothing."""


def time_rounds(
    jobs: Mapping[str, Callable[[int], T]],
    *,
    repeats: int,
    budget_s: float,
    check: Callable[[str, int, T], None] | None = None,
) -> dict[str, tuple[Took, ...]]:
    """What every run of every job cost.

    Each round runs every job once, in rotating order, so that a slow phase of the machine hits all.
    A job that has used up its budget sits out the rounds that are left.

    Args:
        jobs: by name; each is called with the number of the round.
        repeats: rounds.
        budget_s: seconds a job.
        check: called outside the clock with name, round and result.
    """
    runs: dict[str, list[Took]] = {name: [] for name in jobs}
    for number in range(repeats):
        for name in rotated(list(jobs), number):
            if sum(t.wall_s for t in runs[name]) >= budget_s:
                continue
            took, result = timed(partial(jobs[name], number))
            runs[name].append(took)
            if check is not None:
                check(name, number, result)
            del result
    return {name: tuple(found) for name, found in runs.items()}


def timed(job: Callable[[], T], *, collect: bool = True) -> tuple[Took, T]:
    """What a call cost, and what it gave; ``collect`` garbage before, not in it."""
    if collect:
        gc.collect()
    cpu, start = time.process_time(), time.perf_counter()
    result = job()
    return Took(time.perf_counter() - start, time.process_time() - cpu), result


def rotated(names: Sequence[str], number: int) -> list[str]:
    """The names, beginning with another one each round.

    >>> rotated(["a", "b", "c"], 1)
    ['b', 'c', 'a']
    """
    turn = number % len(names) if names else 0
    return [*names[turn:], *names[:turn]]


def rows_of(
    work: str,
    runs: Mapping[str, Sequence[float]],
    unit: str,
    *,
    cpu: Mapping[str, Sequence[float]] | None = None,
    targets: Mapping[tuple[str, str], float] | None = None,
    notes: Mapping[str, str] | None = None,
) -> list[Row]:
    """Rows with medians and ratios to trajstore, which comes first.

    Args:
        work: the piece of work.
        runs: numbers in ``unit`` by store; an empty list is left out.
        unit: see :attr:`Row.unit`.
        cpu: the same with CPU seconds instead of seconds.
        targets: least ratio by (work, store).
        notes: by store.
    """
    medians = {name: statistics.median(found) for name, found in runs.items() if found}
    burnt = {name: statistics.median(found) for name, found in (cpu or {}).items() if found}
    return [
        Row(
            work=work,
            store=name,
            value=medians[name],
            unit=unit,
            runs=tuple(runs[name]),
            ratio=_ratio(medians, name, unit),
            target=(targets or {}).get((work, name)),
            cpu=burnt.get(name),
            cpu_ratio=_ratio(burnt, name, unit),
            note=(notes or {}).get(name, ""),
        )
        for name in sorted(medians, key=lambda n: n != OURS)
    ]


def timed_rows(
    work: str,
    runs: Mapping[str, Sequence[Took]],
    unit: str,
    convert: Callable[[float], float],
    *,
    targets: Mapping[tuple[str, str], float] | None = None,
    notes: Mapping[str, str] | None = None,
) -> list[Row]:
    """:func:`rows_of` for what :func:`time_rounds` gave; ``convert`` makes seconds ``unit``."""
    return rows_of(
        work,
        {name: [convert(t.wall_s) for t in found] for name, found in runs.items()},
        unit,
        cpu={name: [convert(t.cpu_s) for t in found] for name, found in runs.items()},
        targets=targets,
        notes=notes,
    )


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds."""
    return 1000 * seconds


def _ratio(medians: Mapping[str, float], name: str, unit: str) -> float | None:
    if name == OURS or name not in medians or OURS not in medians:
        return None
    theirs, ours = medians[name], medians[OURS]
    better, worse = (ours, theirs) if "/s" in unit else (theirs, ours)
    return better / worse if worse else None


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which that share (0 to 1) of the values lies, by nearest rank.

    >>> percentile([4, 1, 3, 2], 0.5)
    2
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def environment(command: Sequence[str]) -> dict[str, str]:
    """Machine, versions and command, as text."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "from source" if name == "trajstore" else "not installed"
    return {
        "command": " ".join(command),
        "measured at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB memory",
        "load before": ", ".join(f"{x:.1f}" for x in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
        "versions": ", ".join(f"{n} {v}" for n, v in versions.items()),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
