"""Write the report of a store: numbers and pictures in one HTML file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from trajstore.filters import Selection
from trajstore.pipeline.report.comparison import comparison
from trajstore.pipeline.report.funnel import funnel
from trajstore.pipeline.report.headline import headline
from trajstore.pipeline.report.markup import Markup, tag
from trajstore.pipeline.report.measures import measures
from trajstore.pipeline.report.page import page
from trajstore.pipeline.report.rewards import rewards
from trajstore.pipeline.report.scope import Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.strategies_map import strategies_map
from trajstore.pipeline.report.success_by_steps import success_by_steps
from trajstore.pipeline.report.tasks import tasks
from trajstore.pipeline.report.text import short
from trajstore.pipeline.report.timeline import timeline
from trajstore.pipeline.report.tools import tools
from trajstore.store import Reader, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlReport:
    """What was written."""

    snapshot: int
    """Snapshot that the numbers are of."""
    trajectories: int
    """Runs that the report is about."""
    size_bytes: int
    """Size of the file."""
    sections: dict[str, Any]
    """Section -> every number in it, JSON-ready; ``{"absent": why}`` for one that is not there."""


def write_report(
    source: Store | Reader,
    out: str | Path | IO[bytes],
    *,
    selection: Selection | None = None,
    at: int | str | None = None,
    where: str | None = None,
    seed: int = 0,
) -> HtmlReport:
    """Write one HTML file about the runs of a store.

    The file opens offline, holds its charts as SVG, and is the same for the same snapshot and
    options. Numbers are counted in SQL; only aggregated rows and a sample of up to 1,000 runs reach
    Python, so the file stays small, and DuckDB keeps to the store's memory limit. The diversity map
    needs NumPy (the extra ``select``); without it the page says so.

    Args:
        source: a store, or a reader of one snapshot.
        out: file to make or replace, or a binary stream.
        selection: only the runs selected, in the selection's own snapshot, with its funnel.
        at: snapshot number or pin of the store; the newest where None.
        where: only runs that fit this SQL condition over ``trajectories``.
        seed: of the sample that the diversity map shows.

    Raises:
        QueryError: the condition does not parse.
        SelectionError: both ``selection`` and ``at`` are given.
        SnapshotError: the snapshot does not exist or cannot be read any more.
        OSError: the file cannot be written; what was there is untouched.
    """
    scope = Scope.of(source, at=at, where=where, selection=selection)
    parts = list(_sections(scope, seed))
    name = _store_name(scope.reader)
    html = page(title=f"Trajectories of {name}", about=_about(scope), sections=parts).encode()
    _write(out, html)
    return HtmlReport(
        snapshot=scope.reader.snapshot.version,
        trajectories=scope.total,
        size_bytes=len(html),
        sections={p.name: p.facts if isinstance(p, Section) else {"absent": p.why} for p in parts},
    )


def _sections(scope: Scope, seed: int) -> Iterator[Section | Absent]:
    yield headline(scope)
    selected = funnel(scope)
    if selected is not None:
        yield selected
    yield tasks(scope)
    yield success_by_steps(scope)
    yield measures(scope)
    yield rewards(scope)
    yield comparison(scope)
    yield tools(scope)
    yield strategies_map(scope, seed=seed)
    yield timeline(scope)


def _store_name(reader: Reader) -> str:
    """The last part of the store's address: where it lies is nobody's business."""
    parts = [p for p in reader.location.uri.split("/") if p and p != "trajectories"]
    return short(parts[-1] if parts else "store", 60)


def _about(scope: Scope) -> list[Markup]:
    said = [tag("p", f"Snapshot {scope.reader.snapshot.version}.", class_="note")]
    if scope.selection is not None:
        said.append(tag("p", "Selected runs only; the funnel is below.", class_="note"))
    if scope.where:
        condition = tag("code", short(scope.where, 300))
        said.append(tag("p", "Only runs that fit ", condition, class_="note"))
    return said


def _write(out: str | Path | IO[bytes], content: bytes) -> None:
    if not isinstance(out, str | Path):
        out.write(content)
        out.flush()
        return
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        staged.write_bytes(content)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
