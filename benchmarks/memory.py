"""Memory of a process that imports a large JSONL file."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.measure import Row
from benchmarks.workload import records
from trajstore.testing import generate

_PROGRAM = """
import sys, trajstore
pool = trajstore.open(sys.argv[1])
print("ready", flush=True)
report = pool.import_files(sys.argv[2])
print(report.trajectories, report.bad, flush=True)
"""
_PAUSE_S = 0.05
_QUARTERS = 4


def measure_memory(bench: Bench, gigabytes: float) -> None:
    """Import a generated file in a process of its own, and watch its resident memory.

    Args:
        bench: the run.
        gigabytes: size of the file, 10**9 bytes each.
    """
    if importlib.util.find_spec("psutil") is None:
        bench.say("memory: not measured; install psutil")
        return
    bench.folder.mkdir(parents=True, exist_ok=True)
    path = bench.folder / "import.jsonl"
    bench.say(f"memory: writing {gigabytes:g} GB")
    written = _generate(path, round(gigabytes * 1e9))
    bench.say(f"memory: importing {written} trajectories")
    seconds, sizes = _watch(bench.folder / "imported", path, written)
    bench.add(_rows(path.stat().st_size / 1e6, seconds, [s / 1e6 for s in sizes]))
    path.unlink()


def _generate(path: Path, size: int) -> int:
    count = 0
    with path.open("wb") as file:
        for run in generate(size, seed=1):
            file.write(json.dumps(records([run])[0]).encode() + b"\n")
            count += 1
            if file.tell() >= size:
                break
    return count


def _watch(pool: Path, path: Path, expected: int) -> tuple[float, list[int]]:
    """Seconds that the import took, and resident bytes over time, from before it on."""
    psutil: Any = importlib.import_module("psutil")
    command = [sys.executable, "-c", _PROGRAM, str(pool), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        watched = psutil.Process(process.pid)
        sizes = [int(watched.memory_info().rss)]
        start = time.perf_counter()
        while process.poll() is None:
            try:
                sizes.append(int(watched.memory_info().rss))
            except psutil.Error:
                break
            time.sleep(_PAUSE_S)
        seconds = time.perf_counter() - start
        told = process.stdout.readline().split()
    if told != [str(expected), "0"]:
        raise RuntimeError(f"the import said {told}; expected {expected} trajectories and 0 bad")
    return seconds, [s for s in sizes if s]


def _rows(megabytes: float, seconds: float, sizes: list[float]) -> list[Row]:
    length = max(1, len(sizes) // _QUARTERS)
    peaks = [max(sizes[i : i + length]) for i in range(0, length * _QUARTERS, length) if sizes[i:]]
    by_quarter = ", ".join(f"{p:,.0f}" for p in peaks)
    work = f"import of a JSONL file of {megabytes:,.0f} MB"
    return [
        Row(
            work=f"{work}, resident memory",
            store="trajstore",
            value=max(sizes),
            unit="MB",
            note=f"peak; by quarter of the time {by_quarter}; before it {sizes[0]:,.0f}",
        ),
        Row(
            work=f"{work}, speed",
            store="trajstore",
            value=megabytes / seconds,
            unit="MB/s",
            note="parsed, searched for secrets, state keys hashed, durable",
        ),
    ]
