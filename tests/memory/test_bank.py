"""Skill banks: the published arithmetic to five places, and banks that follow their rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from trajstore import Label, Pool, Trajectory
from trajstore.errors import MemoryItemError
from trajstore.memory import (
    BankOptions,
    Candidate,
    Insights,
    MemRLOptions,
    SkillBank,
    by_embedding,
    exemplars,
    memrl_rank,
    memrl_scores,
    pin_exemplars,
    record_uses,
)
from trajstore.memory.bank_scores import bonus, eviction_order, moved, score, task_gap

# algorithms.md B4: a .1, c .05, N 40.
ITEMS = [
    Candidate(item_id="A", similarity=0.80, utility=0.30, uses=10),
    Candidate(item_id="B", similarity=0.78, utility=0.10, uses=0),
    Candidate(item_id="C", similarity=0.60, utility=0.50, uses=30),
]
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def test_bonus_and_score_are_those_of_the_paper() -> None:
    assert [round(bonus(i.uses, 40), 5) for i in ITEMS] == [0.02905, 0.09635, 0.01731]
    assert [round(score(i, 40), 5) for i in ITEMS] == [0.38615, 0.26572, 0.54557]


def test_the_least_useful_goes_first_and_the_protected_one_stays() -> None:
    assert eviction_order(ITEMS, 40) == ["B", "A", "C"]
    assert eviction_order(ITEMS, 40, protected={"B"}) == ["A", "C"]
    values = [round(i.utility + bonus(i.uses, 40), 5) for i in ITEMS]
    assert values == [0.32905, 0.19635, 0.51731]


def test_equal_items_go_by_id() -> None:
    same = [Candidate(item_id=name) for name in "cab"]
    assert eviction_order(same, 0) == ["a", "b", "c"]


def test_a_gap_moves_a_utility_half_way() -> None:
    assert task_gap([1, 1, 0, 1], [0, 1, 0, 0]) == 0.5
    assert moved(0.2, 0.5) == pytest.approx(0.35)


@pytest.mark.parametrize("sides", [([], [1.0]), ([1.0], [])], ids=["given", "without"])
def test_a_gap_needs_both_sides(sides: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="both sides"):
        task_gap(*sides)


def test_memrl_ranks_by_standardised_similarity_and_q() -> None:
    found = memrl_scores([0.9, 0.8, 0.7], [-0.5, 0.5, 0.9])
    # B4 rounds what it sums: (1.2247 - 1.3587) / 2 = -0.067, .3397 / 2, (1.019 - 1.2247) / 2.
    assert found == pytest.approx([-0.0670, 0.1698, -0.1028], abs=1e-4)


def test_memrl_standardises_by_given_statistics_and_clips_q() -> None:
    options = MemRLOptions(similarity=(0.5, 0.1), clip=1.0)
    found = memrl_scores([0.7, 0.6], [1.0, -1.0], options)
    assert found == pytest.approx([0.5 * 2 + 0.5, 0.5 * 1 - 0.5])
    assert memrl_scores([0.5, 0.5], [0.3, 0.3]) == [0.0, 0.0]
    assert memrl_scores([], []) == []


def test_memrl_leaves_out_what_is_unlike_or_did_harm() -> None:
    items = [
        Candidate(item_id="unlike", similarity=0.49, utility=1.0),
        Candidate(item_id="harmful", similarity=0.9, utility=-0.9),
        Candidate(item_id="good", similarity=0.5, utility=0.5),
        Candidate(item_id="better", similarity=0.6, utility=0.5),
    ]
    options = MemRLOptions(epsilon=0.0)
    assert memrl_rank(items, k=5, seed=0, options=options) == ["better", "good"]
    assert memrl_rank(items, k=1, seed=0, options=options) == ["better"]


def test_memrl_explores_by_seed() -> None:
    items = [Candidate(item_id=str(n), similarity=0.9, utility=n / 10) for n in range(6)]
    always = MemRLOptions(epsilon=1.0)
    orders = {tuple(memrl_rank(items, k=6, seed=s, options=always)) for s in range(9)}
    assert len(orders) > 1
    assert memrl_rank(items, k=6, seed=3, options=always) == memrl_rank(
        items, k=6, seed=3, options=always
    )


# --- over a store ----------------------------------------------------------------------------


def words(text: str, others: Sequence[str]) -> list[float]:
    """Share of the words of each text that are in the other."""
    own = set(text.split())
    return [len(own & set(o.split())) / max(len(set(o.split())), 1) for o in others]


def bank(store: Pool, **options: object) -> SkillBank:
    return SkillBank(store, similarity=words, options=BankOptions(**options))  # type: ignore[arg-type]


def group(
    store: Pool, name: str, item: str, *, given: Sequence[bool], alone: Sequence[bool]
) -> None:
    """Runs at one task, some with an item and some with nothing."""
    for side, outcomes in (("given", given), ("alone", alone)):
        for number, success in enumerate(outcomes):
            run = f"{name}-{side}-{number}"
            store.append(Trajectory(trajectory_id=run, task_id=name, source="x", success=success))
            if side == "given":
                record_uses(store, run, [item], "insight", given_at=LATER)


def test_three_of_each_level_are_given_by_score(store: Pool) -> None:
    skills = bank(store)
    kept = [skills.add(f"look at thing {n}", level="task") for n in range(4)]
    skills.add("look at thing now", level="step")
    skills.add("eat", level="task")
    group(store, "t", kept[2].item_id, given=[True], alone=[False])
    hits = skills.recall("look at thing 0 1 2 3", observation="look at thing now")
    first, *rest = hits.task
    assert (first.skill.text, first.candidate.utility, first.candidate.uses) == (
        "look at thing 2", 0.5, 1,
    )  # fmt: skip
    assert len(rest) == 2
    assert [h.skill.text for h in hits.step] == ["look at thing now"]
    assert [h.item_id for h in hits.given] == [h.skill.item_id for h in (*hits.task, *hits.step)]


def test_what_was_drawn_from_the_task_that_asks_is_left_out(store: Pool) -> None:
    store.append(Trajectory(trajectory_id="r", task_id="t", source="x", success=True))
    pin_exemplars(store, ["r"])
    skills = bank(store)
    skills.add("look here", level="task", trajectory_ids=["r"])
    skills.add("look there", level="task")
    own = skills.recall("look here there", task_id="t")
    assert ([h.skill.text for h in own.task], own.exemplars) == (["look there"], ())
    assert len(skills.recall("look here there", task_id="u").given) == 2


def test_texts_are_compared_by_an_embedder(store: Pool) -> None:
    skills = SkillBank(
        store, similarity=by_embedding("hashing"), options=BankOptions(threshold=0.3)
    )
    assert skills.recall("open the fridge").task == ()
    skills.add("open the fridge before you take the apple", level="task")
    skills.add("count twice", level="task")
    (hit,) = skills.recall("open the fridge").task
    assert hit.skill.text.startswith("open")
    assert 0.3 <= hit.candidate.similarity < 1


def test_without_an_observation_no_skill_for_steps_is_given(store: Pool) -> None:
    skills = bank(store)
    skills.add("look", level="step")
    assert skills.recall("look").step == ()


def test_a_step_skill_is_found_by_what_is_seen(store: Pool) -> None:
    skills = bank(store)
    skills.add("turn back", level="step", observation="the door is locked")
    hits = skills.recall("leave", observation="the door is locked again")
    assert [h.skill.text for h in hits.step] == ["turn back"]


def test_beyond_the_capacity_the_worst_is_retired_and_the_young_are_spared(store: Pool) -> None:
    skills = bank(store, capacity=2, protected_groups=2)
    good, bad = (skills.add(name, level="task") for name in ("good", "bad"))
    group(store, "t1", good.item_id, given=[True], alone=[False])
    skills.add("third", level="task")
    assert len(Insights(store).all(kind="skill")) == 3
    group(store, "t2", bad.item_id, given=[False], alone=[True])
    assert skills.evict("task") == [bad.insight_id]
    states = {i.text: (i.state, i.because) for i in Insights(store).all(every=True)}
    assert states["bad"] == ("retired", "beyond the capacity")
    assert states["good"] == states["third"] == (None, None)
    assert [h.skill.text for h in skills.recall("bad").task] == []


def test_levels_do_not_push_each_other_out(store: Pool) -> None:
    skills = bank(store, capacity=1, protected_groups=0)
    skills.add("a", level="task")
    skills.add("b", level="step")
    assert len(Insights(store).all(kind="skill")) == 2


# --- exemplars -------------------------------------------------------------------------------


def test_an_exemplar_stays_whatever_becomes_of_its_uses(store: Pool) -> None:
    store.append(
        Trajectory(trajectory_id="won", task_id="t", goal="do it", source="x", success=True)
    )
    (pinned,) = pin_exemplars(store, ["won"])
    assert pin_exemplars(store, ["won"]) == [pinned]
    group(store, "u", pinned.item_id, given=[False] * 6, alone=[True])
    assert Insights(store).prune() == ([], [])
    hits = bank(store, capacity=0, protected_groups=0).recall("anything")
    assert [e.trajectory_ids for e in hits.exemplars] == [("won",)]


def test_an_exemplar_of_the_task_that_asks_is_left_out(store: Pool) -> None:
    store.append(
        Trajectory(trajectory_id=f"r{n}", task_id=f"t{n}", source="x", success=True)
        for n in range(2)
    )
    pin_exemplars(store, ["r0", "r1"])
    assert [e.task_id for e in exemplars(store, task_id="t0")] == ["t1"]


@pytest.mark.parametrize(("name", "why"), [("no", "did not succeed"), ("zz", "no trajectory")])
def test_what_did_not_succeed_is_no_exemplar(name: str, why: str, store: Pool) -> None:
    store.append(Trajectory(trajectory_id="no", task_id="t", source="x", success=None))
    with pytest.raises(MemoryItemError, match=why):
        pin_exemplars(store, [name])


def test_a_late_verdict_makes_an_exemplar_possible(store: Pool) -> None:
    store.append(Trajectory(trajectory_id="r", task_id="t", source="x"))
    store.label([Label(trajectory_id="r", name="outcome", success=True, evaluator="e")])
    assert len(pin_exemplars(store, ["r"])) == 1


def test_the_bank_is_young_at_first(store: Pool) -> None:
    skills = bank(store, capacity=1)
    for name in "abc":
        skills.add(name, level="task")
    assert len(Insights(store).all(kind="skill")) == 3
    assert LATER - timedelta(days=1) > datetime.now(UTC)
