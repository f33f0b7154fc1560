"""Static exemplars (as MolMem keeps them beside evolving skills): runs that stay as examples.

An exemplar is an insight that names one successful run. It is shown beside what was learnt; no
counter moves it and no capacity evicts it. It goes only by hand, or with its run.
"""

from __future__ import annotations

from collections.abc import Iterable

from trajstore.errors import MemoryItemError
from trajstore.memory.insights import Insights
from trajstore.memory.insights_row import StoredInsight
from trajstore.schema import Insight
from trajstore.store import Store


def pin_exemplars(store: Store, trajectory_ids: Iterable[str]) -> list[StoredInsight]:
    """Make runs exemplars; one that is an exemplar already stays one.

    Args:
        store: the store.
        trajectory_ids: runs that succeeded.

    Raises:
        MemoryItemError: a run is not in the store, or it did not succeed.
    """
    ids = list(trajectory_ids)
    runs = {run.trajectory_id: run for run in store.get_many(ids)}
    found = []
    for trajectory_id in ids:
        run = runs.get(trajectory_id)
        if run is None:
            message = f"There is no trajectory {trajectory_id!r}."
            raise MemoryItemError(message, record=trajectory_id)
        if run.success is not True:
            message = f"{trajectory_id} did not succeed, so it is no example."
            raise MemoryItemError(message, record=trajectory_id)
        found.append(
            Insight(
                text=run.goal or run.task_id,
                kind="exemplar",
                source="exemplars",
                title=trajectory_id,
                task_id=run.task_id,
                trajectory_ids=(trajectory_id,),
                environment=run.environment,
                environment_version=run.environment_version,
            )
        )
    return Insights(store).add(*found)


def exemplars(
    store: Store, *, environment: str | None = None, task_id: str | None = None
) -> list[StoredInsight]:
    """The exemplars, ordered by the id of their run.

    Args:
        store: the store.
        environment: only of this one.
        task_id: the task that asks: its own runs are left out.
    """
    found = [
        e
        for e in Insights(store).all(kind="exemplar")
        if environment in {None, e.environment} and (task_id is None or e.task_id != task_id)
    ]
    return sorted(found, key=lambda e: e.title or "")
