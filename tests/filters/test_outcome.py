from __future__ import annotations

import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import selected, summaries, why
from trajstore.errors import SelectionError
from trajstore.filters import stage

OUTCOMES = summaries({"success": True}, {"success": False}, {"success": None})


def test_success_keeps_successes_and_tells_failures_from_the_unknown() -> None:
    """Case 67: failed runs must not be in an expert set."""
    selection = selected(OUTCOMES, stage("success"))
    assert selection.ids() == ["a"]
    assert why(selection) == {"b": "failure", "c": "unknown-outcome"}


def test_failures_can_be_kept_but_unknown_outcomes_go() -> None:
    selection = selected(OUTCOMES, stage("success", failures=True))
    assert selection.ids() == ["a", "b"]
    assert why(selection) == {"c": "unknown-outcome"}


def test_a_reward_range_holds_both_ends() -> None:
    frame = summaries(*({"reward": r} for r in (0.4, 0.5, 0.7, 0.8, None)))
    selection = selected(frame, stage("reward", least=0.5, most=0.7))
    assert selection.ids() == ["b", "c"]
    assert why(selection) == {
        "a": "reward-too-low",
        "d": "reward-too-high",
        "e": "unknown-reward",
    }


def test_a_reward_that_is_no_number_is_unknown() -> None:
    frame = summaries({"reward": math.nan}, {"reward": math.inf})
    assert why(selected(frame, stage("reward", least=0.0))) == {"a": "unknown-reward"}


def test_a_reward_range_needs_bounds_the_right_way_round() -> None:
    with pytest.raises(SelectionError, match="needs a bound"):
        stage("reward")
    with pytest.raises(SelectionError, match=r"0.9 is above 0.1"):
        stage("reward", least=0.9, most=0.1)


def test_above_task_mean_compares_inside_the_task() -> None:
    """Means by hand: t1 (1 + 0 + .5) / 3 = .5, t2 (.2 + .4) / 2 = .3."""
    frame = summaries(
        {"task_id": "t1", "reward": 1.0},
        {"task_id": "t1", "reward": 0.0},
        {"task_id": "t1", "reward": 0.5},
        {"task_id": "t2", "reward": 0.2},
        {"task_id": "t2", "reward": 0.4},
        {"task_id": "t2", "reward": None},
    )
    selection = selected(frame, stage("above-task-mean"))
    assert selection.ids() == ["a", "e"]
    assert why(selection)["f"] == "unknown-reward"
    assert why(selection)["c"] == "not-above-task-mean"


def test_above_task_mean_can_ask_for_a_margin() -> None:
    frame = summaries({"reward": 1.0}, {"reward": 0.0})
    assert len(selected(frame, stage("above-task-mean", margin=0.4))) == 1
    assert len(selected(frame, stage("above-task-mean", margin=0.5))) == 0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["t1", "t2"]), st.none() | st.sampled_from([0.0, 0.5, 1.0, 4.0])),
        max_size=9,
    )
)
def test_above_task_mean_agrees_with_a_plain_loop(rows: list[tuple[str, float | None]]) -> None:
    known = defaultdict(list)
    for task, reward in rows:
        if reward is not None:
            known[task].append(reward)
    expected = [
        chr(97 + i)
        for i, (task, reward) in enumerate(rows)
        if reward is not None and reward > sum(known[task]) / len(known[task])
    ]
    frame = summaries(*({"task_id": t, "reward": r} for t, r in rows))
    assert selected(frame, stage("above-task-mean")).ids() == expected


def test_status_keeps_the_named_ones_and_names_the_others() -> None:
    statuses = ("terminated", "truncated", "error", "running", None)
    frame = summaries(*({"status": s} for s in statuses))
    selection = selected(frame, stage("status"))
    assert selection.ids() == ["a"]
    assert why(selection) == {
        "b": "truncated",
        "c": "error",
        "d": "running",
        "e": "unknown-status",
    }


def test_status_can_keep_the_unknown() -> None:
    frame = summaries({"status": "truncated"}, {"status": None}, {"status": "error"})
    kept = selected(frame, stage("status", keep=["truncated"], unknown=True))
    assert kept.ids() == ["a", "b"]


def test_an_unknown_status_name_is_answered_with_the_real_ones() -> None:
    with pytest.raises(SelectionError, match="terminated, truncated, error, running"):
        stage("status", keep=["done"])
