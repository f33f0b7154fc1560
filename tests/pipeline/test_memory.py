"""Memory stays flat as files grow, and one large observation is not multiplied."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trajstore.importers import to_jsonl_record
from trajstore.testing import generate

MEGA = 1_000_000

PROGRAM = """
import sys, trajstore
def line(name):
    return next(l for l in open('/proc/self/status') if name in l).split()[1]
store = trajstore.open(sys.argv[1], durable=False)
store.import_files(sys.argv[2])
before = int(line('VmRSS'))
import pathlib
pathlib.Path('/proc/self/clear_refs').write_text('5')
report = store.import_files(sys.argv[3])
print(report.added, report.bad, (int(line('VmHWM')) - before) * 1024)
"""


def imported(folder: Path, first: Path, second: Path) -> tuple[int, int, int]:
    """Runs added, bad records, and bytes of memory above the level after the first import."""
    command = [sys.executable, "-c", PROGRAM, str(folder / "pool"), str(first), str(second)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    added, bad, peak = map(int, done.stdout.split())
    return added, bad, peak


def write(path: Path, size: int, prefix: str) -> int:
    """A file of about ``size`` bytes, and how many runs it holds."""
    records = [to_jsonl_record(r) for r in generate(100, seed=4)]
    count = 0
    with path.open("w") as file:
        while file.tell() < size:
            for record in records:
                count += 1
                file.write(json.dumps({**record, "trajectory_id": f"{prefix}{count}"}) + "\n")
    return count


@pytest.mark.slow
def test_a_file_five_times_as_large_needs_no_more_memory(tmp_path: Path) -> None:
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    write(small, 60 * MEGA, "s")
    count = write(large, 300 * MEGA, "l")
    added, bad, peak = imported(tmp_path, small, large)
    assert (added, bad) == (count, 0)
    assert peak < 150 * MEGA


@pytest.mark.slow
def test_one_large_observation_is_not_multiplied(tmp_path: Path) -> None:
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    write(small, 20 * MEGA, "s")
    count = write(large, 20 * MEGA, "l")
    text = "a line of a log that goes on and on\n" * (100 * MEGA // 36)
    steps = [{"actor": "agent", "text": "look", "observations": [{"text": text}]}]
    with large.open("a") as file:
        file.write(json.dumps({"task_id": "t/1", "goal": "g", "steps": steps}) + "\n")
        count += 1
    added, bad, peak = imported(tmp_path, small, large)
    assert (added, bad) == (count, 0)
    assert peak < 6 * len(text)
