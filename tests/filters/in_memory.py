"""Frames over runs in memory, for stages that ask for steps; as light as hypothesis needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from trajstore import Step, ToolCall, Trajectory
from trajstore.filters import SUMMARY_SCHEMA, Frame
from trajstore.schema import finish, steps_to_arrow, trajectories_to_arrow


class StepsInMemory:
    """The views ``trajectories`` and ``steps`` over a few runs."""

    def __init__(self, runs: Sequence[Trajectory]) -> None:
        self._runs = {r.trajectory_id: r for r in runs}
        self._tables = {
            "trajectories": trajectories_to_arrow(list(runs)),
            "steps": steps_to_arrow(list(runs)),
        }

    def sql(self, query: str) -> pa.Table:
        with duckdb.connect(":memory:") as connection:
            for name, table in self._tables.items():
                connection.register(name, table)
            return connection.sql(query).to_arrow_table()

    def trajectories(self, ids: Sequence[str]) -> Iterator[Trajectory]:
        yield from (self._runs[i] for i in ids if i in self._runs)


def frame_of(*runs: Trajectory) -> Frame:
    """A frame over the runs, in their order."""
    finished = [finish(r) for r in runs]
    rows = trajectories_to_arrow(finished).select(SUMMARY_SCHEMA.names).cast(SUMMARY_SCHEMA)
    return Frame(rows, StepsInMemory(finished))


def did(identity: str, actions: str, **fields: object) -> Trajectory:
    """A run whose actions are single words: ``"search open"`` calls two tools, ``""`` none."""
    steps = tuple(
        Step(actor="agent", tool_calls=(ToolCall.of(name, {}),)) for name in actions.split()
    )
    given = {"task_id": "task", "source": "hand"} | fields
    return Trajectory(trajectory_id=identity, steps=steps, **given)  # type: ignore[arg-type]


def wants(identity: str, task: str, goal: str | None, **fields: object) -> Trajectory:
    """A run with a goal that did nothing."""
    return did(identity, "", task_id=task, goal=goal, **fields)


def shuffled(frame: Frame, order: Sequence[int]) -> Frame:
    """The same frame with its rows in another order."""
    return Frame(frame.rows.take(pa.array(order, pa.int64())), frame.steps)
