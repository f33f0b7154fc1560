"""How much may be learnt at once, and clusters that leave no trace when they go."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from trajstore import Pool
from trajstore.memory import AdmissionLimits, Insights, Offer, StepLibrary, cluster_id
from trajstore.schema import Insight

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def offer(
    text: str,
    score: float,
    *,
    kind: str = "strategy",
    level: str = "task",
    seen: str | None = None,
    task: str | None = None,
) -> Offer:
    item = Insight(text=text, kind=kind, level=level, source="x", observation=seen, task_id=task)
    return Offer(insight=item, score=score)


def unlike(count: int) -> list[str]:
    """Texts of which no two are alike."""
    return [LETTERS[n] * 20 for n in range(count)]


def texts(store: Pool, kind: str = "strategy") -> set[str]:
    return {i.text for i in Insights(store).all(kind=kind)}


def library(store: Pool, **limits: object) -> StepLibrary:
    return StepLibrary(store, limits=AdmissionLimits(**limits))  # type: ignore[arg-type]


def reasons(refused: Sequence[tuple[str, str]]) -> list[str]:
    return [why for _, why in refused]


def test_ten_strategies_and_five_warnings_come_in_at_a_time(store: Pool) -> None:
    offers = [offer(t, n) for n, t in enumerate(unlike(12))]
    offers += [offer(t, n, kind="warning") for n, t in enumerate(unlike(7))]
    done = library(store).admit(offers)
    assert texts(store) == set(unlike(12)[2:])
    assert texts(store, "warning") == set(unlike(7)[2:])
    assert reasons(done.refused) == ["rate"] * 4


def test_what_is_alike_is_not_new(store: Pool) -> None:
    # difflib: 2 * 17 / 40 = 0.85, which is as much as is allowed; 2 * 16 / 40 = 0.8 is new.
    done = library(store).admit(
        [offer("a" * 20, 3), offer("a" * 17 + "bcd", 2), offer("a" * 16 + "efgh", 1)]
    )
    assert reasons(done.refused) == ["not new"]
    assert texts(store) == {"a" * 20, "a" * 16 + "efgh"}
    again = library(store).admit([offer("a" * 18 + "xy", 9)])
    assert reasons(again.refused) == ["not new"]


def test_a_full_level_takes_only_what_is_better_than_its_worst(store: Pool) -> None:
    one, two, three, four = unlike(4)
    small = library(store, strategy_capacity=2)
    small.admit([offer(one, 0.5), offer(two, 0.7)])
    assert reasons(small.admit([offer(three, 0.5)]).refused) == ["no better than the worst"]
    done = small.admit([offer(four, 0.6)])
    assert texts(store) == {two, four}
    assert len(done.evicted) == 1
    assert {i.state for i in Insights(store).all(every=True)} == {None, "retired"}


def test_what_made_room_may_come_back(store: Pool) -> None:
    one, two = unlike(2)
    small = library(store, strategy_capacity=1)
    small.admit([offer(one, 0.1)])
    small.admit([offer(two, 0.2)])
    library(store, strategy_capacity=2).admit([offer(one, 0.1)])
    assert texts(store) == {one, two}


def test_levels_and_kinds_have_room_of_their_own(store: Pool) -> None:
    small = library(store, strategy_capacity=1, warning_capacity=1)
    done = small.admit(
        [
            offer("a" * 20, 1),
            offer("b" * 20, 1, level="step", seen="x"),
            offer("c" * 20, 1, kind="warning"),
        ]
    )
    assert done.refused == ()


def test_nothing_is_shown_while_a_run_warms_up_or_the_library_is_small(store: Pool) -> None:
    steps = [offer(t, 1, level="step", seen="a locked door") for t in unlike(10)]
    few = library(store)
    few.admit(steps[:9])
    assert few.recall("a locked door", step=5) == []
    few.admit(steps[9:])
    assert few.recall("a locked door", step=4) == []
    assert len(few.recall("a locked door", step=5)) == 2


def test_two_strategies_and_one_warning_fit_in_800_characters(store: Pool) -> None:
    long = [offer(letter * 300, n, level="step", seen="door") for n, letter in enumerate("abc")]
    warning = offer("w" * 300, 1, kind="warning", level="step", seen="door")
    open_ = library(store, least_items=0)
    open_.admit([*long, warning])
    assert [i.text[0] for i in open_.recall("door", step=9)] == ["c", "b"]
    wide = library(store, least_items=0, characters=900)
    assert [i.text[0] for i in wide.recall("door", step=9)] == ["c", "b", "w"]


def test_observations_that_begin_alike_are_one_cluster_of_their_task(store: Pool) -> None:
    steps = library(store, least_items=0)
    steps.admit([offer("turn back", 1, level="step", seen="a" * 500, task="t")])
    same = "a" * 470 + "b" * 30 + "beyond what is compared"
    assert steps.cluster_of(same, task_id="t") == cluster_id("t", "a" * 500)
    assert steps.cluster_of("b" * 500, task_id="t") == cluster_id("t", "b" * 500)
    assert steps.cluster_of(same, task_id="u") == cluster_id("u", same)
    assert [i.text for i in steps.recall(same, task_id="t", step=9)] == ["turn back"]
    assert steps.recall(same, task_id="u", step=9) == []


def test_after_eviction_the_same_text_makes_a_new_cluster(store: Pool) -> None:
    # SLEA-RL looked the key up by half of it, so evicted clusters stayed matchable.
    small = library(store, strategy_capacity=1, least_items=0)
    small.admit([offer("a" * 20, 1, level="step", seen="the door is locked", task="t")])
    old = small.cluster_of("the door is locked!", task_id="t")
    assert old == cluster_id("t", "the door is locked")
    small.admit([offer("b" * 20, 2, level="step", seen="a wide river", task="t")])
    assert list(small.clusters()) == [cluster_id("t", "a wide river")]
    new = small.cluster_of("the door is locked!", task_id="t")
    assert new == cluster_id("t", "the door is locked!") != old
    assert small.recall("the door is locked!", task_id="t", step=9) == []


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_cluster_has_the_same_id_in_every_process(seed: str) -> None:
    program = "from trajstore.memory import cluster_id; print(cluster_id('t', 'the door'))"
    out = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
    )
    assert out.stdout.strip() == cluster_id("t", "the door")
