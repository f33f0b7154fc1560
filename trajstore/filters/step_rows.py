"""Read step-level rows of many runs in blocks, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.filters.selection import Frame

_STEPS_A_BLOCK = 500_000
_IDS_IN_SQL = 500

OWN_CALLS = "actor = 'agent' AND NOT is_copied"
"""SQL condition over ``tool_calls`` and ``steps``: what the agent did itself in this run."""


def by_blocks(
    frame: Frame, query: Callable[[str], str], *, block_bytes: int = 256 * 2**20
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Run one query a block of runs, in ascending order of ``trajectory_id``.

    A block is as many runs as hold ``block_bytes`` of text or 500,000 steps, and at least one.

    Args:
        frame: the runs.
        query: makes the SELECT, which must give ``trajectory_id``, from an SQL condition that holds
            for the runs of the block and maybe for others.
        block_bytes: text of the runs of a block; smaller where rows become Python values.

    Yields:
        The summary rows of the block, and the query's rows for exactly those runs.
    """
    rows = frame.rows.sort_by("trajectory_id")
    for block in _blocks(rows, block_bytes):
        ids = block.column("trajectory_id")
        found = frame.steps.sql(query(_condition(ids)))
        wanted = pc.is_in(found.column("trajectory_id"), value_set=ids)
        yield block, found.filter(wanted)


def _blocks(rows: pa.Table, block_bytes: int) -> Iterator[pa.Table]:
    if not rows.num_rows:
        return
    used = pc.add(
        pc.divide(pc.cumulative_sum(pc.cast(rows.column("size_bytes"), pa.float64())), block_bytes),
        pc.divide(pc.cumulative_sum(pc.cast(rows.column("n_steps"), pa.float64())), _STEPS_A_BLOCK),
    )
    numbers = pc.cast(pc.floor(used), pa.int64()).combine_chunks()
    ends = pc.run_end_encode(numbers).run_ends
    start = 0
    for end in ends:
        yield rows.slice(start, end.as_py() - start)
        start = end.as_py()


def _condition(ids: pa.ChunkedArray) -> str:
    if len(ids) <= _IDS_IN_SQL:
        return f"trajectory_id IN ({', '.join(_quoted(i.as_py()) for i in ids)})"
    low, high = ids[0].as_py(), ids[-1].as_py()
    return f"trajectory_id BETWEEN {_quoted(low)} AND {_quoted(high)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
