"""Steps as short keys: equal turns, equal actions and equal observations have equal keys.

Two turns are equal when their role, text, reasoning, content, tool names, canonical arguments and
results are, and each result answers the same call; ids of calls do not count. Two actions are equal
when their canonical calls are, or their words where nothing was called, with volatile values masked
(:func:`trajstore.schema.mask_volatile`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from trajstore.pairs.relations import Relations, with_columns
from trajstore.pairs.schema import TURN_SCHEMA
from trajstore.schema import STEP_SCHEMA, Trajectory, concat, steps_to_arrow

_RUNS_A_CHUNK = 512


@runtime_checkable
class TurnSource(Protocol):
    """What pairs and credit ask about steps; a pipeline implements it over a store's snapshot."""

    def turns(
        self,
        ids: pa.Array | None = None,
        columns: Iterable[str] = TURN_SCHEMA.names,
        *,
        results: bool = True,
    ) -> pa.Table | pa.RecordBatchReader:
        """Rows of :data:`TURN_SCHEMA` for at least those runs (for all where None), in any order.

        Whoever asks takes the rows of the runs that matter; a reader is read once. Columns that
        are not asked for may be left out. Without ``results`` none is read: keys are as if none had
        come, and there is no digest where ``answered``. :data:`PART_COLUMNS` can be asked for too.
        """

    def answers(
        self, ids: pa.Array, n_steps: int, columns: Iterable[str]
    ) -> pa.Table | pa.RecordBatchReader:
        """As :meth:`turns`, of at least the ``answered`` ones of the first ``n_steps`` steps."""

    def rewards(self, ids: pa.Array | None = None) -> pa.Table | pa.RecordBatchReader:
        """``trajectory_id, step_index, reward`` of the agent's own steps of those runs.

        The rest is as for :meth:`turns`, but no text has to be read for it.
        """

    def digests(self, ids: pa.Array, n_steps: int) -> pa.Table | pa.RecordBatchReader:
        """``trajectory_id, step_index, digest`` of the first ``n_steps`` steps of those runs."""


Steps: TypeAlias = "pa.Table | Iterable[Trajectory] | TurnSource"
"""Rows of ``STEP_SCHEMA``, whole runs, or something that answers for them."""


def turn_source(steps: Steps) -> TurnSource:
    """A source over whatever the caller has; runs are kept in memory as Arrow rows."""
    if isinstance(steps, TurnSource):
        return steps
    if not isinstance(steps, pa.Table):
        chunks = (steps_to_arrow(c) for c in _chunks(steps))
        steps = concat(chunks, STEP_SCHEMA)
    return ArrowTurns(steps)


def _chunks(runs: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    rest = iter(runs)
    while chunk := list(itertools.islice(rest, _RUNS_A_CHUNK)):
        yield chunk


class ArrowTurns:
    """A :class:`TurnSource` over one Arrow table of steps."""

    def __init__(self, steps: pa.Table) -> None:
        """Keep a table of steps; columns of ``STEP_SCHEMA`` that it lacks count as null."""
        used = {f.name: f.type for f in STEP_SCHEMA if f.name in _USED}
        self._steps = with_columns(steps, used)

    def turns(
        self,
        ids: pa.Array | None = None,
        columns: Iterable[str] = TURN_SCHEMA.names,
        *,
        results: bool = True,
    ) -> pa.Table:
        """Turn keys of those runs."""
        query = turns_query("steps", _wanted(ids), columns=columns, results=results)
        return self._rows(query, ids)

    def answers(self, ids: pa.Array, n_steps: int, columns: Iterable[str]) -> pa.Table:
        """Turn keys of the first steps of those runs."""
        where = f"{_wanted(ids)} AND step_index < {n_steps}"
        return self._rows(turns_query("steps", where, columns=columns), ids)

    def rewards(self, ids: pa.Array | None = None) -> pa.Table:
        """Rewards of the agent's own steps."""
        return self._rows(step_rewards_query("steps", _wanted(ids)), ids)

    def digests(self, ids: pa.Array, n_steps: int) -> pa.Table:
        """Stable digests of the first steps of those runs."""
        where = f"{_wanted(ids)} AND step_index < {n_steps}"
        return self._rows(digests_query("steps", where), ids)

    def _rows(self, query: str, ids: pa.Array | None) -> pa.Table:
        with Relations(steps=self._steps) as relations:
            if ids is not None:
                relations.put("wanted", pa.table({"trajectory_id": ids}))
            return relations.rows(query)


def _wanted(ids: pa.Array | None) -> str:
    return "true" if ids is None else "trajectory_id IN (SELECT trajectory_id FROM wanted)"


_USED = frozenset(
    {
        "trajectory_id",
        "step_index",
        "actor",
        "text",
        "reasoning",
        "content",
        "tool_calls",
        "observations",
        "reward",
        "state",
        "state_key",
        "is_copied",
        "format_error",
    }
)

_OWN = "actor = 'agent' AND NOT coalesce(is_copied, false)"

_CALLED = """CASE WHEN len(tool_calls) > 0 THEN array_to_string(list_transform(tool_calls,
            lambda c: concat(c.name, chr(31), coalesce(c.arguments, c.arguments_raw))
            ), chr(30)) END"""

_CAME = """CASE WHEN len(observations) > 1 OR observations[1].content IS NOT NULL
            THEN array_to_string(list_transform(observations,
                lambda o: concat(o.text, chr(31) || o.content)), chr(30))
            ELSE observations[1].text END"""

_LINKS = """CASE WHEN len(observations) > 0 THEN array_to_string(list_transform(observations,
            lambda o, place: CASE WHEN o.call_id IS NULL THEN place ELSE coalesce(list_position(
                list_transform(tool_calls, lambda c: c.call_id), o.call_id), 0) END), ',') END"""

_NESTED = {
    "called": _CALLED,
    "came": _CAME,
    "links": _LINKS,
    "answered": "coalesce(len(observations) > 0, false)",
}

_FLAT = {
    "called": f"""CASE WHEN NOT is_flat THEN {_CALLED}
            WHEN n_calls = 1 THEN concat(tool_name, chr(31), coalesce(arguments, arguments_raw))
            END""",
    "came": f"""CASE WHEN NOT is_flat THEN {_CAME}
            WHEN observation_content IS NULL THEN observation
            ELSE concat(observation, chr(31), observation_content) END""",
    "links": f"""CASE WHEN NOT is_flat THEN {_LINKS} WHEN n_results = 0 THEN NULL
            WHEN n_calls = 1 OR result_call_id IS NULL THEN '1' ELSE '0' END""",
    "answered": "is_answered",
}
"""The same over the view ``flat_steps``, where a result that names a call names the only one."""

_SPOKEN = f"""
    SELECT trajectory_id, step_index, actor, reward, state, state_key,
        coalesce(format_error, false) AS format_error, {_OWN} AS own,
        coalesce(text, '') AS said, coalesce(reasoning, '') AS thought,
        coalesce(content, '') AS content,
        {{called}} AS called, {{came}} AS came, {{links}} AS links, {{answered}} AS answered
    FROM {{steps}} WHERE {{where}}"""

_NOTHING = {"came": "NULL::VARCHAR", "links": "NULL::VARCHAR"}


def _spoken(steps: str, where: str, *, flat: bool, results: bool = True) -> str:
    parts = (_FLAT if flat else _NESTED) | ({} if results else _NOTHING)
    return _SPOKEN.format(steps=steps, where=where, **parts)


_UUID = r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
_TIME = r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
_TEMPORARY = r"/(?:tmp|var/folders)/[\p{L}\p{N}_.+-]+"
_ADDRESS = r"\b0x[0-9a-fA-F]{6,16}\b"


def masked_hash(text: str, plain: str) -> str:
    """SQL for the hash of a text column under :func:`trajstore.schema.mask_volatile`.

    A look for a sign of a volatile value costs a tenth of the full patterns, so it comes first.

    Args:
        text: the column.
        plain: its hash, for the texts that hold no such sign.
    """
    signs = (
        f"contains({text}, '/tmp/') OR contains({text}, '/var/folders/') "
        f"OR contains({text}, '0x') OR contains({text}, '-') AND ("
        f"regexp_matches({text}, '-\\d\\d[T ]\\d\\d:\\d\\d') "
        f"OR regexp_matches({text}, '-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{4}}-'))"
    )
    found = text
    for pattern, kind in (
        (_UUID, "<uuid>"),
        (_TIME, "<time>"),
        (_TEMPORARY, "<tmp>"),
        (_ADDRESS, "<address>"),
    ):
        found = f"regexp_replace({found}, '{pattern}', '{kind}', 'g')"
    return f"CASE WHEN {signs} THEN hash({found}) ELSE {plain} END"


_DIGEST = """sha256(concat(actor, chr(28), said, chr(28), thought, chr(28), content, chr(28),
                called, chr(28), came, chr(28), links))"""

_OPENING = 8
"""Steps that may be the prompt of whole runs; their digests cost no second look at the texts."""


PART_COLUMNS = ("answered", "spoken", "heard", "came_exact", "came_masked")
"""What turn keys are made of, for who reads results later than the rest.

``answered`` is false where no result came back; ``turn`` is ``hash(spoken, came_exact)``, and
``seen`` is ``hash(heard, came_masked)``.
"""


def turns_query(
    steps: str,
    where: str = "true",
    *,
    columns: Iterable[str] = TURN_SCHEMA.names,
    flat: bool = False,
    results: bool = True,
) -> str:
    """One SELECT that gives :data:`TURN_SCHEMA` rows.

    Args:
        steps: a relation in ``STEP_SCHEMA``, such as the view ``steps`` of a store.
        where: condition on its rows.
        columns: which columns to give, of that schema and of :data:`PART_COLUMNS`; what only the
            others need is not read.
        flat: whether the relation is the view ``flat_steps`` of a store, which is quicker.
        results: whether what came back counts; see :meth:`TurnSource.turns`.
    """
    whole = "true" if results else "NOT answered"
    made = f"""
        SELECT trajectory_id, step_index, actor, own, format_error, answered,
            hash(actor, said, thought, content, called_key) AS spoken,
            hash(came_key, links) AS came_exact, hash(spoken, came_exact) AS turn,
            CASE WHEN actor <> 'agent' THEN NULL
                WHEN called IS NULL THEN hash('said', words_key)
                ELSE {masked_hash("called", "called_key")} END AS action,
            CASE WHEN actor <> 'agent' THEN hash(words_key, content) END AS heard,
            hash({masked_hash("came", "came_key")}, links) AS came_masked,
            hash(heard, came_masked) AS seen,
            {masked_hash("state", "hash(state)")} AS state,
            state_key, reward,
            (strlen(said) + strlen(thought) + strlen(content)
                + coalesce(strlen(called), 0))::BIGINT AS n_own_bytes,
            n_own_bytes + coalesce(strlen(came), 0) AS n_bytes,
            CASE WHEN actor IN ('system', 'user') AND step_index < {_OPENING} AND {whole}
                THEN {_DIGEST} END AS digest
        FROM (SELECT *, hash(called) AS called_key, hash(came) AS came_key,
                CASE WHEN words IS NOT NULL THEN {masked_hash("words", "hash(words)")} END
                    AS words_key
            FROM (SELECT *, CASE WHEN actor = 'agent' AND called IS NULL
                        THEN regexp_replace(lower(trim(said)), '\\s+', ' ', 'g')
                        WHEN actor <> 'agent' THEN said END AS words
                FROM ({_spoken(steps, where, flat=flat, results=results)})))"""
    return f"SELECT {', '.join(columns)} FROM ({made})"


def step_rewards_query(steps: str, where: str = "true") -> str:
    """One SELECT of ``trajectory_id, step_index, reward`` of the agent's own steps.

    Args:
        steps: a relation in ``STEP_SCHEMA``.
        where: condition on its rows.
    """
    return f"""
        SELECT trajectory_id, step_index, reward FROM {steps} WHERE {_OWN} AND {where}"""


def digests_query(steps: str, where: str, *, flat: bool = False) -> str:
    """One SELECT of ``trajectory_id, step_index, digest``; the digest is SHA-256 of the turn.

    Unlike the keys of :func:`turns_query` it is the same in every version and on every machine.
    ``flat`` is as there.
    """
    return f"""
        SELECT trajectory_id, step_index, {_DIGEST} AS digest
        FROM ({_spoken(steps, where, flat=flat)})"""


def turn_keys(steps: Steps) -> pa.Table:
    """Rows of :data:`TURN_SCHEMA` in order of run and step: one row a step, without its text."""
    with Relations(turns=turn_source(steps).turns()) as relations:
        names = ", ".join(TURN_SCHEMA.names)
        found = relations.rows(f"SELECT {names} FROM turns ORDER BY trajectory_id, step_index")
    return found.cast(TURN_SCHEMA)
