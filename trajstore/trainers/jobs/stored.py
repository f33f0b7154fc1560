"""Runs of a job as pairs and groups take them: one row a run, and the runs themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import TrainingError
from trajstore.rollouts import Task
from trajstore.schema import Trajectory
from trajstore.store import Reader
from trajstore.trainers.jobs.run import JobRun

_IDS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRuns:
    """Runs, and what the store says of each."""

    rows: pa.Table
    """One row a run of the ``trajectories`` view, without metadata."""
    runs: tuple[Trajectory, ...]
    """The runs, in any order."""

    @property
    def tool_calls(self) -> float:
        """Mean tool calls of a run; 0 where there is none."""
        mean = pc.mean(self.rows.column("n_tool_calls")).as_py()
        return 0.0 if mean is None else float(mean)

    @property
    def success_rate(self) -> float:
        """Share of the runs that solved their task."""
        return sum(r.success is True for r in self.runs) / max(1, len(self.runs))


def stored_runs(reader: Reader, runs: Iterable[Trajectory]) -> StoredRuns:
    """What the store says of runs that it holds.

    Args:
        reader: of a snapshot that holds them.
        runs: which.
    """
    chosen = tuple(runs)
    ids = [r.trajectory_id for r in chosen]
    query = (
        "SELECT * EXCLUDE (metadata) FROM trajectories WHERE trajectory_id IN ({}) "
        "ORDER BY trajectory_id"
    )
    parts = [
        reader.query(query.format(", ".join(map(_quoted, ids[start : start + _IDS_AT_ONCE]))))
        for start in range(0, len(ids), _IDS_AT_ONCE)
    ]
    if not parts:
        raise TrainingError("there is no run to learn from")
    return StoredRuns(rows=pa.concat_tables([p.read_all() for p in parts]), runs=chosen)


def runs_of_data(job: JobRun) -> StoredRuns:
    """The runs that ``[data]`` names, none of them at a held-out task.

    Raises:
        TrainingError: there are none, or some are attempts at held-out tasks.
    """
    found = stored_runs(job.reader, job.runs())
    held_out = {t.task_id for t in job.tasks.held_out}
    leaked = sorted({r.task_id for r in found.runs} & held_out)
    if leaked:
        message = (
            f"{len(leaked)} held-out tasks are among the runs to train on, such as {leaked[0]}: "
            "what is measured on them would be memory. Leave them out by where, or give "
            "[rollouts.held_out] another seed."
        )
        raise job.config.error(message, "rollouts", "held_out")
    return found


def task_draw(tasks: Sequence[Task], start: int, count: int, seed: int) -> list[Task]:
    """So many tasks from a place in an endless list: the tasks shuffled, shuffled anew, and so on.

    Args:
        tasks: at least one.
        start: the place.
        count: how many; never one twice in one draw, so at most all of them.
        seed: of the shuffling.
    """
    order: list[Task] = []
    found: dict[str, Task] = {}
    place = start
    while len(found) < min(count, len(tasks)):
        epoch, rest = divmod(place, len(tasks))
        if rest == 0 or not order:
            order = list(tasks)
            Random(f"{seed} {epoch}").shuffle(order)  # noqa: S311 - a seeded order, no secret
        found.setdefault(order[rest].task_id, order[rest])
        place += 1
    return list(found.values())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
