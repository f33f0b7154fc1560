"""Runs of a store as ATIF documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trajstore.errors import ExportError
from trajstore.exports import AtifReport, Lineage, export_atif
from trajstore.filters import Selection
from trajstore.pipeline.selecting import StoreSteps
from trajstore.schema import Trajectory
from trajstore.store import Reader, Store


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
        ExportError: a selection comes with ``where`` or ``at``, or the folder cannot be used.
    """
    runs, lineage = _runs(store, where, selection, at)
    return export_atif(runs, folder, lineage=lineage)


def _runs(
    store: Store, where: str | None, selection: Selection | None, at: int | str | None
) -> tuple[Iterator[Trajectory], Lineage]:
    if selection is None:
        reader = store.reader() if at is None else store.at(at)
        return reader.scan(where), _lineage(reader, where)
    if where is not None or at is not None:
        raise ExportError("give a selection, or where and at, not both")
    reader = store.reader() if selection.snapshot is None else store.at(selection.snapshot)
    return StoreSteps(reader).trajectories(selection.ids()), Lineage(**selection.lineage())


def _lineage(reader: Reader, where: str | None) -> Lineage:
    """The condition, and how many runs it leaves."""
    funnel = []
    if where is not None:
        total, left = (
            int(column[0].as_py())
            for column in reader.query(
                f"SELECT count(*), count(*) FILTER ({where}) FROM trajectories"
            )
            .read_all()
            .columns
        )
        dropped = {"does not fit the condition": total - left} if total > left else {}
        stage = {"stage": "where", "parameters": {"sql": where}, "in": total, "out": left}
        funnel.append({**stage, "dropped": dropped})
    return Lineage(snapshot=reader.snapshot.version, filter=where or "", funnel=tuple(funnel))
