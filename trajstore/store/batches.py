"""From values to a batch of Arrow tables, each run once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from trajstore.errors import SchemaError
from trajstore.schema import (
    Label,
    Trajectory,
    finish,
    labels_to_arrow,
    steps_to_arrow,
    trajectories_to_arrow,
)
from trajstore.store.append import Batch
from trajstore.store.conflicts import Conflict, conflict
from trajstore.store.known import Rank, is_as_long

_OUTCOME = ("trajectory_id", "source_uri", "success", "reward")


def to_batch(
    items: Batch | Trajectory | Label | Iterable[object],
) -> tuple[Batch, int, tuple[Conflict, ...]]:
    """Arrow tables of the items, how many versions of a run were left out, and conflicts of them.

    Trajectories whose counts are not set yet are finished (without state keys and digest).
    """
    if isinstance(items, Batch):
        return items, 0, ()
    if isinstance(items, Trajectory | Label):
        items = [items]
    at = datetime.now(UTC)
    runs: dict[str, Trajectory] = {}
    labels: list[Label] = []
    shorter = 0
    conflicts: list[Conflict] = []
    for item in items:
        if isinstance(item, Label):
            labels.append(item)
        elif isinstance(item, Trajectory):
            run = _ready(item, at)
            there = runs.get(run.trajectory_id)
            if there is None or _rank(run) > _rank(there):
                runs[run.trajectory_id] = run
            if there is not None:
                shorter += 1
                conflicts += _conflict(runs[run.trajectory_id], there, run)
        else:
            raise SchemaError(_strange(item))
    ordered = [runs[i] for i in sorted(runs)]
    batch = Batch(
        trajectories=trajectories_to_arrow(ordered),
        steps=steps_to_arrow(ordered),
        labels=labels_to_arrow(labels, at=at),
    )
    return batch, shorter, tuple(conflicts)


def _conflict(kept: Trajectory, *versions: Trajectory) -> list[Conflict]:
    """What the version that is left out says otherwise, where it is as long."""
    if not is_as_long(*map(_rank, versions)):
        return []
    other = next(run for run in versions if run is not kept)
    row = {name: getattr(other, name) for name in _OUTCOME}
    found = conflict(row, success=kept.success, reward=kept.reward)
    return [] if found is None else [found]


def _strange(item: object) -> str:
    kind = type(item).__name__
    return f"Cannot append a {kind}; give Trajectory or Label values, or a Batch."


def _ready(run: Trajectory, at: datetime) -> Trajectory:
    if run.n_steps != len(run.steps) or (run.steps and not run.size_bytes):
        run = finish(run, state_keys=False, digest=False)
    return run if run.imported_at is not None else replace(run, imported_at=at)


def _rank(run: Trajectory) -> Rank:
    counts = (run.n_agent_steps, run.n_steps, run.n_tool_calls, run.size_bytes)
    return (run.success is not None, *counts, run.status != "running")
