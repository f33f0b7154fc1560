"""Prompts and groups of a store as training sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from trajstore.exports import ExportReport, Format
from trajstore.exports.rl import (
    DEFAULT_GROUP_ROWS,
    DEFAULT_PROMPTS,
    GroupRowOptions,
    PromptOptions,
    export_groups,
    export_prompts,
    group_target,
    prompt_target,
)
from trajstore.filters import Selection
from trajstore.pairs import GroupOptions, GroupReport
from trajstore.pipeline.export_sources import (
    lineage_of,
    reader_of,
    stage_entry,
    with_stage,
)
from trajstore.pipeline.pairing import build_groups
from trajstore.schema import Trajectory
from trajstore.store import Reader, Store

_RUNS_A_READ = 64
_FIRST_ATTEMPTS = ("task_id", "attempt", "started_at", "trajectory_id")
_WITH_SIGNAL = GroupOptions(no_signal="drop-zero-variance")
"""Groups whose advantages differ; the others are counted."""


def export_prompts_from(
    store: Store,
    out: Path | str | None,
    *,
    to: str = "trl",
    selection: Selection | None = None,
    where: str | None = None,
    at: int | str | None = None,
    format: Format | None = None,  # noqa: A002  the name of the flag
    options: PromptOptions = DEFAULT_PROMPTS,
) -> ExportReport:
    """Write the prompts of a store's tasks, one row a task, for trainers that sample themselves.

    The first attempt is the one with the lowest trial number, then the earliest. No outcome is
    looked at.

    Args:
        store: where from.
        out: folder to write to, ``-`` for JSON lines on stdout, or None to only count what would be
            written.
        to: the trainer whose shape is written.
        selection: only tasks of the runs of this selection, as they are in its own snapshot; not
            with ``where`` or ``at``.
        where: SQL condition over ``trajectories``.
        at: snapshot number or pin; the newest where None.
        format: file format; the one that the trainer prefers where None.
        options: what a row holds, and what becomes of tasks whose attempts opened differently.

    Raises:
        ExportError: the target cannot be written, or the folder holds something of somebody else.
        QueryError: the condition does not fit.
    """
    prompt_target(to)
    reader = reader_of(store, selection, where, at)
    lineage = lineage_of(reader, selection, where)
    tasks = _tasks(reader, _ordered(reader, selection, where))
    return export_prompts(tasks, out, to=to, format=format, lineage=lineage, options=options)


def _ordered(reader: Reader, selection: Selection | None, where: str | None) -> Iterator[str]:
    """Ids, task by task, the first attempt first."""
    if selection is not None:
        rows = selection.rows.sort_by([(n, "ascending") for n in _FIRST_ATTEMPTS])
        yield from (i.as_py() for i in rows.column("trajectory_id"))
        return
    condition = f" WHERE ({where})" if where else ""
    order = ", ".join(f"{n} NULLS LAST" for n in _FIRST_ATTEMPTS)
    query = f"SELECT trajectory_id FROM trajectories{condition} ORDER BY {order}"
    for batch in reader.query(query):
        yield from (i.as_py() for i in batch.column(0))


def _tasks(reader: Reader, ids: Iterator[str]) -> Iterator[Iterable[Trajectory]]:
    """The attempts at each task, 64 runs in memory at a time."""
    for _, attempts in itertools.groupby(_read(reader, ids), attrgetter("task_id")):
        yield attempts


def _read(reader: Reader, ids: Iterator[str]) -> Iterator[Trajectory]:
    while part := list(itertools.islice(ids, _RUNS_A_READ)):
        yield from reader.get_many(part)


def export_groups_from(  # noqa: PLR0913  one parameter a flag of the command
    store: Store,
    out: Path | str | None,
    *,
    to: str = "messages",
    selection: Selection | None = None,
    where: str | None = None,
    grouping: GroupOptions = _WITH_SIGNAL,
    at: int | str | None = None,
    format: Format | None = None,  # noqa: A002  the name of the flag
    options: GroupRowOptions = DEFAULT_GROUP_ROWS,
) -> ExportReport:
    """Write groups of attempts with their advantages, for training on stored runs.

    Args:
        store: where from.
        out: folder to write to, ``-`` for JSON lines on stdout, or None to only count what would be
            written.
        to: ``messages`` or ``prime-rl``.
        selection: only runs of this selection, as they are in its own snapshot; not with ``where``
            or ``at``.
        where: SQL condition over ``trajectories``.
        grouping: how to group; see :func:`build_groups`. Groups without a signal are left out and
            counted where not given.
        at: snapshot number or pin; the newest where None.
        format: file format; the one that the target prefers where None.
        options: what a row holds.

    Raises:
        ExportError: the target cannot be written, or the folder holds something of somebody else.
        PairError: groups cannot be built as asked.
        QueryError: the condition does not fit.
    """
    group_target(to)
    reader = reader_of(store, selection, where, at)
    groups, report = build_groups(
        store, selection, where=where, options=grouping, at=reader.snapshot.version
    )
    lineage = with_stage(lineage_of(reader, selection, where), _group_stage(report, grouping))

    return export_groups(
        groups,
        reader.get_many,
        out,
        to=to,
        format=format,
        lineage=lineage,
        options=options,
        facts={"groups_report": report.as_dict()},
    )


def _group_stage(report: GroupReport, grouping: GroupOptions) -> dict[str, Any]:
    dropped: Mapping[str, int] = report.runs_dropped
    flat = report.runs - report.runs_grouped - sum(dropped.values())
    parameters = {
        "variant": grouping.variant,
        "std": grouping.std,
        "by": list(grouping.by),
        "no_signal": grouping.no_signal,
        "criterion": grouping.runs.criterion,
    }
    dropped = {**dropped, "no-signal": flat}
    return stage_entry("groups", parameters, report.runs, report.runs_grouped, dropped)
