"""Searches that go on where they were: what is stored as a whole tree is not searched again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import trajstore
from tests.rollouts.lats_world import TASK, Doors, Gambler, make
from trajstore import Pool
from trajstore.rollouts import (
    FreshSeeds,
    Limits,
    Observed,
    ScriptedShopper,
    SearchOptions,
    Task,
    WebShopEnvironment,
    first_error,
    record_searches,
    shop_tasks,
)

OPTIONS = SearchOptions(iterations=6, expand=3, depth=5, concurrency=1, stop_on_success=False)
TASKS = [replace(TASK, task_id=f"doors/{number}") for number in range(4)]
ROOT = Path(__file__).resolve().parents[2]

KILLED = """
import sys, time
from trajstore import open as open_store
from trajstore.rollouts import FreshSeeds, Limits, ScriptedShopper, SearchOptions
from trajstore.rollouts import WebShopEnvironment, first_error, record_searches, shop_tasks

tasks = shop_tasks(5, seed=1)

class Slow(WebShopEnvironment):
    def reset(self, task):
        time.sleep(0 if task in tasks[:3] else 60)
        return super().reset(task)

told = lambda done, of: print(done, flush=True)
options = SearchOptions(iterations=10, expand=3, reflect=first_error)
record_searches(open_store(sys.argv[1]), Slow, [FreshSeeds(ScriptedShopper("hasty"))], tasks,
    options=options, limits=Limits(concurrency=2), progress=told)
"""


@pytest.fixture
def store(tmp_path: Path) -> Pool:
    return trajstore.open(tmp_path / "pool", durable=False)


def record(store: Pool, policy: Any, count: int = 4, **options: Any) -> Any:
    return record_searches(store, make, [policy], TASKS[:count], options=OPTIONS, **options)


def test_resuming_asks_only_at_tasks_without_a_tree(store: Pool) -> None:
    policy = Gambler(0.5)
    first = record(store, policy, 3)
    asked = len(policy.asked)
    more = record(store, policy, 4, resume=True)
    assert (first.skipped, more.skipped, more.policies["1"].attempts) == (0, 3, 1)
    assert len(policy.asked) - asked == more.policies["1"].calls > 0


def test_another_seed_or_another_option_is_another_tree(store: Pool) -> None:
    record(store, Gambler(0.5))
    assert record(store, Gambler(0.5), resume=True).skipped == 4
    assert record(store, Gambler(0.5), resume=True, seed=1).skipped == 0
    longer = replace(OPTIONS, iterations=7)
    done = record_searches(store, make, [Gambler(0.5)], TASKS, options=longer, resume=True)
    assert done.skipped == 0


def test_a_search_that_failed_for_technical_reasons_is_done_again_once(store: Pool) -> None:
    class Broken(Gambler):
        def act(self, messages: Any, tools: Any, *, seed: int) -> Any:
            if len(self.asked) > 8:
                raise OSError("the server is down")
            return super().act(messages, tools, seed=seed)

    broken = record(store, Broken(0.5), 1)
    assert "the server is down" in str(broken.first_error)
    again, third = (record(store, Gambler(0.5), 1, resume=True) for _ in range(2))
    assert (again.skipped, again.first_error, third.skipped) == (0, None, 1)


def test_progress_counts_the_trees_that_were_there(store: Pool) -> None:
    told: list[tuple[int, int]] = []
    record(store, Gambler(0.5), 2)
    record(
        store, Gambler(0.5), resume=True, progress=lambda done, total: told.append((done, total))
    )
    assert told == [(3, 4), (4, 4)]


def test_a_tree_is_stored_as_its_search_ends_whatever_came_before_it(store: Pool) -> None:
    """The first search goes on only once all others are in the store."""
    others = Event()

    class Waiting(Doors):
        def reset(self, task: Task) -> Observed:
            assert task is not TASKS[0] or others.wait(60)
            return super().reset(task)

    def told(done: int, total: int) -> None:
        if done == total - 1:
            others.set()

    limits = Limits(concurrency=2)
    done = record_searches(
        store, Waiting, [Gambler(0.5)], TASKS, options=OPTIONS, limits=limits, progress=told
    )
    assert (done.policies["1"].attempts, done.first_error) == (4, None)


def test_a_killed_search_leaves_whole_trees_and_goes_on_to_what_it_would_have_been(
    tmp_path: Path,
) -> None:
    """Three of five searches end; then SIGKILL. The other store was never interrupted."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "killed")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if line == "3\n":
                break
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    stores = {name: trajstore.open(tmp_path / name) for name in ("killed", "whole")}
    done = {
        name: record_searches(
            store,
            WebShopEnvironment,
            [FreshSeeds(ScriptedShopper("hasty"))],
            shop_tasks(5, seed=1),
            options=SearchOptions(iterations=10, expand=3, reflect=first_error),
            resume=True,
        )
        for name, store in stores.items()
    }
    assert (done["killed"].skipped, done["whole"].skipped) == (3, 0)
    query = """select (select list(trajectory_id order by trajectory_id) from trajectories) runs,
        (select count(*) from labels) labels, (select count(*) from reflections) lessons"""
    killed, whole = (s.query(query).read_all().to_pylist() for s in stores.values())
    assert killed == whole
