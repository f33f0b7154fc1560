"""The SQL views over a snapshot, as text: what a data engineer sees."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from trajstore.schema import LABEL_SCHEMA, STEP_SCHEMA, TRAJECTORY_SCHEMA
from trajstore.store.connection import quoted

VIEW_NAMES = (
    "trajectories",
    "steps",
    "tool_calls",
    "messages",
    "labels",
    "tasks",
    "skills",
    "reflections",
    "workflows",
)
"""Views that user SQL may name."""

VIEW_MEANINGS = {
    "trajectories": "one row an attempt, with the effective outcome; `source_success` and "
    "`source_reward` are the source's own, `outcome_evaluator` says which label counted",
    "steps": "one row a step",
    "tool_calls": "one row a call, with its observation, error flag and position",
    "messages": "one row a message in order: role, content, and the tool call it answers",
    "labels": "one row an evaluator's word",
    "tasks": "one row a task: attempts, successes, unknown, rate, rewards, shortest success",
    "skills": "the newest row of each skill version",
    "reflections": "one row a reflection",
    "workflows": "one row a workflow",
}
"""What each view shows, for the docs and ``trajstore info``."""


def records(
    schema: pa.Schema, paths: Sequence[str], *, dead: bool, extra: Sequence[str] = ()
) -> str:
    """SELECT over the files of one record, dead revisions left out.

    Args:
        schema: columns to show, in order.
        paths: full paths of the Parquet files; an empty relation of the right types where none.
        dead: whether the table ``_dead`` has to be looked at.
        extra: further stored columns.
    """
    if not paths:
        fields = [*schema, *(pa.field(n, _EXTRA_TYPES[n]) for n in extra)]
        columns = ", ".join(f"CAST(NULL AS {_sql_type(f.type)}) AS {f.name}" for f in fields)
        return f"SELECT {columns} WHERE false"
    listed = ", ".join(quoted(p) for p in paths)
    columns = ", ".join([*(f'"{n}"' for n in schema.names), *extra])
    query = f"SELECT {columns} FROM read_parquet([{listed}], hive_partitioning=false)"
    return f"{query} WHERE revision NOT IN (SELECT revision FROM _dead)" if dead else query


_EXTRA_TYPES = {
    "tool_names": pa.list_(pa.string()),
    "tool_errors": pa.list_(pa.bool_()),
    "tool_results": pa.list_(pa.int32()),
    "revision": pa.int64(),
}


def _sql_type(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"{_sql_type(type_.value_type)}[]"
    if pa.types.is_map(type_):
        return f"MAP({_sql_type(type_.key_type)}, {_sql_type(type_.item_type)})"
    if pa.types.is_struct(type_):
        return f"STRUCT({', '.join(f'{f.name} {_sql_type(f.type)}' for f in type_)})"
    return _SCALARS[str(type_)]


_SCALARS = {
    "string": "VARCHAR",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "timestamp[us, tz=UTC]": "TIMESTAMPTZ",
}


def trajectories(paths: Sequence[str], *, dead: bool, labels: bool) -> str:
    """The ``trajectories`` view: with the effective outcome, and the source's own beside it."""
    own = records(TRAJECTORY_SCHEMA, paths, dead=dead)
    if not labels:
        return (
            "SELECT *, success AS source_success, reward AS source_reward, "
            f"CAST(NULL AS VARCHAR) AS outcome_evaluator FROM ({own})"
        )
    return f"""
        SELECT t.* REPLACE (
                coalesce(o.success, t.success) AS success,
                coalesce(o.value, t.reward) AS reward),
            t.success AS source_success,
            t.reward AS source_reward,
            o.evaluator AS outcome_evaluator
        FROM ({own}) t LEFT JOIN _outcomes o USING (trajectory_id)"""


OUTCOMES = """
    SELECT trajectory_id, best.success AS success, best.value AS value, best.evaluator AS evaluator
    FROM (
        SELECT trajectory_id,
            max_by({'success': success, 'value': value, 'evaluator': evaluator},
                {'rank': -coalesce(r.place, 1000000), 'at': created_at, 'id': label_id}) AS best
        FROM labels LEFT JOIN _evaluators r USING (evaluator)
        WHERE name = 'outcome' AND step_index IS NULL AND (success IS NOT NULL OR value IS NOT NULL)
        GROUP BY trajectory_id)"""
"""The outcome label that counts: the best-ranked evaluator's, then the newest, then by id."""

LABELS = LABEL_SCHEMA
STEPS = STEP_SCHEMA

TOOL_CALLS = """
    SELECT trajectory_id, step_index, actor, n - 1 AS call_index, tool_names[n] AS name,
        tool_calls[n].call_id AS call_id, tool_calls[n].arguments AS arguments,
        tool_calls[n].arguments_raw AS arguments_raw,
        observations[tool_results[n]].text AS observation, tool_errors[n] AS is_error,
        is_copied, timestamp
    FROM (SELECT *, unnest(range(1, len(tool_names) + 1)) AS n FROM _steps)"""
"""The ``tool_calls`` view; name and error flag come from narrow columns of their own."""

MESSAGES = """
    SELECT trajectory_id, step_index, part_index, role, content, reasoning, tool_calls, call_id,
        is_error, is_copied
    FROM (
        SELECT trajectory_id, step_index, 0 AS part_index,
            CASE actor WHEN 'agent' THEN 'assistant' ELSE actor END AS role,
            text AS content, reasoning, tool_calls, CAST(NULL AS VARCHAR) AS call_id,
            CAST(NULL AS BOOLEAN) AS is_error, is_copied
        FROM steps
        WHERE actor <> 'environment' OR text IS NOT NULL OR len(observations) = 0
        UNION ALL
        SELECT trajectory_id, step_index, part_index, 'tool' AS role, result.text AS content,
            NULL AS reasoning, NULL AS tool_calls, result.call_id AS call_id,
            result.is_error AS is_error, is_copied
        FROM (
            SELECT trajectory_id, step_index, is_copied, unnest(observations) AS result,
                unnest(range(1, len(observations) + 1)) AS part_index
            FROM steps))
    ORDER BY trajectory_id, step_index, part_index"""
"""The ``messages`` view."""

TASKS = """
    SELECT task_id,
        count(*) AS attempts,
        count(*) FILTER (success) AS successes,
        count(*) FILTER (success IS NULL) AS unknown,
        count(*) FILTER (success)
            / nullif(count(*) FILTER (success IS NOT NULL), 0) AS success_rate,
        min(reward) AS min_reward,
        max(reward) AS max_reward,
        min(n_tool_calls) FILTER (success) AS shortest_success,
        any_value(goal) AS goal,
        any_value(environment) AS environment,
        any_value(source) AS source
    FROM trajectories
    GROUP BY task_id"""
"""The ``tasks`` view; ``shortest_success`` counts tool calls."""
