"""The SQL views over a snapshot, as text: what a data engineer sees."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from trajstore.schema import LABEL_SCHEMA, STEP_SCHEMA, TRAJECTORY_SCHEMA
from trajstore.store.connection import quoted
from trajstore.store.flat import (
    ARGUMENTS_RAW_SQL,
    CALL,
    CALLS_SQL,
    FLAT_COLUMNS,
    RESULT,
    RESULT_ID_SQL,
    RESULTS_SQL,
)
from trajstore.store.layout import STORED_SCHEMAS
from trajstore.store.snapshot import Snapshot

FLAT_NAMES = frozenset(f.name for f in FLAT_COLUMNS)
"""Columns that a step file of format version 1 lacks."""

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
    "insights",
    "uses",
)
"""Views that user SQL may name."""

UNLISTED_VIEWS = ("flat_steps",)
"""Views that SQL may name too, and that follow the form on disk: quicker, and longer to write."""

VIEW_MEANINGS = {
    "trajectories": "one row an attempt, with the effective outcome; `source_success` and "
    "`source_reward` are the source's own, `outcome_evaluator` says which label counted",
    "steps": "one row a step",
    "tool_calls": "one row a call, with its observation, error flag and position",
    "messages": "one row a message in order: role, content, and the tool call it answers",
    "labels": "one row an evaluator's word",
    "tasks": "one row a task: attempts, successes, unknown, rate, rewards, shortest success",
    "skills": "the newest row of each skill version, with the runs that were given it and those "
    "of them that succeeded",
    "reflections": "one row a reflection, with the runs that were given it and how they ended",
    "workflows": "one row a workflow, with the runs that were given it and how they ended",
    "insights": "the newest version of each insight, with the runs that were given any version of "
    "it and how they ended",
    "uses": "one row an item of memory that a run was given",
}
"""What each view shows, for the docs and ``trajstore info``."""


def records(
    schema: pa.Schema,
    paths: Sequence[str],
    *,
    dead: bool,
    missing: Collection[str] = (),
) -> str:
    """SELECT over the files of one record, dead revisions left out.

    Args:
        schema: columns to show, in order.
        paths: full paths of the Parquet files; an empty relation of the right types where none.
        dead: whether the table ``_dead`` has to be looked at.
        missing: columns that these files lack; they are null.
    """
    absent = schema.names if not paths else missing
    columns = ", ".join(
        f"CAST(NULL AS {_sql_type(f.type)}) AS {f.name}" if f.name in absent else f'"{f.name}"'
        for f in schema
    )
    if not paths:
        return f"SELECT {columns} WHERE false"
    listed = ", ".join(quoted(p) for p in paths)
    query = f"SELECT {columns} FROM read_parquet([{listed}], hive_partitioning=false)"
    return f"{query} WHERE revision NOT IN (SELECT revision FROM _dead)" if dead else query


def stored_steps(snapshot: Snapshot, *, dead: bool) -> str:
    """SELECT over the steps of a snapshot as they are stored, with files of format version 1."""
    schema = STORED_SCHEMAS["step"]
    files = snapshot.of_record("step")
    flat = snapshot.paths(f for f in files if f.is_flat)
    nested = snapshot.paths(f for f in files if not f.is_flat)
    query = records(schema, flat, dead=dead)
    if not nested:
        return query
    older = records(schema, nested, dead=dead, missing=FLAT_NAMES)
    return f"{query} UNION ALL {older}" if flat else older


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

STEPS = f"""
    SELECT {
    ", ".join(
        {
            "tool_calls": f"{CALLS_SQL} AS tool_calls",
            "observations": f"{RESULTS_SQL} AS observations",
        }.get(name, name)
        for name in STEP_SCHEMA.names
    )
} FROM _steps"""
"""The ``steps`` view, over the stored steps."""

FLAT_STEPS = f"""
    SELECT {", ".join(STEP_SCHEMA.names)}, shape IS NOT NULL AS is_flat,
        CASE WHEN shape IS NULL THEN coalesce(len(tool_calls), 0) ELSE shape & {CALL} END::INTEGER
            AS n_calls,
        CASE WHEN shape IS NULL THEN coalesce(len(observations), 0)
            ELSE (shape & {RESULT}) // {RESULT} END::INTEGER AS n_results,
        shape IS NULL OR shape & {RESULT} <> 0 AS is_answered,
        call_id, tool_name, arguments, {ARGUMENTS_RAW_SQL} AS arguments_raw,
        {RESULT_ID_SQL} AS result_call_id, observation, is_error, observation_content
    FROM _steps"""
"""The view ``flat_steps``, for queries over the text of all steps: no list is built.

Where ``is_flat``, a step has at most one call and one result, they are in the columns from
``call_id`` on, and ``tool_calls`` and ``observations`` are null; other steps have just these lists.
``is_answered`` is true of all of them, and of flat steps with a result, without a look at any list.
"""

TOOL_CALLS = f"""
    SELECT trajectory_id, step_index, actor, CAST(0 AS BIGINT) AS call_index, tool_name AS name,
        call_id, arguments, {ARGUMENTS_RAW_SQL} AS arguments_raw, observation, is_error, is_copied,
        timestamp
    FROM _steps WHERE tool_name IS NOT NULL
    UNION ALL
    SELECT trajectory_id, step_index, actor, n - 1 AS call_index, tool_names[n] AS name,
        tool_calls[n].call_id AS call_id, tool_calls[n].arguments AS arguments,
        tool_calls[n].arguments_raw AS arguments_raw,
        observations[tool_results[n]].text AS observation, tool_errors[n] AS is_error,
        is_copied, timestamp
    FROM (
        SELECT *, unnest(range(1, len(tool_names) + 1)) AS n FROM _steps WHERE shape IS NULL)"""
"""The ``tool_calls`` view: flat steps, then those with lists, whose names and flags lie apart."""

MESSAGES = f"""
    SELECT trajectory_id, step_index, part_index, role, content, reasoning, tool_calls, call_id,
        is_error, is_copied
    FROM (
        SELECT trajectory_id, step_index, 0 AS part_index,
            CASE actor WHEN 'agent' THEN 'assistant' ELSE actor END AS role,
            text AS content, reasoning, {CALLS_SQL} AS tool_calls,
            CAST(NULL AS VARCHAR) AS call_id, CAST(NULL AS BOOLEAN) AS is_error, is_copied
        FROM _steps
        WHERE actor <> 'environment' OR text IS NOT NULL
            OR coalesce(shape & {RESULT} = 0, len(observations) = 0)
        UNION ALL
        SELECT trajectory_id, step_index, 1 AS part_index, 'tool' AS role, observation AS content,
            NULL AS reasoning, NULL AS tool_calls, {RESULT_ID_SQL} AS call_id, is_error, is_copied
        FROM _steps WHERE shape & {RESULT} <> 0
        UNION ALL
        SELECT trajectory_id, step_index, part_index, 'tool' AS role, result.text AS content,
            NULL AS reasoning, NULL AS tool_calls, result.call_id AS call_id,
            result.is_error AS is_error, is_copied
        FROM (
            SELECT trajectory_id, step_index, is_copied, unnest(observations) AS result,
                unnest(range(1, len(observations) + 1)) AS part_index
            FROM _steps WHERE shape IS NULL))
    ORDER BY trajectory_id, step_index, part_index"""
"""The ``messages`` view."""

BLOB_NAMES = """
    list_distinct(flatten([
        regexp_extract_all(content, 'blob:sha256:([0-9a-f]{64})', 1),
        regexp_extract_all(observation_content, 'blob:sha256:([0-9a-f]{64})', 1),
        flatten(list_transform(observations, lambda o:
            regexp_extract_all(o.content, 'blob:sha256:([0-9a-f]{64})', 1)))]))"""
"""SHA-256 of the blobs that a stored step names."""

BLOBS = f"""
    SELECT DISTINCT unnest({BLOB_NAMES}) FROM _steps
    WHERE content IS NOT NULL OR observation_content IS NOT NULL OR shape IS NULL"""
"""SHA-256 of every blob that a step names."""

TASKS = """
    SELECT task_id,
        count(*) AS attempts,
        count(*) FILTER (success) AS successes,
        count(*) FILTER (success IS NULL) AS unknown,
        count(*) FILTER (success)
            / nullif(count(*) FILTER (success IS NOT NULL), 0) AS success_rate,
        min(reward) FILTER (NOT isnan(reward)) AS min_reward,
        max(reward) FILTER (NOT isnan(reward)) AS max_reward,
        min(n_tool_calls) FILTER (success) AS shortest_success,
        any_value(goal) AS goal,
        any_value(environment) AS environment,
        any_value(source) AS source
    FROM trajectories
    GROUP BY task_id"""
"""The ``tasks`` view; ``shortest_success`` counts tool calls."""

SKILLS = """
    SELECT s.* REPLACE (
            s.uses + coalesce(u.uses, 0) AS uses,
            s.successes + coalesce(u.successes, 0) AS successes),
        u.last_success_at
    FROM _skills s LEFT JOIN (
        SELECT item_id,
            count(*) AS uses,
            count(*) FILTER (success) AS successes,
            max(coalesce(ended_at, given_at)) FILTER (success) AS last_success_at
        FROM uses LEFT JOIN trajectories USING (trajectory_id)
        WHERE kind = 'skill'
        GROUP BY item_id) u ON u.item_id = s.skill_id"""
"""The ``skills`` view: uses are counted from what is recorded, so a late outcome counts too."""


def _with_uses(rows: str, key: str, kind: str, item: str) -> str:
    return f"""
    SELECT m.*,
        coalesce(u.uses, 0) AS uses,
        coalesce(u.successes, 0) AS successes,
        coalesce(u.failures, 0) AS failures,
        u.last_success_at
    FROM ({rows}) m LEFT JOIN (
        SELECT {item} AS item,
            count(*) AS uses,
            count(*) FILTER (success) AS successes,
            count(*) FILTER (NOT success) AS failures,
            max(coalesce(ended_at, given_at)) FILTER (success) AS last_success_at
        FROM uses LEFT JOIN trajectories USING (trajectory_id)
        WHERE kind = '{kind}'
        GROUP BY item) u ON u.item = m.{key}"""


COUNTED = {
    "skills": SKILLS,
    "reflections": _with_uses("FROM _reflections", "reflection_id", "reflection", "item_id"),
    "workflows": _with_uses("FROM _workflows", "workflow_id", "workflow", "item_id"),
    "insights": _with_uses(
        "FROM _insights QUALIFY version = max(version) OVER (PARTITION BY insight_id)",
        "insight_id",
        "insight",
        "split_part(item_id, '@', 1)",
    ),
}
"""Views over a table of memory (its name behind ``_``) with what is recorded of its uses."""
