"""Keep one run of each cluster of duplicates: who is kept, what it stands for, what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.goals import normalised
from trajstore.filters.relations import relation
from trajstore.filters.selection import Frame, StageResult
from trajstore.filters.sequences import goals

Within = Literal["task", "goal", "all"]
"""Which runs are compared: those at one task and environment version; those with one goal (its
text normalised; the task where there is none) and environment version; or all."""

GROUP_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("trajectory_id", pa.string(), nullable=False),
        pa.field("kept", pa.bool_(), nullable=False),
        pa.field("similarity", pa.float64(), nullable=False),
    ]
)
"""One row a run of a cluster of two or more: the cluster is named by the run that is kept, which
comes first; ``similarity`` is to that run, from 0 to 1."""

_LEAST_RUNS = 20
"""A source with fewer runs is too small for a share of it to mean anything."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """For each row of a frame the row that stands for it."""

    representative: pa.Array
    """Place of the row that is kept for this one, its own where it is kept itself (int64)."""
    similarity: pa.Array
    """How like the two are, 1 where it is kept (double)."""


def best_first(rows: pa.Table) -> pa.Array:
    """Places of the rows, the one to keep first.

    Success before unknown before failure, then the higher reward, fewer tool calls, fewer tokens,
    the smaller id; what is unknown comes last. An unknown outcome may be a success, so it stands
    before a failure.
    """
    success = rows.column("success")
    keys = {
        "outcome": pc.if_else(pc.is_null(success), 1, pc.if_else(success, 0, 2)),
        "reward": rows.column("reward"),
        "calls": rows.column("n_tool_calls"),
        "tokens": pc.add(rows.column("prompt_tokens"), rows.column("completion_tokens")),
        "id": rows.column("trajectory_id"),
    }
    directions = {"reward": "descending"}
    return pc.sort_indices(
        pa.table(keys), sort_keys=[(k, directions.get(k, "ascending")) for k in keys]
    ).cast(pa.int64())


def scopes(frame: Frame, within: Within, *, same_outcome: bool) -> pa.Array:
    """A number for each row; only rows with the same number are compared (int64).

    Args:
        frame: the rows.
        within: see :data:`Within`.
        same_outcome: also tell success, failure and unknown apart.
    """
    rows = frame.rows
    parts: list[pa.ChunkedArray] = []
    if within == "goal":
        goal = normalised(goals(frame))
        parts.append(pc.coalesce(goal, pc.binary_join_element_wise("", rows["task_id"], "\x1f")))
    elif within == "task":
        parts.append(rows.column("task_id"))
    if within != "all":
        parts.append(rows.column("environment_version"))
    if same_outcome:
        parts.append(pc.cast(rows.column("success"), pa.string()))
    if not parts:
        return pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    keys = pc.binary_join_element_wise(
        *parts, "\x1e", null_handling="replace", null_replacement="\x1d"
    )
    return _one(keys).dictionary_encode().indices.cast(pa.int64())


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def keep_best(
    rows: pa.Table, clusters: Clusters, *, stage: str, reason: str, most_share: float | None
) -> StageResult:
    """Keep the rows that stand for themselves and count on them those that they stand for.

    Args:
        rows: the frame's rows.
        clusters: who stands for whom.
        stage: name of the stage, for the message.
        reason: why the others go; the detail is the id of the run that stands for them.
        most_share: most runs of one source in one cluster, as a share of that source's rows.

    Returns:
        The kept rows with two columns: ``duplicates`` (int32), how many runs a row stands for
        beside itself, those of earlier stages included, and ``duplicate_ids``, which they are.

    Raises:
        SelectionError: one cluster swallows a source.
    """
    if most_share is not None:
        _check_share(rows, clusters, stage, most_share)
    stands = _one(pc.equal(clusters.representative, pa.arange(0, rows.num_rows)))
    ids = _one(rows.column("trajectory_id"))
    names = ids.take(clusters.representative)
    reasons = pc.if_else(stands, pa.scalar(None, pa.string()), reason)
    result = StageResult.split(rows, pa.chunked_array([reasons]), pa.chunked_array([names]))
    counted = _counted(rows, clusters)
    kept = result.rows
    for name in counted.column_names:
        if name in kept.column_names:
            kept = kept.drop_columns(name)
        kept = kept.append_column(name, counted.column(name))
    return StageResult(kept, result.dropped)


def _counted(rows: pa.Table, clusters: Clusters) -> pa.Table:
    """``duplicates`` and ``duplicate_ids`` of the kept rows, in their order."""
    n = rows.num_rows
    ids = pa.list_(pa.string())
    earlier = "duplicates" in rows.column_names
    table = pa.table(
        {
            "place": pa.arange(0, n),
            "representative": clusters.representative,
            "id": rows.column("trajectory_id"),
            "n": rows.column("duplicates") if earlier else pa.nulls(n, pa.int32()),
            "ids": rows.column("duplicate_ids") if earlier else pa.nulls(n, ids),
        }
    )
    counted = relation(
        """
        SELECT CAST(sum(coalesce(n, 0)) + count(*) - 1 AS INTEGER) AS duplicates,
            list_sort(flatten(list(CASE WHEN place = representative THEN coalesce(ids, [])
                ELSE list_prepend(id, coalesce(ids, [])) END))) AS duplicate_ids
        FROM runs GROUP BY representative ORDER BY representative""",
        tables={"runs": table},
    )
    return counted.cast(pa.schema({"duplicates": pa.int32(), "duplicate_ids": ids}))


def _check_share(rows: pa.Table, clusters: Clusters, stage: str, most_share: float) -> None:
    table = rows.select(["source"]).append_column("representative", clusters.representative)
    sources = table.group_by("source").aggregate([([], "count_all")])
    sizes = table.group_by(["source", "representative"]).aggregate([([], "count_all")])
    of = sources.column("count_all").take(
        pc.index_in(sizes.column("source"), value_set=sources.column("source"))
    )
    share = pc.divide(pc.cast(sizes.column("count_all"), pa.float64()), of)
    bad = pc.and_(pc.greater(share, most_share), pc.greater_equal(of, _LEAST_RUNS))
    found = sizes.append_column("of", of).filter(bad)
    if not found.num_rows:
        return
    order = [("count_all", "descending"), ("source", "ascending"), ("representative", "ascending")]
    worst = found.sort_by(order).slice(0, 1)
    name = rows.column("trajectory_id").take(worst.column("representative"))[0]
    message = (
        f"The stage '{stage}' would make one cluster, that of {name}, out of "
        f"{worst['count_all'][0]} of the {worst['of'][0]} runs of the source "
        f"'{worst['source'][0]}', which is more than the share of {most_share} allowed. Look at "
        "them with groups(); raise the threshold, compare within the task, or, if they really are "
        "the same, raise most_share."
    )
    raise SelectionError(message)


def groups_table(rows: pa.Table, clusters: Clusters) -> pa.Table:
    """The clusters of two runs or more in :data:`GROUP_SCHEMA`, ordered by cluster.

    The kept run comes first, then the most similar, then by id.
    """
    ids = _one(rows.column("trajectory_id"))
    table = pa.table(
        {
            "cluster": ids.take(clusters.representative),
            "trajectory_id": ids,
            "kept": pc.equal(clusters.representative, pa.arange(0, rows.num_rows)),
            "similarity": clusters.similarity,
        }
    )
    counts = table.group_by("cluster").aggregate([([], "count_all")])
    several = counts.filter(pc.greater(counts.column("count_all"), 1)).column("cluster")
    shown = table.filter(pc.is_in(table.column("cluster"), value_set=several))
    order = [("cluster", "ascending"), ("kept", "descending"), ("similarity", "descending")]
    return shown.sort_by([*order, ("trajectory_id", "ascending")]).cast(GROUP_SCHEMA)
