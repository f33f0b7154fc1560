"""From rewards of runs to rewards of steps, and back."""

from __future__ import annotations

import pyarrow as pa

from trajstore.filters.relations import need_columns, numbered, relation


def place_on_steps(actions: pa.Table, rewarded: pa.Table) -> pa.Table:
    """Step rewards of runs: the environment's own or 0, and the run's reward on its last action.

    Args:
        actions: the input ``actions``.
        rewarded: what a reward of whole runs gave; a run with a null value is left out.

    Returns:
        One row an action, ordered by run and step: ``trajectory_id``, ``step_index``, ``value``.
    """
    need_columns(actions, "actions", ["trajectory_id", "step_index", "reward"])
    query = """
        SELECT trajectory_id, step_index, CASE
            WHEN step_index = max(step_index) OVER (PARTITION BY trajectory_id) THEN r.value
            ELSE coalesce(reward, 0) END::DOUBLE AS value
        FROM actions JOIN rewarded r USING (trajectory_id)
        WHERE r.value IS NOT NULL ORDER BY trajectory_id, step_index"""
    return relation(query, tables={"actions": actions, "rewarded": rewarded})


def step_totals(rows: pa.Table, fired: pa.Table) -> pa.Table:
    """The sum of step rewards of each run, in the order of ``rows``; 0 where no rule fired.

    Args:
        rows: one row a run.
        fired: what a reward of steps gave.

    Returns:
        ``trajectory_id`` and ``value``.
    """
    query = """
        SELECT trajectory_id, round(coalesce(total, 0), 12)::DOUBLE AS value
        FROM rows LEFT JOIN (
            SELECT trajectory_id, sum(value) AS total FROM fired GROUP BY trajectory_id)
            USING (trajectory_id)
        ORDER BY place"""
    return relation(query, tables={"rows": numbered(rows, "trajectory_id"), "fired": fired})
