from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import details, selected, summaries, why
from trajstore.errors import SelectionError
from trajstore.filters import Frame, stage
from trajstore.filters.efficiency import COSTS, cost_sql, ranked, spl
from trajstore.filters.rewards import spl as spl_reward


def worked_example() -> Frame:
    """The five runs of the contract's example: id, success, reward, calls, tokens."""
    runs = [
        ("a1", True, 1.0, 4, 900),
        ("a2", True, 1.0, 6, 700),
        ("a3", False, 0.2, 2, 300),
        ("a4", True, 0.9, 4, 800),
        ("a5", True, 1.0, 4, 850),
    ]
    return summaries(
        *(
            {
                "trajectory_id": i,
                "success": s,
                "reward": r,
                "n_tool_calls": c,
                "prompt_tokens": 0,
                "completion_tokens": t,
            }
            for i, s, r, c, t in runs
        )
    )


def order(rows: pa.Table) -> list[str]:
    ids: list[str] = rows.sort_by("rank").column("trajectory_id").to_pylist()
    return ids


def test_the_worked_example_of_efficiency() -> None:
    """Shortest success 4 calls: 4/4, 4/6, failure 0, 4/4, 4/4; their mean is 0.733333."""
    rows = worked_example().rows
    assert ranked(rows).column("efficiency").to_pylist() == pytest.approx([1, 2 / 3, 0, 1, 1])
    assert spl(rows) == pytest.approx(0.733333, abs=1e-6)


def test_the_worked_example_of_the_order() -> None:
    """Reward 1 with 4 calls by tokens (a5, a1), reward 1 with 6 calls, reward .9, the failure."""
    assert order(ranked(worked_example().rows)) == ["a5", "a1", "a2", "a4", "a3"]


def test_a_failed_short_run_is_never_the_most_efficient() -> None:
    rows = ranked(worked_example().rows)
    failure = rows.slice(2, 1).to_pylist()[0]
    assert (failure["cost"], failure["efficiency"], failure["rank"]) == (2.0, 0.0, 5)
    assert "a3" not in selected(worked_example(), stage("efficient", least=0.0)).ids()


def test_where_nobody_succeeded_nobody_is_efficient() -> None:
    frame = summaries({"success": False, "n_tool_calls": 1}, {"success": False, "n_tool_calls": 9})
    assert ranked(frame.rows).column("efficiency").to_pylist() == [0.0, 0.0]
    assert selected(frame, stage("efficient", least=0.0)).ids() == []


def test_an_unknown_outcome_has_no_efficiency_and_stands_before_failures() -> None:
    frame = summaries({"success": False}, {"success": None}, {"success": True})
    rows = ranked(frame.rows)
    assert rows.column("efficiency").to_pylist() == [0.0, None, 1.0]
    assert order(rows) == ["c", "b", "a"]


def test_an_unknown_outcome_is_left_out_of_the_mean() -> None:
    frame = summaries({"success": True, "n_tool_calls": 3}, {"success": None}, {"success": False})
    assert spl(frame.rows) == 0.5
    assert spl(summaries({"success": None}).rows) is None


def test_failures_of_unknown_cost_do_not_pull_the_mean_down() -> None:
    """Seconds are known of one success alone; where they are known of nobody there is no mean."""
    frame = summaries({"success": True, "duration_s": 5.0}, {"success": True}, {"success": False})
    assert spl(frame.rows, "seconds") == 1.0
    assert spl(frame.rows, "cost") is None


def test_efficiency_is_reckoned_inside_each_task() -> None:
    frame = summaries(
        {"task_id": "easy", "success": True, "n_tool_calls": 2},
        {"task_id": "hard", "success": True, "n_tool_calls": 20},
        {"task_id": "hard", "success": True, "n_tool_calls": 40},
    )
    assert ranked(frame.rows).column("efficiency").to_pylist() == [1.0, 1.0, 0.5]


def test_a_success_of_unknown_cost_is_dropped_by_name() -> None:
    frame = summaries({"success": True, "cost_usd": 0.5}, {"success": True, "cost_usd": None})
    selection = selected(frame, stage("efficient", cost="cost"))
    assert (selection.ids(), why(selection)) == (["a"], {"b": "unknown-cost"})


def test_a_success_without_any_call_leaves_the_others_something() -> None:
    """Calls count from 1: none is as good as one, and four are a quarter of that."""
    frame = summaries(*({"success": True, "n_tool_calls": n} for n in (0, 1, 4)))
    assert ranked(frame.rows).column("efficiency").to_pylist() == [1.0, 1.0, 0.25]


def test_the_reward_spl_is_the_same_efficiency() -> None:
    calls = (0, 3, 1, 7, 2, 0)
    frame = summaries(*({"success": n != 3, "n_tool_calls": n} for n in calls))
    assert ranked(frame.rows).column("efficiency").equals(spl_reward(frame.rows).column("value"))


def test_costs_that_are_no_counts_count_from_0() -> None:
    frame = summaries({"success": True, "cost_usd": 0.02}, {"success": True, "cost_usd": 0.04})
    assert ranked(frame.rows, "cost").column("efficiency").to_pylist() == [1.0, 0.5]


def test_an_oracle_length_counts_instead_of_the_cheapest_success() -> None:
    frame = summaries({"success": True, "n_tool_calls": 4}, {"success": True, "n_tool_calls": 8})
    rows = frame.rows.append_column("oracle", pa.array([2, None], pa.int32()))
    assert ranked(rows, shortest="oracle").column("efficiency").to_pylist() == [0.5, 0.5]


COLUMNS = {
    "steps": {"n_agent_steps": 7},
    "tool-calls": {"n_tool_calls": 7},
    "tokens": {"prompt_tokens": 3, "completion_tokens": 4},
    "cost": {"cost_usd": 7.0},
    "seconds": {"duration_s": 7.0},
}


@pytest.mark.parametrize("cost", sorted(COSTS))
def test_every_named_cost_reads_its_columns(cost: Any) -> None:
    rows = summaries(COLUMNS[cost]).rows
    assert ranked(rows, cost).column("cost").to_pylist() == [7.0]


def test_a_weighted_cost_is_the_sum_with_tokens_in_thousands() -> None:
    """2 * 5 calls + 0.5 * 3000 / 1000 tokens = 11.5; seconds have no weight and may be unknown."""
    rows = summaries({"n_tool_calls": 5, "prompt_tokens": 1000, "completion_tokens": 2000}).rows
    weights = {"tool-calls": 2, "tokens": 0.5, "seconds": 0}
    assert ranked(rows, "weighted", weights).column("cost").to_pylist() == [11.5]


@pytest.mark.parametrize(
    ("cost", "weights", "message"),
    [
        ("money", None, "no cost 'money'. Costs: steps, tool-calls"),
        ("steps", {"tokens": 1}, "belong to the cost 'weighted'"),
        ("weighted", None, "needs weights above 0"),
        ("weighted", {"tokens": -1.0}, "needs weights above 0"),
        ("weighted", {"calls": 1.0}, "some of steps, tool-calls"),
    ],
)
def test_a_cost_that_is_none_is_refused(
    cost: str, weights: Mapping[str, float] | None, message: str
) -> None:
    with pytest.raises(SelectionError, match=message):
        cost_sql(cost, weights)


def test_what_is_not_a_number_ranks_as_unknown() -> None:
    nan = float("nan")
    frame = summaries(
        {"success": True, "reward": nan},
        {"success": True, "reward": 0.1, "duration_s": nan},
        {"success": True, "reward": 0.1, "duration_s": 9.0},
    )
    rows = ranked(frame.rows, "seconds")
    assert order(rows) == ["c", "b", "a"]
    assert rows.column("cost").to_pylist() == [None, None, 9.0]


def test_equal_runs_rank_by_id() -> None:
    frame = summaries(*[{"success": True, "reward": 1.0}] * 3)
    assert order(ranked(frame.rows.take([2, 0, 1]))) == ["a", "b", "c"]


def test_over_the_pool_all_rows_share_one_order() -> None:
    frame = summaries(
        {"task_id": "s", "success": True, "n_tool_calls": 9}, {"task_id": "t", "success": False}
    )
    assert ranked(frame.rows).column("rank").to_pylist() == [1, 1]
    assert ranked(frame.rows, per="pool").column("rank").to_pylist() == [1, 2]


def test_the_stage_rank_adds_columns_and_keeps_every_row() -> None:
    rows = selected(worked_example(), stage("rank", cost="tokens")).rows
    assert rows.column("cost").to_pylist() == [900, 700, 300, 800, 850]
    assert rows.column("rank").to_pylist() == [3, 1, 5, 4, 2]


def test_ranking_again_replaces_the_columns() -> None:
    rows = selected(worked_example(), stage("rank"), stage("rank", cost="tokens")).rows
    assert rows.column("cost").to_pylist() == [900, 700, 300, 800, 850]
    assert rows.column_names.count("cost") == 1


def test_the_stage_efficient_says_why() -> None:
    frame = summaries(
        {"success": True, "n_tool_calls": 4},
        {"success": True, "n_tool_calls": 5},
        {"success": True, "n_tool_calls": 6},
        {"success": False, "n_tool_calls": 4},
        {"success": None, "n_tool_calls": 4},
    )
    selection = selected(frame, stage("efficient"))
    assert selection.ids() == ["a", "b"]
    assert why(selection) == {"c": "inefficient", "d": "failure", "e": "unknown-outcome"}
    assert details(selection) == {"c": "0.6667", "d": None, "e": None}


def test_an_efficiency_above_1_is_refused() -> None:
    with pytest.raises(SelectionError, match=r"from 0 to 1, not 1\.5"):
        stage("efficient", least=1.5)


RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "task_id": st.sampled_from("st"),
            "success": st.sampled_from([True, False, None]),
            "reward": st.sampled_from([None, 0.0, 0.5, 1.0]),
            "n_tool_calls": st.integers(0, 3),
            "prompt_tokens": st.sampled_from([None, 5, 9]),
            "completion_tokens": st.just(1),
        }
    ),
    max_size=12,
)


def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The order of runs, in plain Python."""
    unknown = float("inf")
    tokens = row["prompt_tokens"]
    return (
        {True: 0, None: 1, False: 2}[row["success"]],
        unknown if row["reward"] is None else -row["reward"],
        row["n_tool_calls"],
        unknown if tokens is None else tokens,
        row["trajectory_id"],
    )


@settings(max_examples=60, deadline=None)
@given(RUNS, st.randoms(use_true_random=False))
def test_the_order_is_that_of_plain_python_whatever_the_order_of_rows(
    runs: list[dict[str, Any]], draw: Any
) -> None:
    rows = summaries(*runs).rows
    shuffled = rows.take(pa.array(draw.sample(range(len(runs)), len(runs)), pa.int64()))
    found = ranked(shuffled).sort_by([("task_id", "ascending"), ("rank", "ascending")])
    plain = sorted(rows.to_pylist(), key=lambda r: (r["task_id"], *place(r)))
    assert found.column("trajectory_id").to_pylist() == [r["trajectory_id"] for r in plain]
