"""Select and export in one go: the first training set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from trajstore.exports import (
    DEFAULT_OPTIONS,
    ExportReport,
    Format,
    Lineage,
    SftOptions,
    Target,
    export_sft,
)
from trajstore.filters import Frame, Selection, run_stages, stage
from trajstore.pipeline.export_sources import (
    count,
    lineage_of,
    reader_of,
    stage_entry,
    with_stage,
)
from trajstore.pipeline.selecting import StoreSteps
from trajstore.schema import Trajectory
from trajstore.store import Reader, Store


def export_sft_from(  # noqa: PLR0913  one parameter a flag of the command
    store: Store,
    out: Path | str | None,
    *,
    to: Target = "trl",
    where: str | None = None,
    selection: Selection | None = None,
    success_only: bool = True,
    at: int | str | None = None,
    format: Format | None = None,  # noqa: A002  the name of the flag
    options: SftOptions = DEFAULT_OPTIONS,
) -> ExportReport:
    """Write a supervised fine-tuning set of the trajectories that fit a condition.

    Args:
        store: where from.
        out: folder to write to, ``-`` for JSON lines on stdout, or None to only count what would be
            written.
        to: the trainer whose shape is written.
        where: SQL condition over ``trajectories``.
        selection: only runs of this selection, as they are in its own snapshot; not with ``where``
            or ``at``.
        success_only: leave out runs that failed or whose outcome is unknown (the effective outcome
            counts).
        at: snapshot number or pin; the newest where None.
        format: file format; the one that the trainer prefers where None.
        options: what a row holds.

    Returns:
        What was written, with the funnel from all trajectories to rows in its manifest.

    Raises:
        QueryError: the condition does not parse.
        ExportError: the folder holds something that trajstore did not write.
    """
    reader = reader_of(store, selection, where, at)
    if selection is not None:
        runs, lineage = _selected(reader, selection, success_only=success_only)
    else:
        lineage = _conditions(reader, where, success_only=success_only)
        runs = reader.scan(lineage.filter or None)

    return export_sft(runs, out, to=to, format=format, lineage=lineage, options=options)


def _conditions(reader: Reader, where: str | None, *, success_only: bool) -> Lineage:
    """The condition that the options say, and how many runs each part of it leaves."""
    lineage = lineage_of(reader, None, where)
    before = f"({where}) AND " if where else ""
    lineage = replace(lineage, filter=f"({where})" if where else "")
    if not success_only:
        return lineage
    kept, failed, unknown = (
        count(reader, before + c) for c in ("success", "success = false", "success IS NULL")
    )
    dropped = {"failure": failed, "unknown outcome": unknown}
    entry = stage_entry("success", {}, kept + failed + unknown, kept, dropped)
    return replace(with_stage(lineage, entry), filter=f"{before}success")


def _selected(
    reader: Reader, selection: Selection, *, success_only: bool
) -> tuple[Iterator[Trajectory], Lineage]:
    """The runs of a selection, read from its own snapshot, and how they were selected."""
    if success_only:
        done = run_stages(Frame(selection.rows, _NoSteps()), [stage("success")])
        funnel = (*selection.funnel, *done.funnel)
        selection = replace(selection, rows=done.rows, funnel=funnel)
    return StoreSteps(reader).trajectories(selection.ids()), Lineage(**selection.lineage())


class _NoSteps:
    """For stages that look at summary rows only."""

    def sql(self, query: str) -> pa.Table:
        """Never asked."""
        raise NotImplementedError(query)

    def trajectories(self, ids: Sequence[str]) -> Iterator[Trajectory]:
        """Never asked."""
        raise NotImplementedError(ids)
