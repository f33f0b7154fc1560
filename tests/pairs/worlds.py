"""Small runs to type by hand: a start, then turns of an action and what came back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from trajstore.pairs import (
    GroupOptions,
    GroupReport,
    PairReport,
    RunRules,
    StepPairOptions,
    TrajectoryPairOptions,
    group_advantages,
    step_pairs,
    trajectory_pairs,
)
from trajstore.schema import (
    Label,
    Observation,
    Step,
    ToolCall,
    Trajectory,
    finish,
    labels_to_arrow,
    steps_to_arrow,
    trajectories_to_arrow,
)

START = (Step(actor="system", text="You are helpful."), Step(actor="user", text="Do it."))


def turn(action: str, seen: str | None = None, **changes: Any) -> Step:
    """An agent step: ``"open(a)"`` is a call of ``open`` with ``a``; then what came back."""
    name, _, argument = action.partition("(")
    call = ToolCall.of(name, {"x": argument.rstrip(")")}, changes.pop("call_id", None))
    observations = () if seen is None else (Observation(text=seen, call_id=call.call_id),)
    return Step(actor="agent", tool_calls=(call,), observations=observations, **changes)


def run(
    name: str,
    *turns: Step | str,
    reward: float | None = 0.0,
    task: str = "t",
    start: tuple[Step, ...] = START,
    **changes: Any,
) -> Trajectory:
    """A finished run; it passed where its reward is 1, and nobody judged it without a reward."""
    steps = tuple(turn(t) if isinstance(t, str) else t for t in turns)
    made = Trajectory(
        trajectory_id=name,
        task_id=task,
        source="test",
        status="terminated",
        success=None if reward is None else reward >= 1,
        reward=reward,
        steps=(*start, *steps),
    )
    return finish(replace(made, **changes), state_keys=False)


def tables(runs: list[Trajectory]) -> tuple[pa.Table, pa.Table]:
    return trajectories_to_arrow(runs), steps_to_arrow(runs)


def paired(
    runs: list[Trajectory], labels: list[Label] | None = None, /, **options: Any
) -> tuple[pa.Table, PairReport]:
    rows, steps = tables(runs)
    words = None if labels is None else labels_to_arrow(labels)
    return trajectory_pairs(rows, steps, options=TrajectoryPairOptions(**options), labels=words)


def sides(pairs: pa.Table) -> list[tuple[str, str]]:
    """Chosen and rejected ids of the pairs, sorted."""
    return sorted((p["chosen_id"], p["rejected_id"]) for p in pairs.to_pylist())


def stepwise(
    runs: list[Trajectory], values: pa.Table | None = None, /, **options: Any
) -> tuple[pa.Table, PairReport]:
    rows, steps = tables(runs)
    return step_pairs(rows, steps, options=StepPairOptions(**options), values=values)


def grouped(
    rewards: list[float | None], rules: RunRules | None = None, /, **options: Any
) -> tuple[list[float], pa.Table, GroupReport]:
    """Advantages of one group with those rewards, its rows, and the report."""
    runs = [run(f"r{i}", f"act({i})", reward=reward) for i, reward in enumerate(rewards)]
    if rules is not None:
        options["runs"] = rules
    found, report = group_advantages(trajectories_to_arrow(runs), options=GroupOptions(**options))
    return found.column("advantage").to_pylist(), found, report
