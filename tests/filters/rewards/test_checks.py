from __future__ import annotations

from tests.filters.rewards.tables import rows
from trajstore.filters.rewards import Spread, outranked, react, reward_spread, success_margin


def test_case_53_groups_without_signal_are_named_by_kind() -> None:
    """verl#5228: all-pass and all-fail groups give no signal and hide a dead run."""
    table = rows(
        *[{"task_id": "passes"}] * 2,
        *[{"task_id": "fails", "success": False}] * 3,
        *[{"task_id": "mixed", "success": s} for s in (True, False)],
        *[{"task_id": "same", "success": s, "reward": 0.5} for s in (True, False)],
        {"task_id": "alone"},
    )
    numbered = table.set_column(0, "trajectory_id", [[f"r{n}" for n in range(10)]])
    spread = reward_spread(numbered, react(numbered, lambda_length=0))
    assert spread == Spread(groups=4, all_pass=1, all_fail=1, all_equal=1)
    assert spread.zero_variance == 3


def test_case_53_lengths_bring_signal_into_an_all_pass_group() -> None:
    table = rows({"n_agent_steps": 3}, {"n_agent_steps": 5})
    assert reward_spread(table, react(table)).zero_variance == 0


def test_unknown_outcomes_make_no_group() -> None:
    table = rows({"success": None}, {}, {"success": None})
    assert reward_spread(table, react(table)) == Spread()


def test_the_margin_is_the_smallest_success_minus_the_largest_failure() -> None:
    table = rows(
        {"reward": 0.9}, {"reward": 1.0}, {"success": False, "reward": 0.25}, {"success": None}
    )
    assert success_margin(table) == 0.65


def test_without_a_failure_there_is_no_margin() -> None:
    assert success_margin(rows({}, {})) is None


def test_an_equal_failure_outranks_too_and_tasks_are_apart() -> None:
    table = rows(
        {"task_id": "a", "reward": 0.5},
        {"task_id": "a", "success": False, "reward": 0.5},
        {"task_id": "b", "reward": 0.4},
        {"task_id": "b", "success": False, "reward": 0.3},
    )
    found = outranked(table, react(table, lambda_length=0, lambda_format=0))
    assert found.column("task_id").to_pylist() == ["a"]
