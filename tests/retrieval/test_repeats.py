"""The same again takes no place of k: attempts at one task, equal texts, near ones if asked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.retrieval.conftest import Fill, run
from trajstore import Pool
from trajstore.errors import RetrievalError
from trajstore.schema import Workflow

MODES = ["text", "vector", "hybrid"]
GOAL = "cancel the flight to Boston"


def attempts(count: int, task: str, goal: str, **values: Any) -> list[Any]:
    return [run(f"{task}-{n}", goal, task_id=task, **values) for n in range(count)]


@pytest.fixture
def crowded(fill: Fill) -> Pool:
    """Six attempts at the best answer, one more task with its very goal, and three others."""
    others = [
        run(f"o{n}", f"cancel the {w} booking") for n, w in enumerate(("hotel", "car", "bus"))
    ]
    return fill(*attempts(6, "a", GOAL), *attempts(2, "b", GOAL), *others)


def tasks(hits: Any) -> list[str]:
    return [h.task_id for h in hits]


@pytest.mark.parametrize("mode", MODES)
def test_without_bounds_the_attempts_at_one_task_take_every_place(mode: Any, crowded: Pool) -> None:
    assert set(tasks(crowded.search(GOAL, k=5, mode=mode))) <= {"a", "b"}


@pytest.mark.parametrize("mode", MODES)
def test_a_task_gives_no_more_hits_than_asked_and_others_fill_up(mode: Any, crowded: Pool) -> None:
    found = crowded.search(GOAL, k=5, mode=mode, per_task=1)
    assert sorted(tasks(found)) == ["a", "b", "task/o0", "task/o1", "task/o2"]
    assert found.cuts["per_task"] == 6
    assert tasks(crowded.search(GOAL, k=5, mode=mode, per_task=2)).count("a") == 2


@pytest.mark.parametrize("mode", MODES)
def test_equal_texts_take_one_place(mode: Any, crowded: Pool) -> None:
    found = crowded.search(GOAL, k=5, mode=mode, distinct=1)
    assert [h.text for h in found].count(GOAL) == 1
    assert len(found) == 4
    assert found.cuts["distinct"] == 7
    assert "are the same as a better hit" in found.explain()


def test_the_hit_that_stays_is_the_best_one(fill: Fill) -> None:
    store = fill(*attempts(3, "a", GOAL, success=False), *attempts(1, "b", GOAL))
    assert tasks(store.search(GOAL, distinct=1)) == ["b"]


def test_a_cosine_leaves_near_ones_out_too(fill: Fill) -> None:
    store = fill(
        run("x", "cancel the flight to Boston"),
        run("y", "cancel the flight to Boston!"),
        run("z", "bake a cake"),
    )
    assert len(store.search(GOAL, mode="vector", distinct=1)) == 3
    found = store.search(GOAL, mode="vector", distinct=0.9)
    assert [h.item_id for h in found] == ["x", "z"]
    assert found.cuts["distinct"] == 1


def test_k_come_back_where_a_thousand_repeats_stand_before_them(fill: Fill) -> None:
    """More of them than any list that a search looks through at first."""
    others = [run(f"o{n}", f"bake a cake {n}", success=False) for n in range(3)]
    store = fill(*attempts(1200, "a", GOAL), *others, levels=["trajectory"])
    for mode in ("vector", "hybrid"):
        found = store.search(GOAL, k=4, mode=mode, per_task=1)
        assert sorted(tasks(found)) == ["a", "task/o0", "task/o1", "task/o2"]


def test_items_without_a_task_are_bounded_by_none(fill: Fill) -> None:
    store = fill(embedder=None)
    flow = {"steps": "[]", "source": "test"}
    store.add_workflows([Workflow(name=f"sweep floor {n}", **flow) for n in range(3)])
    assert len(store.search("sweep", level="workflow", per_task=1)) == 3


def test_demonstrations_are_of_different_tasks_and_texts_unless_told_otherwise(
    crowded: Pool,
) -> None:
    prompt = crowded.few_shot(GOAL, k=3)
    assert len(prompt.shown) == 3
    assert len({s.task_id for s in prompt.shown} & {"a", "b"}) == 1
    asked = crowded.few_shot(GOAL, k=3, per_task=3, distinct=None)
    assert {s.task_id for s in asked.shown} <= {"a", "b"}
    assert ("per_task", 6) in {(x.reason, x.count) for x in prompt.left_out}


def test_what_is_left_out_as_the_same_is_named(crowded: Pool) -> None:
    found = crowded.search(GOAL, k=3, mode="vector", distinct=1)
    assert len(found.repeated) == 3
    assert found.cuts["distinct"] == 7
    left = [x.item_id for x in crowded.few_shot(GOAL, k=3).left_out if x.reason == "duplicate"]
    assert left == ["b-0"]


def test_steps_of_one_task_are_shown_side_by_side(crowded: Pool) -> None:
    shown = crowded.few_shot(GOAL, level="step", k=4, mode="text").shown
    assert len({s.task_id for s in shown}) < len(shown)


def test_repeats_go_before_variety_is_looked_for(crowded: Pool) -> None:
    found = crowded.search(GOAL, k=3, mode="vector", mmr=0.7, distinct=1)
    assert len({h.text for h in found}) == 3


@pytest.mark.parametrize(
    ("asked", "said"), [({"per_task": 0}, "1 or more"), ({"distinct": 2}, "0 to 1")]
)
def test_bounds_out_of_range_are_errors(asked: dict[str, Any], said: str, crowded: Pool) -> None:
    with pytest.raises(RetrievalError, match=said):
        crowded.search(GOAL, **asked)


def test_a_cosine_needs_vectors(fill: Fill) -> None:
    store = fill(*attempts(2, "a", GOAL), embedder="none")
    assert len(store.search(GOAL, distinct=1)) == 1
    with pytest.raises(RetrievalError, match="this index has none"):
        store.search(GOAL, distinct=0.9)
