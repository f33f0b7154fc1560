"""Runs of a store as ATIF documents."""

from __future__ import annotations

from pathlib import Path

from trajstore.exports import AtifReport, export_atif
from trajstore.filters import Selection
from trajstore.pipeline.export_sources import lineage_of, reader_of
from trajstore.pipeline.selecting import StoreSteps
from trajstore.store import Store


def export_atif_from(
    store: Store,
    folder: Path | str,
    *,
    where: str | None = None,
    selection: Selection | None = None,
    at: int | str | None = None,
) -> AtifReport:
    """Write runs as ATIF 1.7 documents that trajstore reads back as the same runs.

    Outcomes are the effective ones: a late label counts before what the source said. All runs are
    written, whatever their outcome. Memory does not grow with the size of the runs.

    Args:
        store: where from.
        folder: gets ``ID.trajectory.json`` for each run, and ``manifest.json``.
        where: SQL condition over ``trajectories``; None for all.
        selection: only runs of this selection, as they are in its own snapshot; not with ``where``
            or ``at``.
        at: snapshot number or pin; the newest where None.

    Raises:
        QueryError: the condition does not parse.
        ExportError: a selection comes with ``where`` or ``at`` or has runs that are not there, or
            the folder cannot be used.
    """
    reader = reader_of(store, selection, where, at)
    lineage = lineage_of(reader, selection, where)
    if selection is None:
        runs = reader.scan(where or None)
    else:
        runs = StoreSteps(reader).trajectories(selection.ids())
    return export_atif(runs, folder, lineage=lineage)
