"""What two runs share before they part, as running sums of turn keys.

The sum of the keys of the steps before a step, each mixed with its position, stands for that whole
prefix: equal prefixes have equal sums, and different ones have different sums but for a chance of
about 2^-64. One window function computes it for every step, so no trie has to be walked. XOR would
not do: DuckDB mixes the parts of a hash by it, so the same turn twice would cancel out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, get_args

import pyarrow.compute as pc

from trajstore.errors import PairError
from trajstore.pairs.relations import Relations
from trajstore.pairs.turns import TurnSource

Prefix = Literal["exact", "observed", "actions"]
"""What makes two prefixes equal.

``exact``: equal turns. ``observed``: equal actions and observations, volatile values masked; what
the agent said or thought beside an action does not count. ``actions``: the same start, then equal
actions, whatever came back.
"""

_CODES: Mapping[str, str] = {
    "exact": "hash(step_index, turn)",
    "observed": "hash(step_index, actor, action, seen)",
    "actions": """CASE WHEN own THEN hash(own_no, action)
        WHEN own_no = 0 THEN hash(step_index, actor, action, seen) ELSE 0 END""",
}
"""What a step adds to the sum of its prefix."""

_KEYED = """
    SELECT run, turns.* EXCLUDE (trajectory_id), {code} AS code
    FROM turns JOIN numbered USING (trajectory_id)"""

_COUNTED = """
    SELECT * EXCLUDE (own_no), {code} AS code
    FROM (SELECT run, turns.*, count(*) FILTER (own) OVER (
            PARTITION BY run ORDER BY step_index ROWS UNBOUNDED PRECEDING)::INT AS own_no
        FROM turns JOIN numbered USING (trajectory_id))"""

_CODED: Mapping[str, str] = {
    name: (_COUNTED if name == "actions" else _KEYED).format(code=code)
    for name, code in _CODES.items()
}

_NUMBERED = """
    SELECT * FROM judged JOIN (
        SELECT trajectory_id, row_number() OVER (ORDER BY trajectory_id)::INT AS run FROM judged)
        USING (trajectory_id)"""

_PATH = """
    SELECT run, step_index, actor, own, code, {columns}
        (count(*) FILTER (own) OVER so_far)::INT AS own_no,
        sum(code) OVER so_far - code AS before
    FROM ({coded})
    WINDOW so_far AS (PARTITION BY run ORDER BY step_index ROWS UNBOUNDED PRECEDING)"""

_STARTS = """
    SELECT run,
        min(step_index) FILTER (own) AS first_own,
        max(step_index) FILTER (own) + 1 AS ends,
        count(*) FILTER (own) AS turns,
        coalesce(sum({exact}) FILTER (own_no = 0), 0) AS start_exact,
        coalesce(sum(code) FILTER (own_no = 0), 0) AS start,
        coalesce(sum(CASE WHEN actor = 'user' THEN hash(step_index, actor) ELSE code END)
            FILTER (own_no = 0), 0) AS start_but_user,
        bool_or(actor = 'user' AND own_no > 0) AS is_dialogue,
        bool_or(actor = 'user') AS is_asked
    FROM path GROUP BY run HAVING count(*) FILTER (own) > 0"""

_STARTED = """
    SELECT * EXCLUDE (bucket),
        hash(bucket, tools_digest, said_goal,
            CASE WHEN first_own = 0 AND relation = 'branch' THEN hash(parent_id, parent_step) END,
            CASE WHEN task_id IN (SELECT task_id FROM numbered JOIN starts USING (run)
                WHERE is_dialogue) THEN start_but_user ELSE start END) AS prompt_key
    FROM (SELECT *, CASE WHEN is_asked THEN NULL ELSE goal_digest END AS said_goal
        FROM numbered JOIN starts USING (run))"""


_OF_PREFIX: Mapping[Prefix, tuple[str, ...]] = {
    "exact": ("turn",),
    "observed": ("action", "seen"),
    "actions": ("action", "seen"),
}

_ALWAYS = ("trajectory_id", "step_index", "actor", "own")

PATH_COLUMNS = ("format_error", "turn", "action", "seen", "state", "n_bytes", "digest")
"""Columns of turns that ``path`` has beside run, position, actor and ``own``."""


def turn_columns(prefix: Prefix, columns: Iterable[str] = PATH_COLUMNS) -> tuple[str, ...]:
    """What ``turns`` must have, so that :func:`follow` can make a ``path`` with those columns.

    Raises:
        PairError: there is no such prefix.
    """
    if prefix not in _CODED:
        known = ", ".join(get_args(Prefix))
        raise PairError(f"There is no prefix {prefix!r}; known are: {known}")
    return tuple(dict.fromkeys((*_ALWAYS, *_OF_PREFIX[prefix], *columns)))


_TOGETHER = """
    WITH places AS (
        SELECT run, step_index, hash(bucket, before) AS place
        FROM path JOIN numbered USING (run) WHERE own AND {places})
    SELECT run, max(step_index) AS until
    FROM places SEMI JOIN (SELECT place FROM places GROUP BY place HAVING count(*) > 1)
        USING (place)
    GROUP BY run"""

_UNREAD = """
    SELECT trajectory_id, max(step_index)::INT + 1 AS n_steps
    FROM path JOIN numbered USING (run) LEFT JOIN together USING (run)
    WHERE answered AND (own_no = 0 OR step_index < until) GROUP BY trajectory_id"""

_WHOLE = """
    SELECT * REPLACE (sum(code) OVER so_far - code AS before)
    FROM (SELECT * REPLACE ({code} AS code)
        FROM (SELECT p.* REPLACE ({replaced}) FROM path p LEFT JOIN (
                SELECT run, answers.* FROM answers JOIN numbered USING (trajectory_id)) a
            ON a.run = p.run AND a.step_index = p.step_index))
    WINDOW so_far AS (PARTITION BY run ORDER BY step_index ROWS UNBOUNDED PRECEDING)"""


def follow_together(
    relations: Relations,
    source: TurnSource,
    prefix: Prefix,
    *,
    columns: Collection[str],
    places: str = "true",
) -> None:
    """:func:`follow` for those who only ask where runs were at one place, and which.

    Results are the bulk of all text, and most runs soon part: so the runs are first followed by
    what was said and called, and results are only read up to the last place that a run shares with
    another by that, and before the first agent step. There everything is as :func:`follow` makes
    it; further on ``before`` differs from that of every other run all the same, while ``turn`` and
    ``seen`` know no results. Steps with results have no ``digest``.

    Args:
        relations: where ``judged`` is, and the others become.
        source: the steps.
        prefix: what makes two prefixes equal.
        columns: what ``path`` shall have; not ``n_bytes``, which counts results.
        places: condition on ``path``: agent steps whose place is asked about.

    Raises:
        PairError: there is no such prefix.
    """
    wanted = turn_columns(prefix, columns)
    parts = {name: parts for name, parts in _PARTS.items() if name in wanted}
    others = (n for n in wanted if n not in _ALWAYS)
    kept = (*others, "answered", *(said for said, _ in parts.values()))
    ids = relations.rows("SELECT trajectory_id FROM judged").column(0)
    relations.put("turns", source.turns(ids, (*_ALWAYS, *kept), results=False))
    _make_path(relations, prefix, kept)
    relations.make("together", _TOGETHER.format(places=places))
    unread = relations.rows(_UNREAD)
    if unread.num_rows:
        most = pc.max(unread.column("n_steps")).as_py()
        came = ("trajectory_id", "step_index", *(came for _, came in parts.values()))
        relations.put("answers", source.answers(unread.column("trajectory_id"), most, came))
        replaced = ", ".join(
            f"CASE WHEN a.run IS NULL THEN p.{name} ELSE hash(p.{said}, a.{came}) END AS {name}"
            for name, (said, came) in parts.items()
        )
        relations.make("path", _WHOLE.format(code=_CODES[prefix], replaced=replaced))
    _make_started(relations, kept)


_PARTS = {"turn": ("spoken", "came_exact"), "seen": ("heard", "came_masked")}
"""Keys that know results -> the part without them, and that of the results alone."""


def follow(
    relations: Relations, prefix: Prefix, *, columns: Collection[str] = PATH_COLUMNS
) -> None:
    """Make ``path`` (steps with their prefixes) and ``started`` (runs with their start).

    ``turns`` and ``judged`` must be there. ``run`` numbers the runs in order of their ids.

    Two runs have the same ``prompt_key`` when they were given the same prompt: the same tools and
    everything before the first agent step. What the user says there may differ in a task where
    users go on to speak, since there the user is simulated and part of the environment. Where no
    user speaks, the goal is part of the prompt. A branch of a search tree that does not repeat its
    context belongs to the place where it leaves its parent.

    Args:
        relations: where both relations are and become.
        prefix: what makes two prefixes equal.
        columns: what ``path`` shall have of ``turns``, which must have :func:`turn_columns`.
            Without ``turn``, ``start_exact`` of ``started`` says nothing.

    Raises:
        PairError: there is no such prefix.
    """
    turn_columns(prefix, columns)
    _make_path(relations, prefix, columns)
    _make_started(relations, columns)


def _make_path(relations: Relations, prefix: Prefix, columns: Collection[str]) -> None:
    relations.make("numbered", _NUMBERED)
    kept = "".join(f" {name}," for name in columns)
    relations.make("path", _PATH.format(coded=_CODED[prefix], columns=kept))


def _make_started(relations: Relations, columns: Collection[str]) -> None:
    exact = "hash(step_index, turn)" if "turn" in columns else "NULL::UBIGINT"
    relations.make("starts", _STARTS.format(exact=exact))
    relations.make("started", _STARTED)
