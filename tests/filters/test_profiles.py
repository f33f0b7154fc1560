from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import summaries
from trajstore.errors import SelectionError
from trajstore.filters.profiles import PROFILE_SCHEMA, pass_at_k, profile, smoothed_rate


def rates(table: pa.Table) -> dict[str, float | None]:
    return dict(
        zip(table.column("task_id").to_pylist(), table.column("rate").to_pylist(), strict=True)
    )


def test_a_profile_counts_attempts_and_passes_of_each_task() -> None:
    frame = summaries(
        {"task_id": "t", "success": True, "n_agent_steps": 4},
        {"task_id": "t", "success": False, "n_agent_steps": 8},
        {"task_id": "s", "success": True},
    )
    table = profile(frame.rows)
    assert table.schema == PROFILE_SCHEMA
    assert table.to_pylist()[1] == {
        "task_id": "t",
        "attempts": 2,
        "passes": 1,
        "expired": 0,
        "rate": 0.5,
        "smoothed": 0.5,
        "steps": 6.0,
    }


def test_an_unknown_outcome_is_neither_a_pass_nor_an_attempt() -> None:
    frame = summaries({"success": True}, {"success": None}, {"task_id": "u", "success": None})
    assert rates(profile(frame.rows)) == {"task": 1.0, "u": None}


def test_case_54_partial_rewards_pass_at_an_explicit_threshold() -> None:
    """Rewards above 1 and below it: by default only 1 and more is a pass."""
    frame = summaries(*({"reward": r} for r in (0.0, 0.5, 1.0, 2.5)))
    assert rates(profile(frame.rows, passed="reward")) == {"task": 0.5}
    assert rates(profile(frame.rows, passed="reward", pass_threshold=0.5)) == {"task": 0.75}


def test_case_54_success_may_be_a_column_of_its_own() -> None:
    frame = summaries({"success": True, "reward": 0.1}, {"success": False, "reward": 7.0})
    assert rates(profile(frame.rows)) == {"task": 0.5}
    assert profile(frame.rows).column("passes").to_pylist() == [1]


def test_a_reward_that_is_no_number_is_unknown() -> None:
    frame = summaries({"reward": float("nan")}, {"reward": None}, {"reward": 1.0})
    assert profile(frame.rows, passed="reward").column("attempts").to_pylist() == [1]


def test_case_55_profiles_of_an_old_policy_expire() -> None:
    frame = summaries(
        {"task_id": "s", "success": True, "policy_version": "iter-1"},
        {"task_id": "s", "success": False, "policy_version": "iter-9"},
        {"task_id": "t", "success": True, "policy_version": "iter-1"},
        {"task_id": "t", "success": True, "policy_version": None},
    )
    table = profile(frame.rows, policies=["iter-8", "iter-9"])
    assert rates(table) == {"s": 0.0, "t": None}
    assert table.column("expired").to_pylist() == [1, 2]


def test_the_worked_example_of_smoothing() -> None:
    """Beta(1, 1): (0 + 1) / (2 + 2) and (2 + 1) / (2 + 2)."""
    assert (smoothed_rate(0, 2), smoothed_rate(2, 2)) == (0.25, 0.75)
    frame = summaries({"success": False}, {"success": False})
    assert profile(frame.rows).column("smoothed").to_pylist() == [0.25]


def test_without_a_prior_the_smoothed_rate_is_the_rate() -> None:
    frame = summaries({"success": True}, {"success": False}, {"success": False})
    table = profile(frame.rows, prior=(0.0, 0.0))
    assert table.column("smoothed").to_pylist() == [pytest.approx(1 / 3)]


def test_the_worked_example_of_pass_at_k() -> None:
    """8 attempts, 2 passes, k = 4: 1 - C(6, 4) / C(8, 4) = 1 - 15 / 70."""
    assert pass_at_k(8, 2, 4) == pytest.approx(0.785714, abs=1e-6)


@pytest.mark.parametrize(("attempts", "passes", "k"), [(5, 0, 2), (5, 2, 3), (6, 5, 2), (4, 4, 4)])
def test_pass_at_k_is_the_share_of_draws_with_a_pass(attempts: int, passes: int, k: int) -> None:
    outcomes = [True] * passes + [False] * (attempts - passes)
    draws = [any(draw) for draw in itertools.combinations(outcomes, k)]
    assert pass_at_k(attempts, passes, k) == pytest.approx(sum(draws) / len(draws))


@pytest.mark.parametrize(("attempts", "passes", "k"), [(3, 1, 4), (3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_numbers_that_do_not_fit_together_are_refused(attempts: int, passes: int, k: int) -> None:
    with pytest.raises(SelectionError, match=f"k={k}, attempts={attempts}, passes={passes}"):
        pass_at_k(attempts, passes, k)


def test_a_threshold_or_a_prior_that_is_none_is_refused() -> None:
    rows = summaries({"success": True}).rows
    with pytest.raises(SelectionError, match="finite number, not nan"):
        profile(rows, pass_threshold=float("nan"))
    with pytest.raises(SelectionError, match="two finite numbers of 0 or more"):
        profile(rows, prior=(-1.0, 1.0))


OUTCOMES, POLICIES = st.sampled_from([True, False, None]), st.sampled_from(["p", "q", None])
RUNS = st.lists(st.tuples(st.sampled_from("st"), OUTCOMES, POLICIES), max_size=15)


@settings(max_examples=40, deadline=None)
@given(RUNS, st.sampled_from([(), ("p",), ("p", "q")]))
def test_a_profile_is_what_counting_gives(
    runs: list[tuple[str, bool | None, str | None]], policies: tuple[str, ...]
) -> None:
    frame = summaries(*({"task_id": t, "success": s, "policy_version": p} for t, s, p in runs))
    found = {row["task_id"]: row for row in profile(frame.rows, policies=policies).to_pylist()}
    for task in {t for t, _, _ in runs}:
        mine = [(s, p) for t, s, p in runs if t == task]
        counted = [s for s, p in mine if not policies or p in policies]
        known = [s for s in counted if s is not None]
        row = found[task]
        assert (row["attempts"], row["passes"]) == (len(known), sum(known))
        assert row["expired"] == len(mine) - len(counted)
        assert row["rate"] == (sum(known) / len(known) if known else None)
