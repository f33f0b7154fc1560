"""Select and export in one go: the first training set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from trajstore.exports import DEFAULT_OPTIONS, ExportReport, Lineage, SftOptions, export_sft
from trajstore.store import Reader, Store


def export_sft_from(
    store: Store,
    out: Path | str | None,
    *,
    to: Literal["trl"] = "trl",
    where: str | None = None,
    success_only: bool = True,
    at: int | str | None = None,
    format: Literal["parquet", "jsonl"] = "parquet",  # noqa: A002  the name of the flag
    options: SftOptions = DEFAULT_OPTIONS,
) -> ExportReport:
    """Write a supervised fine-tuning set of the trajectories that fit a condition.

    Args:
        store: where from.
        out: folder to write to, ``-`` for JSON lines on stdout, or None to only count what would be
            written.
        to: the trainer whose shape is written.
        where: SQL condition over ``trajectories``.
        success_only: leave out runs that failed or whose outcome is unknown (the effective outcome
            counts).
        at: snapshot number or pin; the newest where None.
        format: file format.
        options: what a row holds.

    Returns:
        What was written, with the funnel from all trajectories to rows in its manifest.

    Raises:
        QueryError: the condition does not parse.
        ExportError: the folder holds something that trajstore did not write.
    """
    reader = store.at(at) if at is not None else store.reader()
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
    lineage = Lineage(
        snapshot=reader.snapshot.version, filter=" AND ".join(conditions), funnel=tuple(funnel)
    )
    runs = reader.scan(lineage.filter or None)
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
