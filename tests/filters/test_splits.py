"""Splits by group of tasks, and a leak check that fires."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import asked, call, details, run, selected, why
from tests.filters.in_memory import frame_of, shuffled, wants
from tests.filters.test_task_groups import GOAL, NEAR
from trajstore import Step
from trajstore.errors import SelectionError
from trajstore.filters import Frame, stage
from trajstore.filters.splits import LEAK_SCHEMA, Split, find_leaks, split_position

pytest.importorskip("numpy")

POSITIONS = {
    "task-1": 0.480387,
    "task-2": 0.470343,
    "task-3": 0.090402,
    "task-4": 0.560969,
    "task-5": 0.905282,
    "task-6": 0.596753,
    "task-7": 0.005101,
    "task-8": 0.938584,
    "task-9": 0.887897,
    "task-10": 0.546842,
}
"""algorithms.md B3."""


def ten_tasks() -> Frame:
    return frame_of(*(wants(f"r-{task}", task, None) for task in POSITIONS))


def splits(frame: Frame, **parameters: Any) -> dict[str, str]:
    rows = selected(frame, stage("split", **parameters)).rows
    return dict(zip(rows["task_id"].to_pylist(), rows["split"].to_pylist(), strict=True))


def with_splits(frame: Frame, names: Sequence[str | None]) -> Frame:
    return Frame(frame.rows.append_column("split", pa.array(names, pa.string())), frame.steps)


@pytest.mark.parametrize(("task", "position"), POSITIONS.items())
def test_a_group_lies_where_it_was_worked_out(task: str, position: float) -> None:
    assert split_position(task) == pytest.approx(position, abs=5e-7)


def test_the_split_of_ten_tasks_is_the_one_worked_out() -> None:
    found = splits(ten_tasks(), shares={"val": 0.2})
    assert {t for t, s in found.items() if s == "val"} == {"task-3", "task-7"}
    assert set(found.values()) == {"val", "train"}


def test_several_splits_have_their_stretch_one_behind_the_other() -> None:
    found = splits(ten_tasks(), shares={"val": 0.05, "test": 0.45}, rest="fit")
    assert {t for t, s in found.items() if s == "val"} == {"task-7"}
    assert {t for t, s in found.items() if s == "test"} == {"task-1", "task-2", "task-3"}


def test_all_attempts_at_a_task_are_on_one_side() -> None:
    """Case 15: pairs split at random over few topics gave 100 % by memory."""
    runs = [wants(f"r{n:02}", f"task-{n % 10 + 1}", None) for n in range(40)]
    rows = selected(frame_of(*runs), stage("split", shares={"val": 0.2})).rows
    sides = {(r["task_id"], r["split"]) for r in rows.to_pylist()}
    assert len(sides) == 10


def test_tasks_with_nearly_one_goal_are_on_one_side() -> None:
    frame = frame_of(
        wants("a", "task-3", GOAL), wants("b", "task-8", NEAR), wants("c", "task-1", "other")
    )
    rows = selected(frame, stage("split", shares={"val": 0.2})).rows
    assert dict(zip(rows["task_id"].to_pylist(), rows["task_group"].to_pylist(), strict=True)) == {
        "task-3": "task-3",
        "task-8": "task-3",
        "task-1": "task-1",
    }
    assert rows["split"].to_pylist() == ["val", "val", "train"]


def test_the_split_of_a_task_does_not_depend_on_the_others() -> None:
    some = [wants(f"r-{task}", task, None) for task in list(POSITIONS)[:5]]
    alone = splits(frame_of(*some), shares={"val": 0.2})
    assert alone.items() <= splits(ten_tasks(), shares={"val": 0.2}).items()


def test_a_missing_split_is_an_error_when_the_stage_is_made() -> None:
    """Case 16: an evaluation must never run on another split than the one it asked for."""
    with pytest.raises(SelectionError, match="no split 'eval'; there are val, train"):
        stage("split", shares={"val": 0.2}, keep="eval")


def test_an_empty_split_is_an_error_when_it_is_asked_for() -> None:
    """Case 16."""
    frame = frame_of(wants("a", "task-8", None))
    with pytest.raises(
        SelectionError, match=r"no split 'val'; there are train\. No other is taken"
    ):
        selected(frame, stage("split", shares={"val": 0.2}, keep="val"))


def test_a_missing_split_of_rows_at_hand_is_an_error() -> None:
    """Case 16."""
    frame = with_splits(ten_tasks(), ["train"] * 10)
    with pytest.raises(SelectionError, match="no split 'val'; there are train"):
        selected(frame, stage("only-split", split="val"))


def test_rows_without_splits_are_an_error() -> None:
    for made in (stage("only-split", split="train"), stage("leak-check")):
        with pytest.raises(SelectionError, match="no column 'split'"):
            selected(ten_tasks(), made)


def test_one_split_can_be_kept() -> None:
    selection = selected(ten_tasks(), stage("split", shares={"val": 0.2}, keep="val"))
    assert selection.ids() == ["r-task-3", "r-task-7"]
    assert selection.funnel[0].dropped == {"other-split": 8}
    assert details(selection)["r-task-1"] == "train"


def test_one_split_of_rows_at_hand_can_be_kept() -> None:
    made = [stage("split", shares={"val": 0.2}), stage("only-split", split="val")]
    assert selected(ten_tasks(), *made).ids() == ["r-task-3", "r-task-7"]


def test_a_goal_that_comes_too_near_to_a_held_out_one_is_dropped() -> None:
    """Of a chain, groups end somewhere; what is alike across that end goes from the later side."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    chain = [" ".join(letters[: n + 12]) for n in range(8)]
    frame = frame_of(*(wants(f"r{n}", f"task-{n + 1}", goal) for n, goal in enumerate(chain)))
    made = stage("split", shares={"val": 0.5}, goal_jaccard=0.84)
    selection = selected(frame, made)
    gone = why(selection)
    assert gone
    assert set(gone.values()) == {"near-duplicate-of-held-out"}
    assert all(str(d).startswith("val: a b c") for d in details(selection).values())
    sides = set(selection.rows["split"].to_pylist())
    assert sides == {"val", "train"}
    left = Frame(selection.rows, frame.steps)
    assert len(selected(left, stage("leak-check", goal_jaccard=0.84))) == 8 - len(gone)


def test_a_task_on_both_sides_is_a_leak() -> None:
    """Case 14: the guard must fire."""
    frame = with_splits(frame_of(wants("a", "t1", None), wants("b", "t1", None)), ["train", "val"])
    assert find_leaks(frame).to_pylist() == [
        {"kind": "task", "what": "t1", "split": "train", "other_split": "val"}
    ]
    with pytest.raises(SelectionError, match="1 leaks between splits: task 't1' in train and val"):
        selected(frame, stage("leak-check"))


def test_a_prompt_on_both_sides_is_a_leak() -> None:
    """Case 14."""
    frame = with_splits(
        frame_of(
            run("a", asked("add 2 and 3"), call("f", {}), task_id="t1"),
            run("b", asked("add 2 and 3"), call("g", {}), task_id="t2"),
        ),
        ["train", "val"],
    )
    assert find_leaks(frame)["kind"].to_pylist() == ["prompt"]


def test_a_goal_on_both_sides_is_a_leak() -> None:
    frame = with_splits(
        frame_of(wants("a", "t1", "Add 2"), wants("b", "t2", "add  2")), ["train", "val"]
    )
    assert find_leaks(frame).to_pylist() == [
        {"kind": "goal", "what": "add 2", "split": "train", "other_split": "val"}
    ]


def test_a_nearly_equal_goal_on_the_other_side_is_a_leak() -> None:
    """Case 15."""
    frame = with_splits(frame_of(wants("a", "t1", GOAL), wants("b", "t2", NEAR)), ["train", "val"])
    (leak,) = find_leaks(frame).to_pylist()
    assert (leak["kind"], leak["what"]) == ("near-goal", f"{NEAR} | {GOAL}")
    assert (leak["split"], leak["other_split"]) == ("val", "train")


def test_a_goal_in_other_words_on_the_other_side_is_a_leak() -> None:
    frame = with_splits(
        frame_of(wants("a", "t1", "draw a cat"), wants("b", "t2", "a kitten")), ["train", "val"]
    )
    check = stage("leak-check", embed=lambda texts: [[1.0, 0.0] for _ in texts])
    assert len(selected(frame, stage("leak-check"))) == 2
    with pytest.raises(SelectionError, match="near-goal"):
        selected(frame, check)


def test_what_is_on_one_side_only_is_no_leak() -> None:
    frame = with_splits(
        frame_of(
            wants("a", "t1", GOAL), wants("b", "t1", NEAR), wants("c", "t2", "other"),
            wants("d", "t1", "third"),
        ),
        ["train", "train", "val", None],
    )  # fmt: skip
    assert find_leaks(frame) == LEAK_SCHEMA.empty_table()
    assert len(selected(frame, stage("leak-check"))) == 4


def test_a_split_at_random_leaks_and_one_by_groups_does_not() -> None:
    """Case 15."""
    goals = [GOAL, NEAR, "open the door", "close the door", "sing"]
    runs = [wants(f"r{n:02}", f"task-{n % 10 + 1}", goals[n % 5]) for n in range(30)]
    frame = frame_of(*runs)
    random_split = with_splits(frame, ["val" if n % 3 == 0 else "train" for n in range(30)])
    assert find_leaks(random_split).num_rows > 10
    by_groups = selected(frame, stage("split", shares={"val": 0.5}))
    assert set(by_groups.rows["split"].to_pylist()) == {"train", "val"}
    assert find_leaks(Frame(by_groups.rows, frame.steps)).num_rows == 0


SOME = st.lists(
    st.tuples(
        st.integers(1, 10), st.sampled_from(["g", "h", "i", GOAL, NEAR, f"{NEAR} now", None])
    ),
    min_size=1,
    max_size=10,
)


@settings(deadline=None, max_examples=30)
@given(SOME)
def test_a_split_never_leaks(described: list[tuple[int, str | None]]) -> None:
    runs = [wants(f"r{n}", f"task-{task}", goal) for n, (task, goal) in enumerate(described)]
    frame = frame_of(*runs)
    selection = selected(frame, stage("split", shares={"val": 0.3, "test": 0.3}))
    assert find_leaks(Frame(selection.rows, frame.steps)).num_rows == 0


@settings(deadline=None, max_examples=20)
@given(SOME, st.data())
def test_a_split_does_not_depend_on_the_order_of_the_rows(
    described: list[tuple[int, str | None]], data: st.DataObject
) -> None:
    runs = [wants(f"r{n}", f"task-{task}", goal) for n, (task, goal) in enumerate(described)]
    frame = frame_of(*runs)
    order = data.draw(st.permutations(range(len(runs))))
    made = Split(shares={"val": 0.5})
    one, other = (made.apply(f).rows for f in (frame, shuffled(frame, order)))
    columns = ["trajectory_id", "split", "task_group"]
    assert one.select(columns).sort_by("trajectory_id") == other.select(columns).sort_by(
        "trajectory_id"
    )


def test_one_group_that_swallows_the_tasks_stops_with_its_name() -> None:
    runs = [wants(f"r{n:02}", f"t{n:02}", "hi") for n in range(15)]
    runs += [wants(f"s{n:02}", f"u{n:02}", None) for n in range(10)]
    with pytest.raises(SelectionError, match="group of the task t00 would hold 15 of 25 tasks"):
        selected(frame_of(*runs), stage("split"))
    assert len(selected(frame_of(*runs), stage("split", most_share=None))) == 25


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"shares": {}}, "needs shares above 0"),
        ({"shares": {"val": 0.0}}, "needs shares above 0"),
        ({"shares": {"val": 0.6, "test": 0.4}}, "sum below 1"),
        ({"shares": {"train": 0.1}}, "'train' is the rest"),
        ({"goal_jaccard": 0.0}, "threshold"),
        ({"embedder": "minilm"}, "give embed="),
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        stage("split", **parameters)


def test_a_split_can_be_made_again_from_its_parameters() -> None:
    made = Split(shares={"val": 0.2, "test": 0.1}, keep="val", goal_jaccard=None)
    assert stage("split", **made.parameters()) == made


def test_a_split_made_before_is_replaced() -> None:
    frame = with_splits(ten_tasks(), ["x"] * 10)
    assert set(splits(frame, shares={"val": 0.2}).values()) == {"train", "val"}


def test_no_rows_in_no_rows_out() -> None:
    empty = shuffled(ten_tasks(), [])
    assert len(selected(empty, stage("split"), stage("leak-check"))) == 0


def test_equal_goals_need_no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    frame = frame_of(wants("a", "t1", "Add 2"), wants("b", "t2", "add  2"))
    made = [stage("split", goal_jaccard=None), stage("leak-check", goal_jaccard=None)]
    assert selected(frame, *made).rows["task_group"].to_pylist() == ["t1", "t1"]


def test_a_run_without_a_split_is_on_no_side() -> None:
    frame = with_splits(frame_of(wants("a", "t1", None), wants("b", "t2", None)), ["val", None])
    selection = selected(frame, stage("only-split", split="val"))
    assert selection.ids() == ["a"]
    assert why(selection) == {"b": "other-split"}


def test_goals_in_other_words_go_to_one_side() -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "cat" in t or "kitten" in t else [0.0, 1.0] for t in texts]

    frame = frame_of(wants("a", "task-3", "draw a cat"), wants("b", "task-8", "a kitten please"))
    made = Split(shares={"val": 0.2}, embed=embed)
    assert selected(frame, made).rows["split"].to_pylist() == ["val", "val"]
    assert splits(frame, shares={"val": 0.2}) == {"task-3": "val", "task-8": "train"}
    assert made.parameters()["embedder"].endswith("embed")


def test_pictures_are_part_of_the_prompt() -> None:
    def showing(picture: str) -> Step:
        return Step(actor="user", text="what is this?", content=f'[{{"image": "{picture}"}}]')

    frame = with_splits(
        frame_of(
            run("a", showing("1.png"), call("f", {}), task_id="t1"),
            run("b", showing("2.png"), call("f", {}), task_id="t2"),
            run("c", showing("2.png"), call("g", {}), task_id="t3"),
        ),
        ["train", "val", "train"],
    )
    assert find_leaks(frame)["kind"].to_pylist() == ["prompt"]
