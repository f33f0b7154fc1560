"""What rounds of sampling and training share, whichever loss they have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.jobs.conftest import WriteJob
from tests.trainers.jobs.stand import ROLLOUTS, SHORT, Stand, pool
from trajstore.store import Store
from trajstore.trainers import read_metrics
from trajstore.trainers.jobs.grpo import run_grpo
from trajstore.trainers.jobs.start import open_job

pytest.importorskip("torch")
pytest.importorskip("transformers")
__all__ = ["pool"]
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def online(write_job: WriteJob, pool: Path) -> Callable[..., Stand]:
    def opened(**given: Any) -> Stand:
        own = '[grpo]\nratio = "snapshot"\nattempts = 4\niterations = 2\n'
        file = write_job(SHORT, ROLLOUTS, own, store=pool)
        return Stand(open_job("grpo", file, store=Store(pool, durable=False)), **given)

    return opened


def test_weights_are_named_by_folder_as_a_server_reads_them(online: Callable[..., Stand]) -> None:
    stand = online()
    run_grpo(stand.job)
    folder = stand.job.folder
    assert stand.given == [stand.job.base, folder / "iteration-1", folder / "iteration-2"]


@pytest.mark.parametrize("round_", [1, 2])
def test_a_job_that_was_killed_in_a_round_has_each_line_of_metrics_once(
    online: Callable[..., Stand], round_: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_grpo(online(fails_at=round_ + 1).job)
    stand = online()
    report = run_grpo(stand.job)
    lines = read_metrics(stand.job.folder / "metrics.jsonl")
    told = [line.get("version", line.get("iteration")) for line in lines]
    assert told == ["iteration-0", 1, "iteration-1", 2, "iteration-2"]
    rates = [line["held_out/success_rate"] for line in lines if "version" in line]
    assert report.results["held_out"] == rates
