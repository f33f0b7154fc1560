from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from trajstore import Pool
from trajstore import open as open_store
from trajstore.rollouts import (
    Action,
    CalculatorEnvironment,
    Limits,
    Response,
    ScriptedPolicy,
    calculator_tasks,
    record_rollouts,
)

TASKS = calculator_tasks(6, seed=2)
ROOT = Path(__file__).resolve().parents[2]

KILLED = """
import sys, time
from trajstore import open as open_store
from trajstore.rollouts import CalculatorEnvironment, Limits, ScriptedPolicy, calculator_tasks
from trajstore.rollouts import record_rollouts

class Slow(CalculatorEnvironment):
    def reset(self, task):
        time.sleep(0.05 if task.task_id in early else 60)
        return super().reset(task)

tasks = calculator_tasks(12, seed=2)
early = {t.task_id for t in tasks[:10]}
store = open_store(sys.argv[1])
told = lambda done, of: print(done, flush=True)
limits = Limits(concurrency=4)
record_rollouts(store, Slow, [ScriptedPolicy()], tasks, limits=limits, commit_s=0.2, progress=told)
"""


class Counting:
    """Does nothing of use and counts how often it is asked; fails when told to."""

    agent, model, version = "counting", None, "1"

    def __init__(self) -> None:
        self.asked = 0
        self.failing = False

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        del messages, tools, seed
        self.asked += 1
        if self.failing:
            raise OSError("the server is down")
        return Response(
            action=Action(text="Hm."),
            prompt_token_ids=(1, 2),
            completion_token_ids=(3, 4),
            logprobs=(-0.5, -0.25),
        )


def record(pool: Pool, policy: Any, **options: Any) -> Any:
    return record_rollouts(
        pool, CalculatorEnvironment, [policy], TASKS, limits=Limits(max_steps=1), **options
    )


def test_tokens_and_logprobs_of_each_step_are_in_the_store(pool: Pool) -> None:
    record(pool, Counting())
    (row,) = pool.sql(
        "select count(*), any_value(prompt_token_ids), any_value(completion_token_ids), "
        "any_value(logprobs) from steps where actor = 'agent'"
    ).fetchall()
    assert row == (6, [1, 2], [3, 4], [-0.5, -0.25])


def test_resuming_asks_only_for_what_is_missing(pool: Pool) -> None:
    policy = Counting()
    first = record(pool, policy, attempts=1)
    more = record(pool, policy, attempts=2, resume=True)
    assert (first.added, first.skipped, more.added, more.skipped) == (6, 0, 6, 6)
    assert policy.asked == 12


def test_what_failed_for_technical_reasons_is_tried_again(pool: Pool) -> None:
    policy = Counting()
    policy.failing = True
    assert record(pool, policy).policies["1"].errors == 6
    policy.failing = False
    again = record(pool, policy, resume=True)
    assert (again.skipped, again.policies["1"].errors) == (0, 0)
    (row,) = pool.sql(
        "select count(*), count(*) filter (status = 'error') from trajectories"
    ).fetchall()
    assert row == (6, 0)


def test_progress_counts_what_was_left_out(pool: Pool) -> None:
    told: list[tuple[int, int]] = []
    record(pool, Counting())
    record(
        pool,
        Counting(),
        attempts=2,
        resume=True,
        progress=lambda done, of: told.append((done, of)),
    )
    assert told[-1] == (12, 12)


def ended(store: Pool) -> tuple[int, int]:
    """Attempts that are stored, and those that succeeded."""
    (row,) = store.sql(
        "select count(*), coalesce(sum(success::int), 0) from trajectories"
    ).fetchall()
    return int(row[0]), int(row[1])


def test_a_process_that_is_killed_loses_only_what_had_not_ended(tmp_path: Path) -> None:
    """Ten of twelve attempts end; then SIGKILL, which nobody can prepare for."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "pool")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if line == "10\n":
                break
        store = open_store(tmp_path / "pool")
        ends = time.monotonic() + 60
        while ended(store) != (10, 10) and time.monotonic() < ends:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert ended(store) == (10, 10)
    done = record_rollouts(
        store, CalculatorEnvironment, [ScriptedPolicy()], calculator_tasks(12, seed=2), resume=True
    )
    assert (done.skipped, done.added) == (10, 2)


@pytest.mark.parametrize("options", [{}, {"resume": True}], ids=["again", "resumed"])
def test_the_same_call_adds_nothing_the_second_time(pool: Pool, options: dict[str, Any]) -> None:
    added = [record(pool, ScriptedPolicy(), **options).added for _ in range(2)]
    assert added == [6, 0]
