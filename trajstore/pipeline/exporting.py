"""Select and export in one go: the first training set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajstore.errors import ExportError
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
    if selection is not None:
        if where or at is not None:
            raise ExportError("give a selection, or where and at, not both")
        runs, lineage = _selected(store, selection, success_only=success_only)
        return _export(runs, out, to=to, format=format, lineage=lineage, options=options)
    reader = store.at(at) if at is not None else store.reader()
    lineage = _conditions(reader, where, success_only=success_only)
    runs = reader.scan(lineage.filter or None)
    return _export(runs, out, to=to, format=format, lineage=lineage, options=options)


def _conditions(reader: Reader, where: str | None, *, success_only: bool) -> Lineage:
    """The condition that the options say, and how many runs each part of it leaves."""
    conditions = [f"({where})"] if where else []
    funnel = []
    total = _count(reader, [])
    if where:
        left = _count(reader, conditions)
        dropped = {"does not fit the condition": total - left}
        funnel.append(_stage("where", {"sql": where}, total, left, dropped))
        total = left
    if success_only:
        failed = _count(reader, [*conditions, "success = false"])
        unknown = _count(reader, [*conditions, "success IS NULL"])
        conditions.append("success")
        left = total - failed - unknown
        dropped = {"failure": failed, "unknown outcome": unknown}
        funnel.append(_stage("success", {}, total, left, dropped))
    return Lineage(
        snapshot=reader.snapshot.version, filter=" AND ".join(conditions), funnel=tuple(funnel)
    )


def _selected(
    store: Store, selection: Selection, *, success_only: bool
) -> tuple[Iterator[Trajectory], Lineage]:
    """The runs of a selection, read from its own snapshot, and how they were selected."""
    if success_only:
        done = run_stages(Frame(selection.rows, _NoSteps()), [stage("success")])
        funnel = (*selection.funnel, *done.funnel)
        selection = replace(selection, rows=done.rows, funnel=funnel)
    reader = store.reader() if selection.snapshot is None else store.at(selection.snapshot)
    return StoreSteps(reader).trajectories(selection.ids()), Lineage(**selection.lineage())


class _NoSteps:
    """For stages that look at summary rows only."""

    def sql(self, query: str) -> pa.Table:
        """Never asked."""
        raise NotImplementedError(query)

    def trajectories(self, ids: Sequence[str]) -> Iterator[Trajectory]:
        """Never asked."""
        raise NotImplementedError(ids)


def _export(
    runs: Iterator[Trajectory],
    out: Path | str | None,
    *,
    to: Target,
    format: Format | None,  # noqa: A002  the name of the flag
    lineage: Lineage,
    options: SftOptions,
) -> ExportReport:
    if out is None:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            return export_sft(
                runs, nowhere, to=to, format="jsonl", lineage=lineage, options=options
            )
    return export_sft(runs, out, to=to, format=format, lineage=lineage, options=options)


def _stage(
    name: str, parameters: dict[str, Any], before: int, after: int, dropped: dict[str, int]
) -> dict[str, Any]:
    return {
        "stage": name,
        "parameters": parameters,
        "in": before,
        "out": after,
        "dropped": {k: v for k, v in dropped.items() if v},
    }


def _count(reader: Reader, conditions: list[str]) -> int:
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = reader.query(f"SELECT count(*) FROM trajectories{where}").read_all()
    return int(rows.column(0)[0].as_py())
