"""Which text stands for an item of each level, and what is known of it, as SQL over the views."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from trajstore.errors import RetrievalError
from trajstore.retrieval.hits import LEVELS, Level
from trajstore.retrieval.served_skills import SERVED_SKILLS, SKILL_RUNS

TEXT_CHARACTERS = 8000
"""A text is cut here: no model reads on, and a goal of megabytes would only cost."""

_GOAL, _ACTION, _SEEN = 300, 200, 700


def check_level(level: str) -> None:
    """Check that a level is one.

    Raises:
        RetrievalError: it is not.
    """
    if level not in LEVELS:
        raise RetrievalError(f"There is no level '{level}'. Levels: {', '.join(LEVELS)}")


_RUNS = f"""
    SELECT t.trajectory_id AS item_id, t.trajectory_id,
        left(coalesce(nullif(trim(t.goal), ''), f.first), {TEXT_CHARACTERS}) AS text
    FROM trajectories t LEFT JOIN (
        SELECT trajectory_id, arg_min(text, step_index) AS first FROM steps
        WHERE actor IN ('user', 'environment') AND trim(text) <> '' AND {{where}}
        GROUP BY trajectory_id) f USING (trajectory_id)
    WHERE {{where}}"""

_TURNS = f"""
    WITH turns AS (
        SELECT trajectory_id, step_index, actor, state_key, is_copied,
            CASE WHEN len(tool_calls) > 0
                THEN array_to_string(list_transform(tool_calls,
                    lambda c: coalesce(c.name, '') || ' ' || coalesce(c.arguments_raw, '')), '; ')
                ELSE text END AS action,
            list_distinct(list_filter(
                list_transform(coalesce(tool_calls, []), lambda c: c.name),
                lambda n: n IS NOT NULL)) AS tools,
            CASE WHEN actor = 'agent' THEN list_last(list_filter(
                list_transform(observations, lambda o: o.text), lambda x: trim(x) <> ''))
                ELSE nullif(trim(text), '') END AS seen
        FROM steps WHERE actor <> 'system' AND {{where}}),
    before AS (
        SELECT *, last_value(seen IGNORE NULLS) OVER earlier AS saw,
            last_value(CASE WHEN actor = 'agent' THEN action END IGNORE NULLS) OVER earlier AS did
        FROM turns WINDOW earlier AS (PARTITION BY trajectory_id ORDER BY step_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
    runs AS ({_RUNS})
    SELECT trajectory_id || '/' || step_index AS item_id, trajectory_id, step_index, state_key,
        tools, concat_ws(chr(10), left(r.text, {_GOAL}), left(did, {_ACTION}),
            CASE WHEN saw IS NULL OR saw = r.text OR trim(saw) = trim(r.text) THEN NULL
                WHEN length(saw) <= {_SEEN} THEN saw
                ELSE left(saw, {_SEEN // 2}) || ' ... ' || right(saw, {_SEEN // 2}) END) AS text
    FROM before LEFT JOIN runs r USING (trajectory_id)
    WHERE actor = 'agent' AND NOT is_copied"""


class StepQuery(str):
    """The text of a search for steps, with the whole goal that it was made of."""

    __slots__ = ("goal",)
    goal: str
    """The goal, not cut."""

    def __new__(cls, text: str, goal: str = "") -> Self:
        """The text, which remembers the goal."""
        made = super().__new__(cls, text)
        made.goal = goal
        return made


def step_query(goal: str, observation: str = "", action: str = "") -> StepQuery:
    r"""The text to search the level ``step`` with: what an agent knows before its next step.

    The index holds the same: the goal, what was done last, and the end of what came back, each cut
    so that the model reads something of all three. The text remembers the whole goal, by which a
    search with ``task_id`` knows the tasks that are nearly the same.

    >>> step_query("fix the bug", "1 failed", "pytest")
    'fix the bug\npytest\n1 failed'

    Args:
        goal: what was asked.
        observation: the last thing that came back.
        action: the last thing that was done.
    """
    seen = observation.strip()
    if len(seen) > _SEEN:
        seen = f"{seen[: _SEEN // 2]} ... {seen[-(_SEEN // 2) :]}"
    parts = (goal.strip()[:_GOAL], action[:_ACTION], "" if seen == goal.strip() else seen)
    return StepQuery("\n".join(p for p in parts if p), goal)


def runs_sql(level: Level, where: str) -> str:
    """SELECT of ``item_id``, ``trajectory_id``, ``text`` (and more for steps) of some runs.

    Args:
        level: ``trajectory`` or ``step``.
        where: a condition on ``trajectory_id``.
    """
    return (_RUNS if level == "trajectory" else _TURNS).format(where=where)


@dataclass(frozen=True, slots=True)
class Memory:
    """Where the items of a level of memory are, and which of them are served."""

    view: str
    """The view."""
    key: str
    """Its column with the id."""
    text: str
    """SQL of the text that stands for an item."""
    uses: str = "uses"
    """SQL of how often it was used."""
    successes: str = "successes"
    """SQL of how often that helped."""
    runs: str = "trajectory_ids"
    """SQL of the list of runs it was drawn from."""
    sources: str | None = None
    """SELECT of key and runs, where these are more than the row says."""
    versions: str | None = None
    """Column that the versions of one item share; only the newest that is served is searched."""
    rows: str | None = None
    """SELECT of the rows that may be searched, where there is more to it than that."""


MEMORIES: dict[Level, Memory] = {
    "skill": Memory(
        "skills",
        "skill_id",
        "concat_ws(chr(10), name, description, signature, docstring)",
        sources=SKILL_RUNS,
        rows=SERVED_SKILLS,
    ),
    "reflection": Memory("reflections", "reflection_id", "text", runs="[trajectory_id]"),
    "workflow": Memory("workflows", "workflow_id", "concat_ws(chr(10), name, description)"),
    "insight": Memory(
        "insights",
        "version_id",
        "concat_ws(chr(10), title, description, text, observation)",
        uses="helpful + harmful + uses",
        successes="helpful + successes",
        versions="insight_id",
    ),
}
"""Level -> where its items are."""

_COMMON = {
    "trajectory_id": "VARCHAR",
    "task_id": "VARCHAR",
    "environment": "VARCHAR",
    "environment_version": "VARCHAR",
    "verified_at": "TIMESTAMPTZ",
}


def memory_sql(level: Level, columns: Collection[str]) -> str:
    """SELECT of every item of a level of memory that is served, in common columns, ordered by id.

    ``revision`` is a hash of the text: an item whose text changed is another one to the index.

    Args:
        level: a key of :data:`MEMORIES`.
        columns: columns that the view has.
    """
    memory = MEMORIES[level]
    common = ", ".join(
        n if n in columns else f"CAST(NULL AS {t}) AS {n}" for n, t in _COMMON.items()
    )
    rows = memory.view if memory.rows is None else f"({memory.rows})"
    served = "WHERE state IS NULL" if "state" in columns else ""
    newest = (
        "QUALIFY row_number() OVER "
        f"(PARTITION BY {memory.versions} ORDER BY version DESC, {memory.key}) = 1"
        if memory.versions
        else ""
    )
    return f"""
        SELECT *, CAST(md5_number_lower(item_id || chr(0) || text) >> 1 AS BIGINT) AS revision
        FROM (SELECT {memory.key} AS item_id, {common}, source, created_at,
            CAST({memory.uses} AS BIGINT) AS uses, CAST({memory.successes} AS BIGINT) AS successes,
            left({memory.text}, {TEXT_CHARACTERS}) AS text FROM {rows} {served} {newest})
        WHERE trim(text) <> ''
        ORDER BY item_id"""


def drawn_sql(level: Level) -> str:
    """SELECT of ``item_id`` and ``task_id``: at which tasks were the runs it is drawn from.

    Args:
        level: a key of :data:`MEMORIES`.
    """
    memory = MEMORIES[level]
    sources = memory.view if memory.sources is None else f"({memory.sources})"
    return f"""
        SELECT DISTINCT item_id, task_id FROM (
            SELECT {memory.key} AS item_id, unnest({memory.runs}) AS trajectory_id FROM {sources})
            JOIN trajectories USING (trajectory_id)
        WHERE task_id IS NOT NULL"""


TEXT_KEY = "CAST(md5_number_lower(text) >> 1 AS BIGINT)"
"""SQL of a number that stands for a text; equal texts have equal vectors."""
