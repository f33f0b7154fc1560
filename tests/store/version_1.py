"""A store as format version 1 had it: every step with its calls and results as lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from trajstore import Trajectory
from trajstore.schema import STEP_SCHEMA, steps_to_arrow, trajectories_to_arrow
from trajstore.store.layout import REVISION, STORED_SCHEMAS, TABLE_CONFIGURATION, delta_schema
from trajstore.store.parts import _statistics
from trajstore.store.rows import link
from trajstore.store.views import FLAT_NAMES

_STEPS = pa.schema([f for f in STORED_SCHEMAS["step"] if f.name not in FLAT_NAMES])


def write_store(folder: Path, batches: Sequence[Sequence[Trajectory]]) -> None:
    """Make a store with one commit a batch."""
    root = folder / "trajectories"
    columns = [f for f in delta_schema() if f.name not in FLAT_NAMES]
    table = DeltaTable.create(
        str(root),
        schema=pa.schema(columns),
        partition_by=["record"],
        configuration={**TABLE_CONFIGURATION, "trajstore.format_version": "1"},
        raise_if_key_not_exists=False,
    )
    for number, runs in enumerate(batches):
        ordered = sorted(runs, key=lambda r: r.trajectory_id)
        revisions = [number * 10_000 + n for n in range(len(ordered))]
        rows = trajectories_to_arrow(ordered).add_column(0, REVISION, [revisions])
        parts = {"trajectory": rows, "step": _step_rows(ordered, revisions)}
        actions = [_added(root, record, number, rows) for record, rows in parts.items()]
        table.create_write_transaction(actions, "append", table.schema(), ["record"])


def _step_rows(runs: Sequence[Trajectory], revisions: Sequence[int]) -> pa.Table:
    steps = [s for r in runs for s in r.steps]
    places = [
        link([c.call_id for c in s.tool_calls], [o.call_id for o in s.observations]) for s in steps
    ]
    rows = steps_to_arrow(runs)
    columns = {n: rows.column(n) for n in STEP_SCHEMA.names}
    columns["revision"] = [i for r, i in zip(runs, revisions, strict=True) for _ in r.steps]
    columns["tool_names"] = [[c.name for c in s.tool_calls] for s in steps]
    columns["tool_results"] = places
    columns["tool_errors"] = [
        [None if p is None else s.observations[p - 1].is_error for p in found]
        for s, found in zip(steps, places, strict=True)
    ]
    return pa.table([columns[n] for n in _STEPS.names], schema=_STEPS)


def _added(root: Path, record: str, number: int, rows: pa.Table) -> AddAction:
    name = f"record={record}/part-{number}.parquet"
    path = root / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows, path, write_page_index=True, store_schema=False)
    return AddAction(
        path=name,
        size=path.stat().st_size,
        partition_values={"record": record},
        modification_time=0,
        data_change=True,
        stats=_statistics(rows),
    )
