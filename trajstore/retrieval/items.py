"""The items that a store holds now, and their texts, as far as an index needs them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import RetrievalError
from trajstore.retrieval.hits import Level
from trajstore.retrieval.levels import MEMORIES, TEXT_KEY, memory_sql, runs_sql
from trajstore.schema import TABLES
from trajstore.store import Reader

_RUNS_A_PART = 2048
_STEPS_A_PART = 4096

PART_SCHEMA = pa.schema(
    [
        pa.field("item_id", pa.string()),
        pa.field("trajectory_id", pa.string()),
        pa.field("step_index", pa.int32()),
        pa.field("revision", pa.int64()),
        pa.field("task_id", pa.string()),
        pa.field("environment", pa.string()),
        pa.field("state_key", pa.string()),
        pa.field("tools", pa.list_(pa.string())),
        pa.field("text_key", pa.int64()),
        pa.field("text", pa.string()),
    ]
)
"""What is known of an item before it is embedded."""


def live_revisions(reader: Reader, level: Level) -> pa.Table:
    """``revision`` of all that a snapshot holds at a level, with ``trajectory_id``.

    A revision is a version of a run with all its steps, or of one item of memory.
    """
    if level in MEMORIES:
        rows = reader.query(memory_rows(level)).read_all()
        return rows.select(["revision", "item_id"]).rename_columns(["revision", "trajectory_id"])
    return reader.revisions()


def memory_rows(level: Level) -> str:
    """The query for all items of a level of memory.

    Raises:
        RetrievalError: this store has no such table.
    """
    view = MEMORIES[level].view
    if view not in TABLES:
        raise RetrievalError(f"This version of trajstore keeps no {view}.")
    return memory_sql(level, {column.name for column in TABLES[view]})


def parts(reader: Reader, level: Level, wanted: pa.Table) -> Iterator[pa.Table]:
    """The items of some revisions in :data:`PART_SCHEMA`, a few thousand at a time.

    Args:
        reader: the snapshot.
        level: whose items.
        wanted: rows of :func:`live_revisions`, ordered by id. A part holds whole runs.
    """
    if level in MEMORIES:
        yield _memories(reader, level, wanted)
        return
    for some in _by_size(reader, level, wanted):
        low, high = some.column("trajectory_id")[0], some.column("trajectory_id")[-1]
        listed = _quoted(some.column("trajectory_id"))
        where = f"trajectory_id BETWEEN '{low}' AND '{high}' AND trajectory_id IN ({listed})"
        yield _with_runs(reader, level, where, some)


def _by_size(reader: Reader, level: Level, wanted: pa.Table) -> Iterator[pa.Table]:
    """Cut the runs where a part has enough items."""
    if level == "trajectory":
        for start in range(0, wanted.num_rows, _RUNS_A_PART):
            yield wanted.slice(start, _RUNS_A_PART)
        return
    query = "SELECT trajectory_id, n_agent_steps FROM trajectories ORDER BY trajectory_id"
    sizes = reader.query(query).read_all()
    place = pc.index_in(
        wanted.column("trajectory_id"), value_set=sizes.column("trajectory_id").combine_chunks()
    )
    counts = pc.fill_null(sizes.column("n_agent_steps").take(place), 1)
    until = pc.cumulative_sum(pc.cast(counts, pa.int64()))
    start = 0
    while start < wanted.num_rows:
        before = until[start - 1].as_py() if start else 0
        inside = pc.sum(pc.less_equal(until, before + _STEPS_A_PART)).as_py() or 0
        end = min(max(start + 1, int(inside)), start + _RUNS_A_PART)
        yield wanted.slice(start, end - start)
        start = end


_NO_STEP = (
    "CAST(NULL AS VARCHAR) AS state_key, CAST(NULL AS VARCHAR[]) AS tools, "
    "CAST(NULL AS INTEGER) AS step_index"
)


def _with_runs(reader: Reader, level: Level, where: str, some: pa.Table) -> pa.Table:
    have = "state_key, tools, step_index" if level == "step" else _NO_STEP
    rows = reader.query(
        f"""
        SELECT item_id, trajectory_id, {have}, text, {TEXT_KEY} AS text_key, task_id, environment
        FROM ({runs_sql(level, where)}) JOIN (
            SELECT trajectory_id, task_id, environment FROM trajectories WHERE {where})
            USING (trajectory_id)
        WHERE trim(text) <> '' ORDER BY item_id"""
    ).read_all()
    place = pc.index_in(
        rows.column("trajectory_id"), value_set=some.column("trajectory_id").combine_chunks()
    )
    whole = rows.append_column("revision", some.column("revision").take(place))
    return whole.select(PART_SCHEMA.names).cast(PART_SCHEMA)


def _memories(reader: Reader, level: Level, wanted: pa.Table) -> pa.Table:
    rows = reader.query(
        f"SELECT *, {_NO_STEP}, {TEXT_KEY} AS text_key FROM ({memory_rows(level)}) ORDER BY item_id"
    ).read_all()
    new = pc.is_in(rows.column("revision"), value_set=wanted.column("revision").combine_chunks())
    return rows.filter(new).select(PART_SCHEMA.names).cast(PART_SCHEMA)


def _quoted(ids: pa.ChunkedArray) -> str:
    safe = pc.replace_substring(ids.combine_chunks(), "'", "''")
    lists = pa.ListArray.from_arrays(pa.array([0, len(safe)], pa.int32()), safe)
    return f"'{pc.binary_join(lists, chr(39) + ',' + chr(39))[0]}'"
