"""Rewards by sub-goals: a bonus for each reached, blame inside the span of the first that failed.

A sub-goal is a label ``sub-goal/NAME`` with ``success`` on the step at which it was decided, or on
the whole run where it was still open at the end. The span of a sub-goal begins behind the step at
which the sub-goal before it was decided, and ends with its own step.
"""

from __future__ import annotations

import pyarrow as pa

from trajstore.filters.relations import need_columns, relation
from trajstore.filters.rewards.terms import PASS_THRESHOLD, passed

_SPANS = """
    SELECT trajectory_id, name, coalesce(lag(step_index) OVER run + 1, 0) AS first_step,
        step_index AS last_step
    FROM goals
    WINDOW run AS (PARTITION BY trajectory_id ORDER BY step_index NULLS LAST, name)
    QUALIFY NOT success AND sum((NOT success)::INTEGER) OVER run = 1
    ORDER BY trajectory_id"""

_QUERY = """
    WITH blamed AS (
        SELECT trajectory_id, a.step_index AS step_index, f.name AS goal,
            e.value AS here,
            CASE WHEN a.next IS NULL THEN 0 ELSE n.value END AS after,
            count(*) OVER span AS n_actions,
            bool_and(e.value IS NOT NULL AND (a.next IS NULL OR n.value IS NOT NULL)) OVER span
                AS estimated
        FROM failed f
        JOIN outcomes o USING (trajectory_id)
        JOIN (SELECT trajectory_id, step_index, lead(step_index) OVER (
                  PARTITION BY trajectory_id ORDER BY step_index) AS next FROM actions) a
            USING (trajectory_id)
        LEFT JOIN estimates e
            ON e.trajectory_id = f.trajectory_id AND e.step_index = a.step_index
        LEFT JOIN estimates n ON n.trajectory_id = f.trajectory_id AND n.step_index = a.next
        WHERE NOT o.passed AND a.step_index >= f.first_step
            AND (f.last_step IS NULL OR a.step_index <= f.last_step)
        WINDOW span AS (PARTITION BY trajectory_id))
    SELECT * FROM (
        SELECT g.trajectory_id AS trajectory_id, g.step_index::INTEGER AS step_index,
            'sub-goal-reached' AS name, (count(*) * $bonus)::DOUBLE AS value,
            string_agg(g.name, ', ' ORDER BY g.name) AS rationale
        FROM goals g JOIN outcomes o USING (trajectory_id)
        WHERE g.success AND g.step_index IS NOT NULL GROUP BY 1, 2
        UNION ALL
        SELECT trajectory_id, step_index::INTEGER, 'sub-goal-failed',
            CASE WHEN estimated THEN least(0, after - here) ELSE -$penalty / n_actions END::DOUBLE,
            goal || CASE WHEN estimated THEN ', by value estimates' ELSE '' END
        FROM blamed)
    WHERE name <> 'sub-goal-failed' OR value < 0
    ORDER BY trajectory_id, step_index, name"""


def first_failed_sub_goals(goals: pa.Table) -> pa.Table:
    """The first sub-goal that failed in each run, in order of the steps at which they were decided.

    Args:
        goals: the input ``goals``.

    Returns:
        One row a run with a failed sub-goal: ``trajectory_id``, ``name``, ``first_step`` and
        ``last_step`` of its span (both included; a null ``last_step`` is the end of the run).
    """
    need_columns(goals, "goals", ["trajectory_id", "name", "step_index", "success"])
    return relation(_SPANS, tables={"goals": goals})


def sub_goals(
    rows: pa.Table,
    actions: pa.Table,
    goals: pa.Table,
    estimates: pa.Table,
    *,
    bonus: float = 0.2,
    penalty: float = 0.2,
    pass_threshold: float | None = PASS_THRESHOLD,
) -> pa.Table:
    """A bonus at each sub-goal reached, and blame on the actions of the first failed one.

    Blame falls only where the task failed, and only on the agent's steps inside the span of the
    first sub-goal that failed: ``-penalty`` shared evenly among them. Where every one of them has a
    value estimate, each gets the counterfactual instead: what it lost of the value expected before
    it, ``min(0, V(next action) - V(this action))``; the value behind the run's last action is 0.

    Args:
        rows: one row a run.
        actions: the agent's steps.
        goals: sub-goals.
        estimates: value estimates of steps.
        bonus: for each sub-goal reached, on its step.
        penalty: for the first failed sub-goal, given as a positive number.
        pass_threshold: see :func:`trajstore.filters.rewards.passed`.

    Returns:
        ``trajectory_id``, ``step_index``, ``name`` (``sub-goal-reached`` or ``sub-goal-failed``),
        ``value``, ``rationale`` (the sub-goal's name); ordered by run, step and name.
    """
    outcomes = pa.table(
        {
            "trajectory_id": rows.column("trajectory_id"),
            "passed": passed(rows, pass_threshold),
        }
    )
    tables = {
        "failed": first_failed_sub_goals(goals),
        "outcomes": outcomes,
        "actions": actions,
        "goals": goals,
        "estimates": estimates,
    }
    return relation(_QUERY, tables=tables, bonus=bonus, penalty=penalty)
