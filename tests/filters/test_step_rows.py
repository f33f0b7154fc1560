from __future__ import annotations

from pathlib import Path

import pytest

from tests.filters.frames import bash, run, stored
from trajstore.filters import Frame, step_rows
from trajstore.filters.step_rows import by_blocks


def names(ids: str) -> str:
    return f"SELECT trajectory_id, arguments FROM tool_calls WHERE {ids}"


def blocks(frame: Frame) -> list[tuple[list[str], list[str]]]:
    return [
        (rows.column("trajectory_id").to_pylist(), found.column("trajectory_id").to_pylist())
        for rows, found in by_blocks(frame, names)
    ]


RUNS = [run(f"{i:03}", bash("ls"), bash("pwd")) for i in range(12)]


def test_few_runs_are_one_block(tmp_path: Path) -> None:
    ids = [r.trajectory_id for r in RUNS]
    assert blocks(stored(tmp_path, *RUNS)) == [(ids, sorted(ids * 2))]


def test_only_runs_of_the_frame_come_back(tmp_path: Path) -> None:
    frame = stored(tmp_path, *RUNS)
    part = Frame(frame.rows.slice(2, 2), frame.steps)
    assert blocks(part) == [(["002", "003"], ["002", "002", "003", "003"])]


def test_many_runs_are_asked_for_by_range_and_still_only_they_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_rows, "_IDS_IN_SQL", 1)
    frame = stored(tmp_path, *RUNS)
    part = Frame(frame.rows.take([1, 5, 9]), frame.steps)
    assert blocks(part) == [(["001", "005", "009"], ["001", "001", "005", "005", "009", "009"])]


def test_blocks_are_bounded_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_rows, "_STEPS_A_BLOCK", 6)
    sizes = [len(ids) for ids, _ in blocks(stored(tmp_path, *RUNS))]
    assert (sum(sizes), max(sizes)) == (12, 3)


def test_blocks_are_bounded_in_bytes(tmp_path: Path) -> None:
    most = RUNS[0].size_bytes * 3
    found = by_blocks(stored(tmp_path, *RUNS), names, block_bytes=most)
    sizes = [rows.num_rows for rows, _ in found]
    assert (sum(sizes), max(sizes)) == (12, 3)


def test_a_run_larger_than_a_block_is_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_rows, "_STEPS_A_BLOCK", 1)
    assert [len(ids) for ids, _ in blocks(stored(tmp_path, *RUNS))] == [1] * 12


def test_no_runs_are_no_blocks(tmp_path: Path) -> None:
    frame = stored(tmp_path, *RUNS)
    assert blocks(Frame(frame.rows.slice(0, 0), frame.steps)) == []
