from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import details, selected, summaries, why
from trajstore import open as open_store
from trajstore.errors import SelectionError
from trajstore.filters import Frame, stage
from trajstore.pipeline.selecting import select


def group(successes: int, failures: int) -> Frame:
    """Successes s0, s1, ... with as many failed calls of ten; failures f0, f1, ... likewise."""
    rows = [
        {
            "trajectory_id": f"{side}{i}",
            "success": side == "s",
            "n_tool_calls": 10,
            "n_tool_errors": i,
            "n_agent_steps": 10,
        }
        for side, n in (("s", successes), ("f", failures))
        for i in range(n)
    ]
    return summaries(*rows)


def kept(frame: Frame, **parameters: Any) -> list[str]:
    return selected(frame, stage("resample-on-correct", **parameters)).ids()


def test_successes_are_kept_the_cleanest_first_and_both_sides_shrink_alike() -> None:
    ids = kept(group(8, 8), n=8)
    assert [i for i in ids if i[0] == "s"] == ["s0", "s1", "s2", "s3"]
    assert sum(i[0] == "f" for i in ids) == 4


def test_failures_are_drawn_whether_clean_or_not() -> None:
    """Of 400 tasks, each keeping two of its four failures, each failure stays in about half."""
    rows = [
        {"trajectory_id": f"{task:03}{r['trajectory_id']}", "task_id": f"{task}"}
        | {k: r[k] for k in ("success", "n_tool_calls", "n_tool_errors", "n_agent_steps")}
        for task in range(400)
        for r in group(4, 4).rows.to_pylist()
    ]
    drawn = Counter(i[3:] for i in kept(summaries(*rows), n=4))
    assert (drawn["s0"], drawn["s1"], drawn["s2"]) == (400, 400, 0)
    assert all(160 < drawn[f"f{i}"] < 240 for i in range(4))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(2, 9))
def test_the_sides_are_what_exact_fractions_give(good: int, bad: int, n: int) -> None:
    """The nearest whole number to the share of failures, at least one of each where there is."""
    share = Fraction(bad * n, max(good + bad, 1))
    nearest = math.floor(share + Fraction(1, 2))
    if share - math.floor(share) == Fraction(1, 2) and good >= bad:
        nearest = math.floor(share)
    failures = max(min(1, bad), min(n - min(1, good), nearest))
    expected = (good, bad) if good + bad <= n else (n - failures, failures)
    sides = Counter(i[0] for i in kept(group(good, bad), n=n))
    assert (sides["s"], sides["f"]) == expected


def test_a_half_goes_to_the_larger_side() -> None:
    """Shares of 4 among 5 and 3 are 2.5 and 1.5; with 4 and 4 of 3 successes get the odd one."""
    assert [i[0] for i in kept(group(5, 3), n=4)] == ["f", "s", "s", "s"]
    assert [i[0] for i in kept(group(3, 5), n=4)] == ["f", "f", "f", "s"]
    assert [i[0] for i in kept(group(4, 4), n=3)] == ["f", "s", "s"]


def test_a_rare_side_keeps_at_least_one() -> None:
    assert [i[0] for i in kept(group(15, 1), n=4)] == ["f", "s", "s", "s"]
    assert [i[0] for i in kept(group(1, 15), n=4)] == ["f", "f", "f", "s"]


def test_more_of_a_rare_side_can_be_asked_for() -> None:
    assert Counter(i[0] for i in kept(group(14, 2), n=6, least=2)) == {"s": 4, "f": 2}


def test_a_side_that_is_not_there_is_not_made_up() -> None:
    assert kept(group(6, 0), n=3) == ["s0", "s1", "s2"]


def test_a_group_that_is_small_enough_stays_whole() -> None:
    assert len(kept(group(2, 2), n=4)) == 4
    assert len(kept(group(2, 1), n=4)) == 3


def test_short_groups_go_where_that_is_asked_for() -> None:
    selection = selected(group(2, 1), stage("resample-on-correct", n=4, short="drop"))
    assert set(why(selection).values()) == {"short-group"}


def test_unknown_outcomes_enter_no_group() -> None:
    frame = summaries({"success": None}, {"success": True}, {"success": False})
    selection = selected(frame, stage("resample-on-correct", n=2))
    assert (selection.ids(), why(selection)) == (["b", "c"], {"a": "unknown-outcome"})


def test_every_dropped_run_says_why() -> None:
    selection = selected(group(4, 2), stage("resample-on-correct", n=3))
    assert (why(selection)["s3"], details(selection)["s3"]) == ("less-clean", "penalty 0.3")
    assert Counter(why(selection).values()) == {"less-clean": 2, "failure-not-sampled": 1}


def test_the_penalty_is_failed_calls_and_broken_formats() -> None:
    """Failed calls 1 of 4 and format errors 1 of 2 steps; without calls a half (released code)."""
    frame = summaries(
        {"n_tool_calls": 4, "n_tool_errors": 1, "n_agent_steps": 2, "n_format_errors": 1},
        {"n_tool_calls": 0, "n_agent_steps": 0},
        {"n_tool_calls": 1, "n_tool_errors": 3, "n_agent_steps": 1},
    )
    rows = summaries(*({**r, "success": True} for r in frame.rows.to_pylist())).rows
    found = selected(Frame(rows, frame.steps), stage("resample-on-correct", n=3)).rows
    assert found.column("penalty").to_pylist() == [0.75, 0.5, 1.0]


def test_success_can_be_a_reward_above_a_threshold() -> None:
    frame = summaries({"reward": 0.4}, {"reward": 0.6}, {"reward": None})
    made = stage("resample-on-correct", n=2, passed="reward", pass_threshold=0.5)
    assert why(selected(frame, made)) == {"c": "unknown-outcome"}


@pytest.mark.parametrize("parameters", [{"n": 0}, {"n": 1}, {"n": 4, "least": 3}])
def test_sizes_that_cannot_hold_are_refused(parameters: dict[str, int]) -> None:
    with pytest.raises(SelectionError, match="needs n of 1 or more and twice 'least'"):
        stage("resample-on-correct", **parameters)


def test_a_real_group_of_25_shrinks_to_12(real_data: Path, tmp_path: Path) -> None:
    """11 of 25 attempts succeeded; the share of failures is 12 * 14 / 25 = 6.72, that is 7."""
    pool = open_store(tmp_path / "pool", durable=False)
    pool.import_files(real_data / "nemo_gym" / "anyswe")
    rows = select(pool, [stage("resample-on-correct", n=12)]).rows
    assert Counter(rows.column("success").to_pylist()) == {True: 5, False: 7}
