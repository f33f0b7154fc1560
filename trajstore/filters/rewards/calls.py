"""What became of each tool call: failed, repeated, recovered."""

from __future__ import annotations

import pyarrow as pa

from trajstore.filters.relations import need_columns, numbered, relation

_COLUMNS = (
    "trajectory_id",
    "step_index",
    "call_index",
    "name",
    "arguments",
    "observation",
    "is_error",
)

ERROR_START = r"(?is)^[\s\[{(<\"']*(error|exception|traceback|fatal)\b"
"""An observation that begins like this tells of a failed call."""

ERROR_STATUS = (
    r"(?i)\b(http(/\d(\.\d)?)?|status|status[ _]?code|error[ _]?code)[\"']?\s*[:=]?\s*[\"']?"
    r"[45]\d\d\b"
)
"""A 4xx or 5xx status in the first 200 characters of an observation does too."""

_JUDGED = """
    WITH told AS (
        SELECT trajectory_id, step_index, call_index, name,
            CASE WHEN name IS NOT NULL THEN hash(name, coalesce(arguments, '')) END AS action,
            CASE
                WHEN is_error IS NOT NULL THEN is_error
                WHEN observation IS NULL THEN NULL
                ELSE regexp_matches(left(observation, 200), $error_start)
                    OR regexp_matches(left(observation, 200), $error_status)
            END AS failed
        FROM calls)
    SELECT trajectory_id, step_index, call_index, name, failed,
        coalesce(action = lag(action) OVER run, false) AS repeats,
        coalesce(NOT failed AND lag(failed) OVER tool AND lag(action) OVER tool <> action, false)
            AS recovers,
        coalesce(failed, false) AND NOT coalesce(lag(failed) OVER tool, false) AS starts_failing
    FROM told
    WINDOW run AS (PARTITION BY trajectory_id ORDER BY step_index, call_index),
        tool AS (PARTITION BY trajectory_id, name ORDER BY step_index, call_index)
    ORDER BY trajectory_id, step_index, call_index"""


def judged_calls(calls: pa.Table) -> pa.Table:
    """What became of each of the agent's calls.

    Args:
        calls: the input ``calls``.

    Returns:
        One row a call, ordered by run and position: ``trajectory_id, step_index, call_index, name``
        and four booleans. ``failed``: the source says so, or, where it says nothing, the
        observation reads like an error (:data:`ERROR_START`, :data:`ERROR_STATUS`); null where no
        result is known. ``repeats``: it is the same tool with the same arguments as the call right
        before it in the run. ``recovers``: it worked, and the call of the same tool before it
        failed with other arguments. ``starts_failing``: it failed, and the call of the same tool
        before it did not.
    """
    need_columns(calls, "calls", _COLUMNS)
    return relation(
        _JUDGED,
        tables={"calls": calls.select(list(_COLUMNS))},
        error_start=ERROR_START,
        error_status=ERROR_STATUS,
    )


def process_counts(rows: pa.Table, calls: pa.Table) -> pa.Table:
    """Numbers of calls of each run, in the order of ``rows``.

    Returns:
        ``n_calls``, ``n_effective`` (not failed), ``n_repeats``, ``n_faults`` (failed calls of one
        tool in a row count once) and ``n_recovered`` (faults that ended in a success of the tool
        with other arguments), as doubles; 0 for a run without calls.
    """
    query = """
        SELECT coalesce(n_calls, 0)::DOUBLE AS n_calls,
            coalesce(n_calls - n_failed, 0)::DOUBLE AS n_effective,
            coalesce(n_repeats, 0)::DOUBLE AS n_repeats,
            coalesce(n_faults, 0)::DOUBLE AS n_faults,
            coalesce(n_recovered, 0)::DOUBLE AS n_recovered
        FROM rows LEFT JOIN (
            SELECT trajectory_id, count(*) AS n_calls, count(*) FILTER (failed) AS n_failed,
                count(*) FILTER (repeats) AS n_repeats,
                count(*) FILTER (starts_failing) AS n_faults,
                count(*) FILTER (recovers) AS n_recovered
            FROM judged GROUP BY trajectory_id) USING (trajectory_id)
        ORDER BY place"""
    tables = {"rows": numbered(rows, "trajectory_id"), "judged": judged_calls(calls)}
    return relation(query, tables=tables)
