from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from trajstore.rollouts import Task, calculator_tasks
from trajstore.trainers.jobs.curriculum import TaskChooser
from trajstore.trainers.jobs.stored import task_draw

TASKS = tuple(calculator_tasks(20, seed=1, kind="arithmetic"))


def ids(tasks: list[Task]) -> list[str]:
    return [t.task_id for t in tasks]


def chooser(choice: Any, explore: float = 0.0) -> TaskChooser:
    return TaskChooser(tasks=TASKS, choice=choice, explore=explore, seed=0)


def tried(passes: dict[int, int], attempts: int = 8) -> pa.Table:
    """Runs at tasks by their place: so many of ``attempts`` passed."""
    rows = [
        {
            "trajectory_id": f"{place}-{n}",
            "task_id": TASKS[place].task_id,
            "success": n < count,
            "reward": float(n < count),
            "n_agent_steps": 2,
            "policy_version": "grpo-s0/iteration-0",
        }
        for place, count in passes.items()
        for n in range(attempts)
    ]
    return pa.Table.from_pylist(rows) if rows else pa.table({"task_id": pa.array([], pa.string())})


NEVER = tried({})


def test_every_task_comes_before_one_comes_again() -> None:
    drawn = [i for n in range(8) for i in ids(task_draw(TASKS, n * 5, 5, seed=0))]
    assert Counter(drawn[:20]) == Counter(ids(list(TASKS)))
    assert Counter(drawn[20:]) == Counter(ids(list(TASKS)))
    assert drawn[:20] != drawn[20:]


def test_a_draw_over_the_end_of_a_round_holds_no_task_twice() -> None:
    for start in range(40):
        drawn = ids(task_draw(TASKS, start, 15, seed=2))
        assert len(set(drawn)) == len(drawn) == 15


def test_a_draw_holds_no_more_tasks_than_there_are() -> None:
    assert sorted(ids(task_draw(TASKS, 7, 50, seed=0))) == sorted(ids(list(TASKS)))


def test_another_seed_gives_another_order() -> None:
    assert ids(task_draw(TASKS, 0, 20, seed=0)) != ids(task_draw(TASKS, 0, 20, seed=1))


def test_nothing_is_known_at_the_start() -> None:
    found = chooser("variance").chosen(NEVER, 5, place=0, solved=[], rounds=4)
    assert ids(found) == ids(task_draw(TASKS, 0, 5, seed=0))


def test_tasks_that_are_passed_sometimes_come_more_often() -> None:
    """By p(1 - p) with a prior of one pass and one failure: 0.25 against 0.09."""
    passes = {place: (0 if place < 8 else 8) for place in range(16)} | dict.fromkeys(
        range(16, 20), 4
    )
    counts: Counter[str] = Counter()
    for place in range(40):
        counts.update(
            ids(chooser("variance").chosen(tried(passes), 4, place=place, solved=[0.5], rounds=4))
        )
    middle = [counts[TASKS[n].task_id] for n in range(16, 20)]
    others = [counts[TASKS[n].task_id] for n in range(16)]
    assert sum(middle) / 4 > 1.5 * sum(others) / 16


def test_some_tasks_are_new_where_there_is_a_curriculum() -> None:
    known = dict.fromkeys(range(10), 4)
    found = chooser("variance", explore=0.5).chosen(
        tried(known), 8, place=1, solved=[0.5], rounds=4
    )
    fresh = [t for t in found if t in TASKS[10:]]
    assert (len(found), len(fresh)) == (8, 4)


def test_levels_rise_with_what_is_solved() -> None:
    """At first L1 and L2 with a little L3; after rounds above 70 % the hard ones come too."""
    passes = {place: 8 - place // 3 for place in range(20)}
    easy = chooser("levels").chosen(tried(passes), 6, place=0, solved=[0.5], rounds=4)
    hard = chooser("levels").chosen(tried(passes), 6, place=0, solved=[0.8] * 3, rounds=4)
    rate = {TASKS[p].task_id: n for p, n in passes.items()}
    assert sum(rate[i] for i in ids(hard)) < sum(rate[i] for i in ids(easy))


@pytest.mark.parametrize("choice", ["levels", "variance", "target"])
def test_as_many_tasks_come_as_were_asked_for(choice: Any) -> None:
    """Also where the curriculum has fewer: all known tasks are passed always."""
    found = chooser(choice).chosen(
        tried(dict.fromkeys(range(20), 8)), 7, place=2, solved=[1.0], rounds=4
    )
    assert len(set(ids(found))) == 7
