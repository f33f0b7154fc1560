"""With memory an agent solves what it does not solve without: counted by SQL over recorded uses."""

from __future__ import annotations

from typing import Literal

import pytest

from docs.examples.memory import imitator
from trajstore import Pool
from trajstore import open as open_store
from trajstore.rollouts import Task, calculator_tasks

Kind = Literal["arithmetic", "two-hop"]


def known(kind: Kind, count: int = 80) -> list[Task]:
    return calculator_tasks(count, seed=1, kind=kind)


def held_out(count: int = 30) -> list[Task]:
    seen = {t.task_id for t in known("arithmetic")}
    tasks = calculator_tasks(count, seed=2, kind="arithmetic")
    return [t for t in tasks if t.task_id not in seen]


def numbers(pool: Pool) -> list[tuple[bool, int, int]]:
    return [row[:3] for row in pool.sql(imitator.NUMBERS).fetchall()]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    pool = open_store(tmp_path_factory.mktemp("tried") / "pool", durable=False)
    imitator.experience(pool, known("arithmetic"))
    imitator.compare(pool, held_out())
    return pool


def test_an_agent_with_memory_beats_the_same_agent_without(tried: Pool) -> None:
    tasks = len(held_out())
    (_, runs, plain), (_, given, better) = numbers(tried)
    assert (runs, given) == (tasks, tasks)
    assert plain == 0
    assert better >= 0.6 * tasks


def test_every_run_with_memory_says_what_it_was_given(tried: Pool) -> None:
    query = """
        SELECT count(DISTINCT u.trajectory_id), bool_and(g.success), bool_or(g.task_id = t.task_id)
        FROM uses u JOIN trajectories t USING (trajectory_id)
        JOIN trajectories g ON g.trajectory_id = u.item_id"""
    given, successes, own = tried.sql(query).fetchall()[0]
    assert (given, successes, own) == (len(held_out()), True, False)


def test_memory_of_other_tasks_helps_nobody(pool: Pool) -> None:
    imitator.experience(pool, known("two-hop", 40))
    imitator.compare(pool, held_out(10))
    assert [successes for _, _, successes in numbers(pool)] == [0, 0]


def test_the_model_knows_only_what_its_prompt_shows() -> None:
    task = held_out(1)[0]
    alone = imitator.reply([{"role": "user", "content": f"Your task:\n{task.goal}"}])
    assert alone["tool"] == "finish"
    assert alone["arguments"]["answer"] != task.answer
