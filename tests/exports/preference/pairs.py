"""Two runs of one task that part after the system message, and pairs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from trajstore.exports.conversation import Runs
from trajstore.schema import Observation, Step, ToolCall, Trajectory

TOOLS = '[{"name":"add","description":"Add.","input_schema":{"type":"object"}}]'


def two_runs(run: Callable[..., Trajectory]) -> tuple[Trajectory, Trajectory]:
    """The first calls the tool and is right; the second guesses."""
    system = Step(actor="system", text="Use the tool.")
    call = ToolCall.of("add", {"a": 2}, "c1")
    seen = Observation(call_id="c1", text="sum: 5")
    good = run(
        system,
        Step(actor="user", text="2+?"),
        Step(actor="agent", tool_calls=(call,), observations=(seen,)),
        Step(actor="agent", text="5"),
        Step(actor="user", text="bye"),
        trajectory_id="good",
        tools=TOOLS,
        success=True,
        reward=1.0,
    )
    bad = run(
        system,
        Step(actor="user", text="2 plus?"),
        Step(actor="agent", text="4"),
        trajectory_id="bad",
        tools=TOOLS,
        success=False,
        reward=0.0,
    )
    return good, bad


def pair_of(chosen: Trajectory, rejected: Trajectory, **changes: Any) -> pa.Table:
    """One pair that parts after the first step, unless told otherwise."""
    row = {
        "pair_id": "p1",
        "task_id": chosen.task_id,
        "chosen_id": chosen.trajectory_id,
        "rejected_id": rejected.trajectory_id,
        "chosen_step": None,
        "rejected_step": None,
        "n_prompt_steps": 1,
        "level": "trajectory",
        "chosen_reward": 1.0,
        "rejected_reward": 0.0,
        "margin": 1.0,
        "weight": 1.0,
        **changes,
    }
    return pa.Table.from_pylist([row])


def runs_of(*runs: Trajectory) -> Runs:
    """Gives those runs by id."""
    known = {t.trajectory_id: t for t in runs}

    def give(ids: Sequence[str]) -> Iterable[Trajectory]:
        return [known[i] for i in ids if i in known]

    return give
