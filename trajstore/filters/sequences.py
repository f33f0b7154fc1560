"""What each run did, as a sequence of canonical actions, asked of the store in one query.

An action is a tool call of one of the agent's own steps (tool name, U+001F, canonical arguments),
or, where such a step calls no tool, what it says (U+001F and the text). Copied context is left out.
Volatile values are masked as :func:`trajstore.schema.mask_volatile` does, here in SQL, so that the
text of the steps never leaves the engine.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.filters.selection import Frame

_MOST_NAMED = 200

_SIGN = r"-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-|-\d\d[T ]\d\d:\d\d|/tmp/|/var/folders/|0x"
_MASKS = (
    (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", "<uuid>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"/(tmp|var/folders)/[\p{L}\p{N}_.+-]+", "<tmp>"),
    (r"\b0x[0-9a-fA-F]{6,16}\b", "<address>"),
)


def masked(text: str) -> str:
    """SQL for a text without what differs from run to run.

    Args:
        text: an SQL expression.
    """
    clean = text
    for pattern, kind in _MASKS:
        clean = f"regexp_replace({clean}, '{pattern}', '{kind}', 'g')"
    return f"CASE WHEN regexp_matches({text}, '{_SIGN}') THEN {clean} ELSE {text} END"


_ACTIONS = """
    SELECT trajectory_id, step_index,
        CASE
            WHEN len(tool_calls) > 0 THEN list_transform(tool_calls, lambda c: coalesce(c.name, '')
                || chr(31) || coalesce(nullif(c.arguments, ''), c.arguments_raw, ''))
            WHEN trim(text) <> '' THEN [chr(31) || trim(text)]
        END AS actions
    FROM steps
    WHERE actor = 'agent' AND NOT is_copied"""


def asked(frame: Frame, query: str) -> pa.Table:
    """The rows of a query, brought into the order of a frame.

    Args:
        frame: whose rows to answer for.
        query: a SELECT with a column ``trajectory_id``, one row a trajectory at most, and
            ``{where}`` where a condition on it may stand, ``TRUE`` or a list of ids.

    Returns:
        One row for each row of the frame; null where the query has none.
    """
    ids = frame.rows.column("trajectory_id")
    where = "TRUE"
    if len(ids) <= _MOST_NAMED:
        listed = ", ".join("'{}'".format(str(i).replace("'", "''")) for i in ids) or "NULL"
        where = f"trajectory_id IN ({listed})"
    found = frame.steps.sql(query.replace("{where}", where)).combine_chunks()
    places = pc.index_in(ids, value_set=found.column("trajectory_id"))
    return found.take(places.combine_chunks()).drop_columns("trajectory_id")


def action_hashes(frame: Frame) -> pa.ChunkedArray:
    """What each run did: for each row a list of 64-bit hashes of its actions, in order.

    Equal actions have equal hashes on every machine. A run without actions has null.
    """
    query = f"""
        SELECT trajectory_id, flatten(list(list_transform(actions,
            lambda a: md5_number_lower({masked("a")})) ORDER BY step_index)) AS actions
        FROM ({_ACTIONS} AND {{where}})
        WHERE actions IS NOT NULL
        GROUP BY trajectory_id"""
    return asked(frame, query).column("actions")


def action_texts(frame: Frame) -> pa.ChunkedArray:
    """What each run did in words: for each row its actions, masked, a line each; or null."""
    query = f"""
        SELECT trajectory_id, string_agg(array_to_string(list_transform(actions,
            lambda a: replace({masked("a")}, chr(31), ' ')), chr(10)), chr(10) ORDER BY step_index)
            AS actions
        FROM ({_ACTIONS} AND {{where}})
        WHERE actions IS NOT NULL
        GROUP BY trajectory_id"""
    return asked(frame, query).column("actions")


def goals(frame: Frame) -> pa.ChunkedArray:
    """The goal of each row, or null."""
    query = "SELECT trajectory_id, goal FROM trajectories WHERE {where}"
    return asked(frame, query).column("goal")
