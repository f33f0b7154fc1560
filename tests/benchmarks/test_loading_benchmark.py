"""The benchmark of loading: batches come from the store, and steps learn from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.loading import Size, Trainee, Workload, measure

pytest.importorskip("transformers")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TINY = Size(name="step", layers=1, hidden=32, batch=2)


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    folder: Path = tmp_path_factory.mktemp("loading")
    return Workload(9, folder, vocabulary=600)


def test_each_batch_is_loaded_and_trained_on(workload: Workload) -> None:
    rows = measure(workload, repeats=1, sizes=[TINY])
    assert [r.store for r in rows] == ["trajstore", "step"]
    assert all(r.value > 0 for r in rows)


def test_a_step_learns_from_its_batch(workload: Workload) -> None:
    trainee = Trainee(TINY, len(workload.tokenizer))
    batch = workload.load(2)
    losses = [trainee.step(batch) for _ in range(5)]
    assert losses[-1] < losses[0]
