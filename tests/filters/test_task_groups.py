"""Which tasks are the same or nearly the same."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import asked, call, run
from tests.filters.in_memory import frame_of, shuffled, wants
from trajstore import Step
from trajstore.errors import SelectionError
from trajstore.filters import Frame
from trajstore.filters.task_groups import (
    GoalLikeness,
    distinct_goals,
    near_goals,
    task_groups,
    task_keys,
)

pytest.importorskip("numpy")

GOAL = "book the cheapest flight from oslo to rome on the fifth of may for two"
"""15 words give 16 padded pairs; another last word leaves 14 of 18, another first one too."""
NEAR = GOAL.replace("cheapest flight", "cheapest direct flight")
"""One word more: 15 of 18 pairs, .833."""

SOME = st.lists(
    st.tuples(
        st.sampled_from(["t1", "t2", "t3", "t4"]), st.sampled_from(["g", "h", GOAL, NEAR, None])
    ),
    min_size=1,
    max_size=8,
)


def groups(frame: Frame, **likeness: object) -> list[str]:
    return task_groups(frame, GoalLikeness(**likeness)).to_pylist()  # type: ignore[arg-type]


def test_a_task_alone_is_its_own_group() -> None:
    frame = frame_of(wants("a", "t2", "x"), wants("b", "t1", "y"), wants("c", "t2", "x"))
    assert groups(frame) == ["t2", "t1", "t2"]


def test_tasks_with_one_goal_up_to_case_and_spaces_are_one_group() -> None:
    frame = frame_of(wants("a", "t2", "Fix  it"), wants("b", "t1", "fix it\n"))
    assert groups(frame) == ["t1", "t1"]


def test_tasks_with_nearly_one_goal_are_one_group() -> None:
    frame = frame_of(wants("a", "t1", GOAL), wants("b", "t2", NEAR), wants("c", "t3", "other"))
    assert groups(frame) == ["t1", "t1", "t3"]
    assert groups(frame, jaccard=0.84) == ["t1", "t2", "t3"]
    assert groups(frame, jaccard=None) == ["t1", "t2", "t3"]


def test_tasks_with_one_prompt_are_one_group() -> None:
    frame = frame_of(
        run("a", asked("open /tmp/x1/log"), call("f", {}), task_id="t1"),
        run("b", asked("open /tmp/x2/log"), call("g", {}), task_id="t2"),
        run("c", asked("open another"), call("f", {}), task_id="t3"),
    )
    assert groups(frame) == ["t1", "t1", "t3"]


def test_only_what_was_said_before_the_first_agent_step_is_the_prompt() -> None:
    frame = frame_of(
        run("a", asked("go"), call("f", {}), asked("left"), task_id="t1"),
        run("b", asked("go"), call("f", {}), asked("right"), task_id="t2"),
    )
    assert groups(frame) == ["t1", "t1"]


def test_system_text_alone_is_no_prompt() -> None:
    """All tasks of an environment share it."""
    rules = Step(actor="system", text="You are an agent.")
    frame = frame_of(
        run("a", rules, call("f", {}), task_id="t1"), run("b", rules, call("f", {}), task_id="t2")
    )
    assert groups(frame) == ["t1", "t2"]


def test_groups_join_through_a_task_with_two_goals() -> None:
    frame = frame_of(
        wants("a", "t1", "one"), wants("b", "t2", "one"), wants("c", "t2", "two"),
        wants("d", "t3", "two"),
    )  # fmt: skip
    assert groups(frame) == ["t1"] * 4


def test_runs_without_goal_or_prompt_go_by_their_task() -> None:
    frame = frame_of(wants("a", "t1", None), wants("b", "t1", None), wants("c", "t2", None))
    assert groups(frame) == ["t1", "t1", "t2"]


def test_a_chain_of_nearly_equal_goals_is_not_one_group() -> None:
    """12 to 15 words: .8 and more from one to the next, .75 and .76 over two."""
    chain = [" ".join("abcdefghijklmno"[: n + 12]) for n in range(4)]
    frame = frame_of(*(wants(f"r{n}", f"t{n}", goal) for n, goal in enumerate(chain)))
    assert groups(frame, jaccard=0.79) == ["t0", "t0", "t2", "t2"]


def test_vectors_find_goals_in_other_words() -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "cat" in t or "kitten" in t else [0.0, 1.0] for t in texts]

    frame = frame_of(
        wants("a", "t1", "draw a cat"), wants("b", "t2", "a kitten please"), wants("c", "t3", "dog")
    )
    assert groups(frame) == ["t1", "t2", "t3"]
    assert groups(frame, embed=embed) == ["t1", "t1", "t3"]


@settings(deadline=None, max_examples=30)
@given(SOME, st.data())
def test_groups_do_not_depend_on_the_order_of_the_rows(
    described: list[tuple[str, str | None]], data: st.DataObject
) -> None:
    runs = [wants(f"r{n}", task, goal) for n, (task, goal) in enumerate(described)]
    frame = frame_of(*runs)
    order = data.draw(st.permutations(range(len(runs))))
    straight, turned = groups(frame), groups(shuffled(frame, order))
    assert turned == [straight[n] for n in order]


@settings(deadline=None, max_examples=30)
@given(SOME)
def test_groups_are_the_connected_tasks(described: list[tuple[str, str | None]]) -> None:
    def same(goal: str | None) -> str | None:
        return GOAL if goal == NEAR else goal

    root = {task: task for task, _ in described}
    for _, (one, other) in itertools.product(range(4), itertools.product(described, described)):
        if same(one[1]) is not None and same(one[1]) == same(other[1]):
            low = min(root[one[0]], root[other[0]])
            old = {root[one[0]], root[other[0]]}
            root = {t: low if r in old else r for t, r in root.items()}
    runs = [wants(f"r{n}", task, goal) for n, (task, goal) in enumerate(described)]
    assert groups(frame_of(*runs)) == [root[task] for task, _ in described]


def test_nearly_equal_goals_are_listed_where_they_are_apart() -> None:
    frame = frame_of(*(wants(f"r{n}", f"t{n}", g) for n, g in enumerate((GOAL, NEAR, "other"))))
    goals = distinct_goals(task_keys(frame))
    assert goals.to_pylist() == [NEAR, GOAL, "other"]
    assert near_goals(goals, GoalLikeness(), [0, 1, 2]) == [(0, 1)]
    assert near_goals(goals, GoalLikeness(), [0, 0, 1]) == []


def test_nearly_equal_vectors_are_listed_where_they_are_apart() -> None:
    frame = frame_of(*(wants(f"r{n}", f"t{n}", g) for n, g in enumerate("abc")))
    goals = distinct_goals(task_keys(frame))
    likeness = GoalLikeness(embed=lambda texts: [[1.0, float(t == "c")] for t in texts])
    assert near_goals(goals, likeness, [0, 1, 2]) == [(0, 1)]


@pytest.mark.parametrize("likeness", [{"jaccard": 0.0}, {"jaccard": 1.5}, {"cosine": 0.0}])
def test_thresholds_outside_0_to_1_are_refused(likeness: dict[str, float]) -> None:
    with pytest.raises(SelectionError, match=r"threshold|cosine"):
        GoalLikeness(**likeness)


def test_no_rows_have_no_groups() -> None:
    assert groups(shuffled(frame_of(wants("a", "t", "x")), [])) == []


def test_a_search_can_leave_out_a_task_and_its_duplicates() -> None:
    """Case 12: who looks for experiences at t1 must not get those at t2, which is the same."""
    frame = frame_of(wants("a", "t1", GOAL), wants("b", "t2", NEAR), wants("c", "t3", "other"))
    group = dict(zip(frame.rows["task_id"].to_pylist(), groups(frame), strict=True))
    allowed = [t for t in group if group[t] != group["t1"]]
    assert allowed == ["t3"]
