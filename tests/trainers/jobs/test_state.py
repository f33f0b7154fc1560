from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trajstore.errors import TrainingError
from trajstore.trainers.jobs.state import JobState
from trajstore.trainers.metrics import read_metrics


def begin(folder: Path, digest: str = "d", **how: bool) -> JobState:
    return JobState.begin(folder, digest, **{"resume": False, "fresh": False, **how})


def test_what_was_kept_is_there_at_the_next_start(tmp_path: Path) -> None:
    begin(tmp_path / "job").remember("iteration", {"rate": 0.5})
    assert begin(tmp_path / "job").recall("iteration") == {"rate": 0.5}
    assert begin(tmp_path / "job").recall("other", 3) == 3


def test_lines_behind_the_last_kept_value_are_written_anew(tmp_path: Path) -> None:
    first = begin(tmp_path / "job")
    first.log({"n": 1})
    first.remember("done", 1)
    first.log({"n": 2})
    second = begin(tmp_path / "job")
    second.log({"n": 3})
    assert [m["n"] for m in read_metrics(tmp_path / "job" / "metrics.jsonl")] == [1, 3]


def test_another_file_does_not_go_on_with_a_job(tmp_path: Path) -> None:
    begin(tmp_path / "job")
    with pytest.raises(TrainingError, match="was started with another file"):
        begin(tmp_path / "job", "e")
    assert begin(tmp_path / "job", "e", fresh=True).recall("digest") == "e"


def test_two_processes_never_work_in_one_folder(tmp_path: Path) -> None:
    """The lock goes with the process that holds it, whatever ends that."""
    program = (
        "import sys; from pathlib import Path; from trajstore.trainers.jobs.state import JobState\n"
        "job = JobState.begin(Path(sys.argv[1]), 'd', resume=False, fresh=False)\n"
        "print('begun', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "job")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"begun\n"
        for fresh in (False, True):
            with pytest.raises(TrainingError, match="Another process works at the job in"):
                begin(tmp_path / "job", fresh=fresh)
        other.kill()
    assert begin(tmp_path / "job").recall("digest") == "d"


def test_resuming_needs_something_to_go_on_from(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="holds no job to go on from"):
        begin(tmp_path / "job", resume=True)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(TrainingError, match="holds other files"):
            begin(tmp_path, fresh=fresh)
    assert (tmp_path / "precious.txt").read_text() == "mine"
