from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.rewards.tables import NO_CALLS, NO_SCORES, calls, rows, scores, values
from trajstore.errors import SelectionError
from trajstore.filters.rewards import (
    efficiency,
    outranked,
    passed,
    react,
    react_any_error,
    rlef,
    search,
    sql,
    success_margin,
    task_reward,
    turn_budget,
)


def test_react_takes_off_every_format_error_and_step() -> None:
    """1 - 0.1 * 2 - 0.01 * 7 = 0.73."""
    run = rows({"reward": 1.0, "n_format_errors": 2, "n_agent_steps": 7})
    result = react(run)
    assert values(result) == pytest.approx([0.73])
    assert result.drop_columns("value").to_pylist() == [
        {"trajectory_id": "r0", "task": 1.0, "format": -0.2, "length": -0.07}
    ]


def test_react_any_error_takes_format_errors_off_once() -> None:
    """1 - 0.01 * 7 - 0.1 = 0.83, for one error as for five."""
    one, five = ({"n_format_errors": n, "n_agent_steps": 7} for n in (1, 5))
    assert values(react_any_error(rows(one, five))) == pytest.approx([0.83, 0.83])


def test_efficiency_gives_the_worked_numbers() -> None:
    """(1, T4, F0) = 0.96; (1, T6, F1) = 0.84; (0.2, T2, F0) = 0.18."""
    table = rows(
        {"reward": 1.0, "n_tool_calls": 4},
        {"reward": 1.0, "n_tool_calls": 6, "n_format_errors": 1},
        {"reward": 0.2, "success": False, "n_tool_calls": 2},
    )
    assert values(efficiency(table)) == pytest.approx([0.96, 0.84, 0.18])


def test_turn_budget_gives_the_worked_numbers() -> None:
    """Success, 4 of 10 turns, clean = 0.96; failure, 10 of 10, format error = -0.6."""
    table = rows(
        {"n_agent_steps": 4}, {"success": False, "n_agent_steps": 10, "n_format_errors": 1}
    )
    assert values(turn_budget(table, max_turns=10)) == pytest.approx([0.96, -0.6])


def test_turns_above_the_budget_go_on_costing() -> None:
    assert values(turn_budget(rows({"n_agent_steps": 20}), max_turns=10)) == pytest.approx([0.8])


def test_a_turn_budget_of_nothing_is_refused() -> None:
    with pytest.raises(SelectionError, match="at least 1, not 0"):
        turn_budget(rows({}), max_turns=0)


def test_search_gives_the_worked_number() -> None:
    """Correct after 3 searches = 0.85; other tools cost nothing."""
    made = calls(*[("web_search", "{}", "x", None)] * 3, ("open", "{}", "x", None))
    assert values(search(rows({}, {}), made)) == pytest.approx([0.85, 1.0])


def test_the_search_tools_can_be_named() -> None:
    made = calls(("Lookup", "{}", "x", None), ("search", "{}", "x", None))
    assert values(search(rows({}), made, tools="^Lookup$", penalty=0.5)) == [0.5]


def test_a_pattern_that_is_none_is_named() -> None:
    with pytest.raises(SelectionError, match=r"\(open"):
        search(rows({}), NO_CALLS, tools="(open")


def test_rlef_is_the_share_of_passed_tests() -> None:
    told = scores(("tests_passed", 3), ("tests_total", 4))
    assert values(rlef(rows({}), told)) == [0.75]


@pytest.mark.parametrize(
    ("good", "total"), [(5, 4), (-1, 4), (0, 0)], ids=["more than all", "negative", "no test"]
)
def test_rlef_says_nothing_where_the_counts_contradict_each_other(good: int, total: int) -> None:
    told = scores(("tests_passed", good), ("tests_total", total))
    assert values(rlef(rows({}), told)) == [None]


def test_rlef_takes_the_counts_of_the_evaluator_that_was_asked_for() -> None:
    hidden = scores(("tests_passed", 1), ("tests_total", 4), evaluator="hidden")
    public = scores(("tests_passed", 4), ("tests_total", 4), evaluator="public")
    both = pa.concat_tables([hidden, public])
    assert values(rlef(rows({}), both, evaluator="hidden")) == [0.25]


def test_sql_takes_off_time_up_to_the_limit() -> None:
    """15 of 30 s: 1 - 0.1 * 0.5; 300 s: the whole 0.1; an error is not made worse by more."""
    fast, slow = scores(("execution_time_s", 15)), scores(("execution_time_s", 300), run="r1")
    table = rows({}, {}, {"success": False})
    wrong = scores(("execution_time_s", 30), run="r2")
    told = pa.concat_tables([fast, slow, wrong])
    assert values(sql(table, told)) == pytest.approx([0.95, 0.9, -0.1])


def test_sql_can_go_by_a_column_and_needs_a_known_time() -> None:
    table = rows({"duration_s": 3.0}, {"duration_s": None})
    assert values(sql(table, NO_SCORES, time="duration_s")) == [pytest.approx(0.99), None]
    assert values(sql(table, NO_SCORES)) == [None, None]


def test_sql_refuses_a_limit_of_no_time() -> None:
    with pytest.raises(SelectionError, match="above 0 seconds, not 0"):
        sql(rows({}), NO_SCORES, time_limit_s=0)


@pytest.mark.parametrize("function", [react, react_any_error, efficiency])
def test_an_unknown_outcome_has_no_reward(function: Any) -> None:
    assert values(function(rows({"success": None}))) == [None]


def test_the_reward_as_given_counts_before_success() -> None:
    table = rows({"reward": 0.9}, {"success": False}, {"success": None, "reward": 3.0})
    assert task_reward(table).to_pylist() == [0.9, 0.0, 3.0]


def test_a_reward_that_is_no_number_is_unknown() -> None:
    table = rows({"success": None, "reward": float("nan")}, {"reward": float("inf")})
    assert task_reward(table).to_pylist() == [None, 1.0]


def test_case_54_partial_rewards_pass_at_an_explicit_threshold() -> None:
    """NVIDIA-NeMo/Gym#621: partial rewards and rewards above 1 need a threshold to pass."""
    rewards = [0.0, 0.7, 0.9999999999999998, 1.0, 2.5]
    table = rows(*({"success": None, "reward": r} for r in rewards))
    assert passed(table).to_pylist() == [False, False, True, True, True]
    assert passed(table, 0.5).to_pylist() == [False, True, True, True, True]
    assert passed(table, None).to_pylist() == [None] * 5


def test_case_54_success_is_a_column_of_its_own_and_counts_first() -> None:
    table = rows({"success": True, "reward": 0.2}, {"success": False, "reward": 7.0})
    assert passed(table).to_pylist() == [True, False]
    assert values(turn_budget(table, max_turns=5)) == [1.0, 0.0]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(SelectionError, match="needs the column 'n_tool_calls'"):
        efficiency(rows({}).drop_columns("n_tool_calls"))


RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "success": st.booleans(),
            "n_agent_steps": st.integers(0, 60),
            "n_format_errors": st.integers(0, 9),
        }
    ),
    min_size=2,
    max_size=12,
)


@settings(deadline=None, max_examples=40)
@given(RUNS, st.floats(0, 0.999), st.floats(0, 1))
def test_no_failure_outranks_a_success_below_the_bound(
    runs: list[dict[str, Any]], used: float, part: float
) -> None:
    """``lambda_format * F + lambda_length * T`` of the worst run stays below the margin of 1."""
    table = rows(*runs)
    longest = max(r["n_agent_steps"] for r in runs) or 1
    faults = max(r["n_format_errors"] for r in runs) or 1
    margin = success_margin(table)
    bound = used * (1.0 if margin is None else margin)
    result = react(
        table, lambda_length=bound * part / longest, lambda_format=bound * (1 - part) / faults
    )
    assert outranked(table, result).num_rows == 0


def test_above_the_bound_a_failure_does_outrank_a_success() -> None:
    """A success of 60 steps at 0.02 has -0.2, a failure of one step -0.02."""
    table = rows({"n_agent_steps": 60}, {"success": False, "n_agent_steps": 1})
    assert outranked(table, react(table, lambda_length=0.02)).to_pylist() == [
        {
            "task_id": "t",
            "lowest_success": pytest.approx(-0.2),
            "highest_failure": pytest.approx(-0.02),
        }
    ]


@settings(deadline=None, max_examples=40)
@given(RUNS, st.floats(0, 0.49), st.floats(0, 0.5))
def test_within_its_budget_no_failure_outranks_a_success(
    runs: list[dict[str, Any]], turns: float, format_: float
) -> None:
    table = rows(*runs)
    result = turn_budget(table, max_turns=60, lambda_turns=turns, lambda_format=format_)
    assert outranked(table, result).num_rows == 0


@settings(deadline=None, max_examples=40)
@given(st.permutations(range(6)))
def test_the_order_of_the_rows_changes_no_value(order: list[int]) -> None:
    table = rows(*({"reward": n / 7, "n_agent_steps": n} for n in range(6)))
    told = scores(*[("execution_time_s", 3.0)])
    first = dict(zip(table["trajectory_id"].to_pylist(), values(sql(table, told)), strict=True))
    moved = table.take(order)
    again = dict(zip(moved["trajectory_id"].to_pylist(), values(sql(moved, told)), strict=True))
    assert again == first
    assert values(react(moved)) == [values(react(table))[place] for place in order]
