"""Which tasks a policy attempts next, by how it has done on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from trajstore.filters.curriculum import advance, target_at
from trajstore.filters.curriculum_stages import Curriculum
from trajstore.filters.selection import Frame
from trajstore.rollouts import Task
from trajstore.schema import Trajectory
from trajstore.trainers.jobs.stored import task_draw

if TYPE_CHECKING:
    from trajstore.store import Store

TaskChoice = Literal["shuffled", "levels", "variance", "target"]
"""``shuffled``: all tasks in turn. The others are those of the selection stage ``curriculum``:
``levels`` mixes L1 to L5 and moves up a level after a round with more than 70 % solved,
``variance`` draws by p(1 - p), ``target`` around a pass rate that falls as training goes on."""

_FIRST_LEVEL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChooser:
    """Chooses the tasks of a round."""

    tasks: tuple[Task, ...]
    """All that may be attempted."""
    choice: TaskChoice
    """How."""
    explore: float
    """Share of tasks that were never tried, from 0 to 1, where there is a curriculum."""
    seed: int
    """Of every draw."""

    def chosen(
        self, tried: pa.Table, count: int, *, place: int, solved: Sequence[float], rounds: int
    ) -> list[Task]:
        """The tasks of a round, or fewer where there are not so many.

        Args:
            tried: one row a run of the newest policies at these tasks, as the ``trajectories``
                view has it.
            count: tasks to choose.
            place: number of the draw, from 0.
            solved: share of runs that solved their task, of each round so far.
            rounds: how many there will be.
        """
        if self.choice == "shuffled" or not tried.num_rows:
            return task_draw(self.tasks, place * count, count, self.seed)
        known = set(map(str, tried.column("task_id")))
        new = [t for t in self.tasks if t.task_id not in known]
        fresh = task_draw(new, place * count, round(self.explore * count), self.seed) if new else []
        names = set(self._by_rate(tried, count - len(fresh), place, solved, rounds))
        found = [*fresh, *(t for t in self.tasks if t.task_id in names)]
        lacking = count - len(found)
        taken = {t.task_id for t in found}
        rest = [t for t in self.tasks if t.task_id not in taken]
        return [*found, *(task_draw(rest, 0, lacking, self.seed + place) if rest else [])]

    def _by_rate(
        self, tried: pa.Table, count: int, place: int, solved: Sequence[float], rounds: int
    ) -> Iterator[str]:
        level = _FIRST_LEVEL
        for rate in solved:
            level = advance(level, {level: rate})
        assert self.choice != "shuffled"
        stage = Curriculum(
            n=count,
            by=self.choice,
            level=level,
            target=target_at(min(1.0, len(solved) / rounds)),
            seed=self.seed + place,
        )
        result = stage.apply(Frame(tried, _NoSteps()))
        yield from map(str, result.rows.column("task_id"))


class _NoSteps:
    """Stands where a stage could ask about steps; a curriculum asks nothing."""

    def sql(self, query: str) -> pa.Table:
        raise NotImplementedError(query)

    def trajectories(self, ids: Sequence[str]) -> Iterator[Trajectory]:
        raise NotImplementedError(ids)


def tried(store: Store, series: str, newest: int) -> pa.Table:
    """The training runs of a job's newest versions, one row each.

    Args:
        store: where they are.
        series: what the job's versions begin with.
        newest: number of the newest version; it and the one before count, so that rates are those
            of the policy as it is.
    """
    versions = ", ".join(f"'{series}/iteration-{n}'" for n in range(max(0, newest - 1), newest + 1))
    query = (
        "SELECT trajectory_id, task_id, success, reward, n_agent_steps, policy_version "
        f"FROM trajectories WHERE policy_version IN ({versions}) AND list_contains(tags, 'train') "
        "ORDER BY trajectory_id"
    )
    return store.query(query).read_all()
