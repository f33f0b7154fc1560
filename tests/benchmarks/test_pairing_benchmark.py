"""The benchmark of pairs, credit and filters: sides that give the same answers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from benchmarks import pairing
from benchmarks.measure import DisagreementError
from benchmarks.pairing import (
    DENSE,
    OURS,
    PANDAS,
    PLAIN,
    READ,
    SAID,
    STEP,
    TREE,
    WORKS,
    Files,
    measure,
)

HAS_PANDAS = importlib.util.find_spec("pandas") is not None


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"), 160)


@pytest.mark.parametrize("work", list(WORKS))
def test_all_sides_agree_and_have_something_to_say(work: str, files: Files) -> None:
    rows = measure(files, work, repeats=1, pandas=HAS_PANDAS)
    sides = [n for n in WORKS[work] if n != PANDAS or HAS_PANDAS]
    assert sorted(r.store for r in rows) == sorted(sides)
    assert len(WORKS[work][OURS](files)) > (0 if work in {DENSE, SAID, READ} else 10)


@pytest.mark.parametrize("work", [STEP, TREE])
def test_sides_agree_on_runs_that_begin_together(work: str, tmp_path: Path) -> None:
    together = Files(tmp_path, 80, together=3)
    rows = measure(together, work, repeats=1, pandas=False)
    assert [r.store for r in rows] == [OURS, PLAIN]


def test_a_side_with_another_answer_stops_the_benchmark(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {OURS: lambda _: [("a", 1.0)], "other": lambda _: [("a", 1.1)]}
    monkeypatch.setattr(pairing, "WORKS", {"w": wrong})
    with pytest.raises(DisagreementError, match="other differs from trajstore in 1 rows"):
        measure(files, "w", repeats=1, pandas=False)


def test_every_side_reads_the_same_steps(files: Files) -> None:
    (row,) = files.pool().sql("SELECT count(*) FROM steps").fetchall()
    assert row[0] == files.n_steps == sum(len(r["steps"]) for r in files.records())


def test_the_files_of_a_benchmark_lie_in_its_folder(files: Files) -> None:
    paths: list[Path] = [files.store, files.whole, files.runs, files.steps]
    assert len({p.parent for p in paths}) == 1
