"""Stores with a few runs whose best answers are plain to see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajstore import Observation, Pool, Step, ToolCall, Trajectory
from trajstore import open as open_store

GOALS = {
    "flights": "cancel the flight to Boston and refund the ticket",
    "hotels": "book a quiet hotel room near the station",
    "tests": "fix the failing unit test of the date parser",
    "wood": "craft a wooden table from planks",
    "weather": "tell me whether it will rain in Kyoto tomorrow",
}


def run(name: str, goal: str, **values: Any) -> Trajectory:
    """A run of two steps: a search that brings something, and an answer."""
    call = ToolCall.of(values.pop("tool", "search"), {"q": goal[:20]})
    seen = values.pop("seen", f"result for {name}")
    steps = (
        Step(actor="user", text=goal),
        Step(actor="agent", tool_calls=(call,), observations=(Observation(text=seen),)),
        Step(actor="agent", text=f"done: {name}"),
    )
    fields = {"task_id": f"task/{name}", "source": "test", "success": True} | values
    return Trajectory(trajectory_id=name, goal=goal, steps=steps, **fields)


Fill = Callable[..., Pool]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Make a store of runs, with an index by the hashing embedder."""

    def make(*runs: Trajectory, embedder: str | None = "hashing", **how: Any) -> Pool:
        store = open_store(tmp_path / "pool", durable=False)
        if runs:
            store.append(list(runs))
        if embedder is not None:
            store.index(embedder=embedder, **how)
        return store

    return make


@pytest.fixture
def small(fill: Fill) -> Pool:
    """One run for each of :data:`GOALS`."""
    return fill(*(run(name, goal, environment=name) for name, goal in GOALS.items()))
