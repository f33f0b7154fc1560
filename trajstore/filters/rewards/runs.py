"""Rewards of whole runs: the task's reward or verdict, minus what the run cost.

Each function takes Arrow tables (see :data:`trajstore.filters.rewards.INPUTS`) and gives one row a
run, in the order of ``rows``: ``trajectory_id``, ``value`` and one column a term; the value is the
sum of the terms. A run of which a needed number is unknown has a null value, never a guess.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.relations import need_columns, numbered, relation
from trajstore.filters.rewards.terms import (
    PASS_THRESHOLD,
    any_format_error,
    column,
    composed,
    named_score,
    scaled,
    task_reward,
    verdict,
)


def react(rows: pa.Table, *, lambda_format: float = 0.1, lambda_length: float = 0.01) -> pa.Table:
    """``R_task - lambda_format * n_format_errors - lambda_length * n_agent_steps``.

    No failure outranks a success while ``lambda_format * F + lambda_length * T`` of the worst run
    stays below the gap between the task rewards (see :func:`success_margin`).
    """
    return composed(
        rows,
        {
            "task": task_reward(rows),
            "format": scaled(-lambda_format, column(rows, "n_format_errors")),
            "length": scaled(-lambda_length, column(rows, "n_agent_steps")),
        },
    )


def react_any_error(
    rows: pa.Table, *, lambda_eff: float = 0.01, lambda_format: float = 0.1
) -> pa.Table:
    """``R_task - lambda_eff * n_agent_steps - lambda_format * [any format error]``.

    The bound of :func:`react` holds with F = 1.
    """
    return composed(
        rows,
        {
            "task": task_reward(rows),
            "length": scaled(-lambda_eff, column(rows, "n_agent_steps")),
            "format": scaled(-lambda_format, any_format_error(rows)),
        },
    )


def efficiency(rows: pa.Table, *, lambda_eff: float = 0.01, lambda_format: float = 0.1) -> pa.Table:
    """``R_task - lambda_eff * n_tool_calls - lambda_format * [any format error]``.

    Like :func:`react_any_error`, with the cost that runs are ranked by: tool calls.
    """
    return composed(
        rows,
        {
            "task": task_reward(rows),
            "length": scaled(-lambda_eff, column(rows, "n_tool_calls")),
            "format": scaled(-lambda_format, any_format_error(rows)),
        },
    )


def turn_budget(
    rows: pa.Table,
    *,
    max_turns: int,
    lambda_turns: float = 0.1,
    lambda_format: float = 0.5,
    pass_threshold: float | None = PASS_THRESHOLD,
) -> pa.Table:
    """``1[success] - lambda_turns * turns / max_turns - lambda_format * [any format error]``.

    A turn is a step of the agent; turns above the budget go on costing. Within the budget no
    failure outranks a success while ``lambda_turns + lambda_format < 1``.

    Args:
        rows: one row a run.
        max_turns: the budget in turns, at least 1.
        lambda_turns: cost of the whole budget.
        lambda_format: cost of at least one format error.
        pass_threshold: see :func:`passed`.
    """
    if max_turns < 1:
        raise SelectionError(f"max_turns must be at least 1, not {max_turns}.")
    turns = scaled(-lambda_turns / max_turns, column(rows, "n_agent_steps"))
    return composed(
        rows,
        {
            "success": verdict(rows, pass_threshold),
            "turns": turns,
            "format": scaled(-lambda_format, any_format_error(rows)),
        },
    )


def search(
    rows: pa.Table,
    calls: pa.Table,
    *,
    tools: str = "(?i)search",
    penalty: float = 0.05,
    pass_threshold: float | None = PASS_THRESHOLD,
) -> pa.Table:
    """``1[correct] - penalty * n_searches``.

    No failure outranks a success of up to ``1 / penalty`` searches (20 as it stands).

    Args:
        rows: one row a run.
        calls: the agent's calls.
        tools: regular expression (RE2); a call counts as a search if the tool's name matches.
        penalty: cost of one search.
        pass_threshold: see :func:`passed`.
    """
    need_columns(calls, "calls", ["trajectory_id", "name"])
    query = """
        SELECT coalesce(n, 0)::DOUBLE AS n
        FROM rows LEFT JOIN (
            SELECT trajectory_id, count(*) AS n FROM calls
            WHERE regexp_matches(name, $tools) GROUP BY trajectory_id) USING (trajectory_id)
        ORDER BY place"""
    tables = {
        "rows": numbered(rows, "trajectory_id"),
        "calls": calls.select(["trajectory_id", "name"]),
    }
    searches = relation(query, tables=tables, tools=tools).column("n")
    return composed(
        rows, {"correct": verdict(rows, pass_threshold), "searches": scaled(-penalty, searches)}
    )


def rlef(
    rows: pa.Table,
    scores: pa.Table,
    *,
    passed_tests: str = "tests_passed",
    total_tests: str = "tests_total",
    evaluator: str | None = None,
) -> pa.Table:
    """``passed / total`` tests, in [0, 1] (RLEF, execution feedback).

    Null where either score is missing, where no test ran, and where the two contradict each other
    (more passed than there are, or a negative count).

    Args:
        rows: one row a run.
        scores: named numbers of runs.
        passed_tests: name of the score that counts the passed tests.
        total_tests: name of the score that counts all tests.
        evaluator: take the scores of this evaluator only.
    """
    good = named_score(rows, scores, passed_tests, evaluator)
    total = named_score(rows, scores, total_tests, evaluator)
    sound = pc.and_(
        pc.greater(total, 0), pc.and_(pc.greater_equal(good, 0), pc.less_equal(good, total))
    )
    share = pc.divide(good, pc.if_else(sound, total, pa.scalar(None, pa.float64())))
    return composed(rows, {"tests": share})


def sql(
    rows: pa.Table,
    scores: pa.Table,
    *,
    time: str = "execution_time_s",
    time_limit_s: float = 30.0,
    lambda_time: float = 0.1,
    pass_threshold: float | None = PASS_THRESHOLD,
) -> pa.Table:
    """``1[correct] - lambda_time * min(time / time_limit_s, 1)``.

    No failure outranks a success while ``lambda_time < 1``.

    Args:
        rows: one row a run.
        scores: named numbers of runs.
        time: name of the score (or column of ``rows``, such as ``duration_s``) that holds the time
            in which the query ran, in seconds.
        time_limit_s: at this time the penalty is whole.
        lambda_time: the whole penalty.
        pass_threshold: see :func:`passed`.
    """
    if time_limit_s <= 0:
        raise SelectionError(f"time_limit_s must be above 0 seconds, not {time_limit_s}.")
    seconds = named_score(rows, scores, time)
    share = pc.min_element_wise(pc.divide(seconds, time_limit_s), 1.0, skip_nulls=False)
    return composed(
        rows, {"correct": verdict(rows, pass_threshold), "time": scaled(-lambda_time, share)}
    )
