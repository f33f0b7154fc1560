"""What pairs, groups and credit read of a snapshot of a store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import PairError
from trajstore.filters import Selection
from trajstore.pairs import (
    NAMED_SUBGOAL,
    RUN_COLUMNS,
    SUBGOAL,
    TURN_SCHEMA,
    RunRules,
    digests_query,
    step_rewards_query,
    turns_query,
)
from trajstore.store import Condition, Reader, Store

_IDS_A_QUERY = 2_000
_MOST_IDS = 10_000
_MOST_SHARE = 0.1
_MOST_SHARE_IN_ONE = 0.5
_FEW = 200
_DIGESTS = {"tools_digest": "md5(tools)", "goal_digest": "md5(goal)"}


class StoreTurns:
    """The steps of one snapshot, as pairs and credit ask about them."""

    def __init__(self, reader: Reader, n_runs: int, condition: str | None = None) -> None:
        """Ask ``reader``, which has ``n_runs`` runs.

        Steps of runs outside a ``condition`` over ``trajectories`` are never given.
        """
        self._reader = reader
        self._n_runs = n_runs
        self._where = (
            f"trajectory_id IN (SELECT trajectory_id FROM trajectories WHERE {condition})"
            if condition
            else "true"
        )

    def turns(
        self,
        ids: pa.Array | None = None,
        columns: Iterable[str] = TURN_SCHEMA.names,
        *,
        results: bool = True,
    ) -> pa.RecordBatchReader:
        """Turn keys, streamed; of a few runs only those, of many all that fit the condition."""

        def query(where: str) -> str:
            return turns_query("flat_steps", where, columns=columns, flat=True, results=results)

        return self._stream(query, ids)

    def answers(self, ids: pa.Array, n_steps: int, columns: Iterable[str]) -> pa.RecordBatchReader:
        """Turn keys of the first steps that may have results, streamed."""
        answered = f"is_answered AND step_index < {int(n_steps)}"

        def query(where: str) -> str:
            return turns_query("flat_steps", f"{where} AND {answered}", columns=columns, flat=True)

        return self._stream(query, ids)

    def rewards(self, ids: pa.Array | None = None) -> pa.RecordBatchReader:
        """Rewards of the agent's own steps, streamed; of no fewer runs than were asked for."""
        return self._stream(lambda where: step_rewards_query("steps", where), ids)

    def digests(self, ids: pa.Array, n_steps: int) -> pa.RecordBatchReader:
        """Digests of the first steps, streamed."""
        first = f"step_index < {int(n_steps)}"
        return self._stream(
            lambda where: digests_query("flat_steps", f"{where} AND {first}", flat=True), ids
        )

    def _stream(self, query: Callable[[str], str], ids: pa.Array | None) -> pa.RecordBatchReader:
        """The rows of the runs; of all that fit where one pass costs less than looking them up."""
        in_one = min(_IDS_A_QUERY, self._n_runs * _MOST_SHARE_IN_ONE)
        most = max(in_one, min(_MOST_IDS, max(_FEW, self._n_runs * _MOST_SHARE)))
        if ids is None or len(ids) > most:
            return self._reader.query(query(self._where))
        ordered = ids.take(pc.sort_indices(ids))  # neighbours lie in the same files
        queries = [query(_is_one_of(part)) for part in _parts(ordered)] or [query("false")]
        first = self._reader.query(queries[0])
        rest = (batch for q in queries[1:] for batch in self._reader.query(q))
        return pa.RecordBatchReader.from_batches(first.schema, itertools.chain(first, rest))


def _parts(ids: pa.Array | pa.ChunkedArray) -> Iterator[Any]:
    for start in range(0, len(ids), _IDS_A_QUERY):
        yield ids.slice(start, _IDS_A_QUERY)


def _is_one_of(ids: Any) -> str:
    quoted = ", ".join("'" + str(i).replace("'", "''") + "'" for i in ids)
    return f"trajectory_id IN ({quoted})"


@dataclass(frozen=True, slots=True)
class PairingInput:
    """What one build reads of a snapshot."""

    rows: pa.Table
    """One row a run, with what pairs and groups ask of it."""
    turns: StoreTurns
    """Its steps."""
    reader: Reader
    """The snapshot."""

    def labels(self, rules: RunRules) -> pa.Table | None:
        """Labels of whole runs that the criterion reads; of another name if there are none."""
        if not rules.label_names:
            return None
        names = ", ".join("'" + n.replace("'", "''") + "'" for n in rules.label_names)
        found = self._labels(f"step_index IS NULL AND name IN ({names})")
        # Without any, one label a name lets the error list the real names.
        return found if found.num_rows else self._labels("step_index IS NULL", once=True)

    def step_labels(self, name: str) -> pa.Table:
        """Labels of steps by that name; of another name if there are none."""
        quoted = name.replace("'", "''")
        found = self._labels(f"step_index IS NOT NULL AND name = '{quoted}'")
        return found if found.num_rows else self._labels("step_index IS NOT NULL", once=True)

    def subgoal_labels(self) -> pa.Table:
        """Labels that say whether a sub-goal was reached."""
        return self._labels(f"name = '{SUBGOAL}' OR starts_with(name, '{NAMED_SUBGOAL}')")

    def _labels(self, where: str, *, once: bool = False) -> pa.Table:
        query = f"SELECT * FROM labels WHERE {where}"
        if once:
            query += " QUALIFY row_number() OVER (PARTITION BY name ORDER BY label_id) = 1"
        return self.reader.query(query).read_all()


def pairing_input(
    source: Store | Reader,
    selection: Selection | None,
    where: str | Condition | None,
    at: int | str | None,
    columns: Iterable[str],
) -> PairingInput:
    """What a build reads.

    Args:
        source: a store, or a reader of one snapshot.
        selection: which runs; its snapshot is read.
        where: SQL condition over ``trajectories`` instead of a selection.
        at: snapshot number or pin; the newest where None.
        columns: columns of the view that the options name.

    Raises:
        PairError: a selection and a condition at once, or a selection of another store.
    """
    if selection is not None and where is not None:
        raise PairError("Give a selection or a condition, not both; a condition is a stage too.")
    reader = _reader(source, selection, at)
    if selection is not None:
        rows = _selected_rows(reader, selection)
        return PairingInput(rows, StoreTurns(reader, _total(reader)), reader)
    condition = where if isinstance(where, str) or where is None else where.to_sql()
    extra = [n for n in dict.fromkeys(columns) if n not in RUN_COLUMNS]
    named = [f"{_DIGESTS[n]} AS {n}" if n in _DIGESTS else f'"{n}"' for n in RUN_COLUMNS]
    listed = ", ".join([*named, *(f'"{n}"' for n in extra)])
    query = f"SELECT {listed} FROM trajectories" + (f" WHERE ({condition})" if condition else "")
    rows = reader.query(query).read_all()
    total = rows.num_rows if condition is None else _total(reader)
    return PairingInput(rows, StoreTurns(reader, total, condition), reader)


def _total(reader: Reader) -> int:
    return int(reader.query("SELECT count(*) FROM trajectories").read_all().column(0)[0].as_py())


def _reader(source: Store | Reader, selection: Selection | None, at: int | str | None) -> Reader:
    if isinstance(source, Reader):
        return source
    chosen = at if at is not None or selection is None else selection.snapshot
    return source.reader() if chosen is None else source.at(chosen)


def _selected_rows(reader: Reader, selection: Selection) -> pa.Table:
    """The rows of a selection, with what pairs need and a selection does not carry."""
    rows = selection.rows
    ids = rows.column("trajectory_id")
    needed = [n for n in RUN_COLUMNS if n not in rows.column_names]
    named = ", ".join(f"{_DIGESTS[n]} AS {n}" if n in _DIGESTS else n for n in needed)
    query = f"SELECT trajectory_id, {named} FROM trajectories WHERE "
    few = len(ids) <= _MOST_IDS
    conditions = [_is_one_of(part) for part in _parts(ids)] or ["false"]
    parts = [reader.query(query + c).read_all() for c in (conditions if few else ["true"])]
    more = pa.concat_tables(parts)
    place = pc.index_in(ids, value_set=more.column("trajectory_id"))
    if place.null_count:
        lost = ids.filter(pc.is_null(place))
        raise PairError(
            f"{len(lost)} of the selected trajectories are not in snapshot "
            f"{reader.snapshot.version}, such as {lost[0]}; select again, or give the store that "
            "the selection was made from."
        )
    for name in needed:
        rows = rows.append_column(more.schema.field(name), more.column(name).take(place))
    return rows
