"""Small input tables of rewards, typed as a store gives them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")

ROWS = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("task_id", pa.string()),
        ("success", pa.bool_()),
        ("reward", pa.float64()),
        ("n_agent_steps", pa.int32()),
        ("n_tool_calls", pa.int32()),
        ("n_tool_errors", pa.int32()),
        ("n_format_errors", pa.int32()),
        ("duration_s", pa.float64()),
    ]
)
CALLS = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("step_index", pa.int32()),
        ("call_index", pa.int64()),
        ("name", pa.string()),
        ("arguments", pa.string()),
        ("observation", pa.string()),
        ("is_error", pa.bool_()),
    ]
)
STEPS = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("step_index", pa.int32()),
        ("actor", pa.string()),
        ("text", pa.string()),
        ("n_calls", pa.int32()),
    ]
)
SCORES = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),
        ("evaluator", pa.string()),
        ("created_at", TIME),
        ("label_id", pa.string()),
    ]
)
ACTIONS = pa.schema(
    [("trajectory_id", pa.string()), ("step_index", pa.int32()), ("reward", pa.float64())]
)
GOALS = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("name", pa.string()),
        ("step_index", pa.int32()),
        ("success", pa.bool_()),
    ]
)
ESTIMATES = pa.schema(
    [("trajectory_id", pa.string()), ("step_index", pa.int32()), ("value", pa.float64())]
)

NO_CALLS, NO_STEPS, NO_SCORES = (s.empty_table() for s in (CALLS, STEPS, SCORES))
NO_ESTIMATES = ESTIMATES.empty_table()


def rows(*runs: dict[str, Any]) -> pa.Table:
    """Summary rows; what a run does not say is a clean success of no length at task ``t``."""
    usual = {"task_id": "t", "success": True, "n_agent_steps": 0, "n_tool_calls": 0}
    usual |= {"n_tool_errors": 0, "n_format_errors": 0}
    named = [{"trajectory_id": f"r{n}", **usual, **run} for n, run in enumerate(runs)]
    return pa.Table.from_pylist(named, schema=ROWS)


def calls(*made: tuple[str, str, str | None, bool | None], run: str = "r0") -> pa.Table:
    """Calls (tool, arguments, observation, is_error), one a step at the steps 1, 3, 5, ..."""
    listed = [
        dict(zip(CALLS.names, (run, 2 * n + 1, 0, *call), strict=True))
        for n, call in enumerate(made)
    ]
    return pa.Table.from_pylist(listed, schema=CALLS)


def steps(*said: tuple[str, str | None], run: str = "r0", n_calls: int = 0) -> pa.Table:
    """Steps (actor, text) from step 0 on."""
    listed = [
        dict(zip(STEPS.names, (run, n, *step, n_calls), strict=True)) for n, step in enumerate(said)
    ]
    return pa.Table.from_pylist(listed, schema=STEPS)


def scores(*named: tuple[str, float], run: str = "r0", evaluator: str = "judge") -> pa.Table:
    """Labels (name, value) of one run, each newer than the one before."""
    listed = [
        {
            "trajectory_id": run,
            "name": name,
            "value": value,
            "evaluator": evaluator,
            "created_at": datetime(2026, 1, 1 + n, tzinfo=UTC),
            "label_id": f"{evaluator}-{n}",
        }
        for n, (name, value) in enumerate(named)
    ]
    return pa.Table.from_pylist(listed, schema=SCORES)


def values(result: pa.Table) -> list[Any]:
    """The values of a reward."""
    listed: list[Any] = result.column("value").to_pylist()
    return listed


def fired(result: pa.Table) -> Sequence[tuple[int, str, float]]:
    """Step, rule and value of each row, rounded."""
    return [
        (r["step_index"], r["name"], round(r["value"], 9))
        for r in result.select(["step_index", "name", "value"]).to_pylist()
    ]
