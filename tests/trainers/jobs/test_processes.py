"""How the processes of a job divide its work, without starting any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.trainers.jobs.conftest import TRAINING, WriteJob
from tests.trainers.jobs.stand import ROLLOUTS, pool
from trajstore.store import Store
from trajstore.trainers.jobs.processes import ALONE, Processes, launched
from trajstore.trainers.jobs.start import open_job

pytest.importorskip("torch")
pytest.importorskip("transformers")
__all__ = ["pool"]
pytestmark = pytest.mark.filterwarnings("ignore")


def test_shares_are_all_items_and_none_twice() -> None:
    items = list(range(11))
    shares = [Processes(rank, 3).share(items) for rank in range(3)]
    assert sorted(i for share in shares for i in share) == items
    assert {len(share) for share in shares} == {3, 4}


def test_a_process_that_nobody_launched_is_alone() -> None:
    assert launched() is ALONE
    assert ALONE.first
    assert ALONE.once(lambda: 7) == 7


def test_where_a_server_samples_the_first_process_asks_it_all(
    write_job: WriteJob, pool: Path
) -> None:
    job = open_job("grpo", write_job(TRAINING, ROLLOUTS), store=Store(pool, durable=False))
    shares = {}
    for policy in ("transformers", "vllm"):
        job.config = replace(
            job.config, rollouts=replace(job.config.need_rollouts(), policy=policy, url="http://s")
        )
        for job.processes in (Processes(0, 2), Processes(1, 2)):
            shares[policy, job.processes.rank] = len(job.share(job.tasks.train))
    assert list(shares.values()) == [3, 3, 6, 0]
