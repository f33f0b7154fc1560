from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trajstore.schema import Observation, Step, ToolCall, Trajectory, finish

Run = Callable[..., Trajectory]


@pytest.fixture(scope="session")
def run() -> Run:
    """Make a run of the given steps; the id is ``t`` unless given."""

    def build(*steps: Step, **changes: Any) -> Trajectory:
        fields = {"trajectory_id": "t", "task_id": "sums/1", "source": "hand", **changes}
        return finish(Trajectory(steps=steps, **fields))

    return build


@pytest.fixture(scope="session")
def sum_run(run: Run) -> Trajectory:
    """System, user, one call with its result, an answer: what every trainer understands."""
    return run(
        Step(actor="system", text="Use the tool."),
        Step(actor="user", text="2 + 3?"),
        Step(
            actor="agent",
            reasoning="I should add.",
            tool_calls=(ToolCall.of("add", '{"a": 2, "b": 3, "note": null}', "c1"),),
            observations=(Observation(call_id="c1", text="5"),),
        ),
        Step(actor="agent", text="5"),
        success=True,
        reward=1.0,
        tools='[{"name":"add","description":"Add.","input_schema":{"type":"object"}}]',
    )
