"""The Arrow tables that rewards are computed from, and the SQL that reads them from a store."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

Sql = Callable[[str], pa.Table]
"""Runs one SELECT over a store's views, as :meth:`StepSource.sql` does."""

INPUTS: dict[str, str] = {
    "rows": """
        SELECT trajectory_id, task_id, success, reward, n_agent_steps, n_tool_calls, n_tool_errors,
            n_format_errors, duration_s, shortest_success
        FROM trajectories LEFT JOIN (SELECT task_id, shortest_success FROM tasks) USING (task_id)
        WHERE {where} ORDER BY trajectory_id""",
    "calls": """
        SELECT trajectory_id, step_index, call_index, name,
            coalesce(arguments, arguments_raw) AS arguments, observation, is_error
        FROM tool_calls WHERE actor = 'agent' AND NOT is_copied AND {where}""",
    "steps": """
        SELECT trajectory_id, step_index, actor, text, n_calls
        FROM flat_steps WHERE NOT is_copied AND {where}""",
    "actions": """
        SELECT trajectory_id, step_index, reward
        FROM steps WHERE actor = 'agent' AND NOT is_copied AND {where}
        ORDER BY trajectory_id, step_index""",
    "scores": """
        SELECT trajectory_id, name, value, evaluator, created_at, label_id
        FROM labels WHERE step_index IS NULL AND value IS NOT NULL AND {where}
        UNION ALL
        SELECT trajectory_id, component.key AS name, component.value AS value,
            CAST(NULL AS VARCHAR) AS evaluator, CAST(NULL AS TIMESTAMPTZ) AS created_at,
            CAST(NULL AS VARCHAR) AS label_id
        FROM (SELECT trajectory_id, unnest(map_entries(rewards)) AS component
              FROM trajectories WHERE {where})
        ORDER BY trajectory_id, name, label_id""",
    "goals": """
        SELECT trajectory_id, name, best.step_index AS step_index, best.success AS success
        FROM (SELECT trajectory_id,
                  CASE WHEN name = 'subgoal' THEN 'step ' || step_index ELSE name[10:] END AS name,
                  max_by({{'step_index': step_index, 'success': success}},
                         {{'at': created_at, 'id': label_id}}) AS best
              FROM labels
              WHERE (starts_with(name, 'sub-goal/')
                      OR name = 'subgoal' AND step_index IS NOT NULL)
                  AND success IS NOT NULL AND {where}
              GROUP BY ALL)
        ORDER BY trajectory_id, step_index, name""",
    "estimates": """
        SELECT trajectory_id, step_index,
            max_by(value, {{'at': created_at, 'id': label_id}}) AS value
        FROM labels WHERE name = 'value' AND step_index IS NOT NULL AND isfinite(value) AND {where}
        GROUP BY ALL ORDER BY trajectory_id, step_index""",
}
"""Name -> SELECT with a place for a condition; the results are what the rewards are given.

* ``rows``: summary numbers with the effective outcome, one row a run. ``shortest_success`` is the
  number of tool calls of the shortest successful run of the task in the whole snapshot.
* ``calls``: the agent's own tool calls, each with its observation; in no order, as sorting texts
  costs more than reading them.
* ``steps``: all steps but copied context, with the text and the number of calls; in no order.
* ``actions``: the agent's own steps, with the reward that the environment gave.
* ``scores``: named numbers of whole runs: labels, and the components that came with the run (those
  without evaluator).
* ``goals``: sub-goals, from the newest label ``sub-goal/NAME`` of each name, and the newest label
  ``subgoal`` of each step (named ``step N``): the step at which it was decided (null for the end of
  the run) and whether it was reached.
* ``estimates``: the newest label ``value`` of each step: the return that somebody expected before
  that step.
"""


def read_input(sql: Sql, name: str, where: str = "true") -> pa.Table:
    """Read one input of the rewards from a store.

    Args:
        sql: runs a SELECT over the views.
        name: a key of :data:`INPUTS`.
        where: an SQL condition over ``trajectory_id``; for ``rows`` over all of ``trajectories``.
    """
    return sql(INPUTS[name].format(where=f"({where})"))
