"""What every export of a store begins with: the snapshot and the lineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from trajstore.errors import ExportError
from trajstore.exports import Lineage
from trajstore.filters import Selection
from trajstore.store import Reader, Store


def reader_of(
    store: Store, selection: Selection | None, where: str | None, at: int | str | None
) -> Reader:
    """The snapshot that is exported: the selection's own, the one asked for, or the newest.

    Raises:
        ExportError: a selection beside a condition or a snapshot, or one with runs that are not
            there.
        QueryError: the condition is none by itself.
    """
    if selection is None:
        reader = store.reader() if at is None else store.at(at)
        if where:  # by itself: brackets around "true) or (false" would make another one of it
            reader.query(f"SELECT 1 FROM trajectories WHERE {where}\nLIMIT 0").read_all()
        return reader
    if where or at is not None:
        raise ExportError("give a selection, or where and at, not both")
    reader = store.reader() if selection.snapshot is None else store.at(selection.snapshot)
    _check_all_there(reader, selection)
    return reader


def _check_all_there(reader: Reader, selection: Selection) -> None:
    ids = selection.rows.column("trajectory_id")
    there = reader.query("SELECT trajectory_id FROM trajectories").read_all().column(0)
    lost = ids.filter(pc.invert(pc.is_in(ids, value_set=there)))
    if len(lost):
        raise ExportError(
            f"{len(lost)} of the selected trajectories are not in snapshot "
            f"{reader.snapshot.version}, such as {lost[0]}; select again, or give the store that "
            "the selection was made from."
        )


def lineage_of(reader: Reader, selection: Selection | None, where: str | None) -> Lineage:
    """How the runs were selected: the selection's funnel, or what the condition leaves."""
    if selection is not None:
        return replace(Lineage(**selection.lineage()), snapshot=reader.snapshot.version)
    funnel = []
    if where:
        total, left = count(reader), count(reader, f"({where})")
        dropped = {"does not fit the condition": total - left}
        funnel.append(stage_entry("where", {"sql": where}, total, left, dropped))
    return Lineage(snapshot=reader.snapshot.version, filter=where or "", funnel=tuple(funnel))


def with_stage(lineage: Lineage, entry: Mapping[str, Any]) -> Lineage:
    """The lineage with one more stage at its end."""
    return replace(lineage, funnel=(*lineage.funnel, entry))


def stage_entry(
    name: str,
    parameters: Mapping[str, Any],
    before: int,
    after: int,
    dropped: Mapping[str, int],
    *,
    unit: str | None = None,
) -> dict[str, Any]:
    """One entry of a funnel.

    Args:
        name: of the stage.
        parameters: of the stage.
        before: runs that went in.
        after: what came out.
        dropped: reason -> runs.
        unit: what came out, such as ``pairs``, where it is no runs.
    """
    entry = {
        "stage": name,
        "parameters": dict(parameters),
        "in": before,
        "out": after,
        "dropped": {k: v for k, v in dropped.items() if v},
    }
    return entry if unit is None else {**entry, "unit": unit}


def count(reader: Reader, condition: str | None = None) -> int:
    """How many runs fit a condition."""
    where = f" WHERE {condition}" if condition else ""
    rows = reader.query(f"SELECT count(*) FROM trajectories{where}").read_all()
    return int(rows.column(0)[0].as_py())
