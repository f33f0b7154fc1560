from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.filters.frames import asked, call, run, said
from tests.filters.rewards import tables
from trajstore import Label, Pool
from trajstore.filters.rewards import INPUTS, dense_tool_agent, judged_calls, read_input

HAND = {
    "rows": tables.ROWS,
    "calls": tables.CALLS,
    "steps": tables.STEPS,
    "actions": tables.ACTIONS,
    "scores": tables.SCORES,
    "goals": tables.GOALS,
    "estimates": tables.ESTIMATES,
}


def given(pool: Pool, name: str, where: str = "true") -> pa.Table:
    return read_input(lambda query: pool.query(query).read_all(), name, where)


def columns(schema: pa.Schema) -> set[tuple[str, str]]:
    """Names and types; a time zone may be spelled in several ways."""
    return {(f.name, str(f.type).partition(", tz=")[0]) for f in schema}


@pytest.fixture
def filled(pool: Pool) -> Pool:
    pool.append([run("a", asked("go"), call("look", {"x": 1}), said("done"), rewards={"m": 0.5})])
    pool.append([run("b", said("done"), success=True)])
    goal, value = {"name": "sub-goal/x", "success": True}, {"name": "value", "value": 0.5}
    pool.label([Label(trajectory_id="a", evaluator="e", step_index=1, **goal)])  # type: ignore[arg-type]
    pool.label([Label(trajectory_id="a", evaluator="e", step_index=1, **value)])  # type: ignore[arg-type]
    return pool


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("full", [False, True], ids=["empty store", "filled store"])
def test_a_store_gives_the_columns_that_the_tests_write_by_hand(
    request: pytest.FixtureRequest, name: str, full: object
) -> None:
    pool = request.getfixturevalue("filled" if full else "pool")
    table = given(pool, name)
    assert columns(HAND[name]) <= columns(table.schema)
    assert bool(table.num_rows) == bool(full)


@pytest.mark.parametrize("name", INPUTS)
def test_a_condition_limits_every_input(filled: Pool, name: str) -> None:
    ids = given(filled, name, "trajectory_id = 'b'").column("trajectory_id")
    assert set(ids.to_pylist()) <= {"b"}


def test_the_shortest_success_is_that_of_the_task(filled: Pool) -> None:
    filled.append([run("c", *[call("look", {})] * 3, task_id="other", success=True)])
    shortest = given(filled, "rows").select(["trajectory_id", "shortest_success"]).to_pylist()
    assert [tuple(r.values()) for r in shortest] == [("a", 0), ("b", 0), ("c", 3)]


def test_arguments_that_are_no_json_are_still_compared(pool: Pool) -> None:
    pool.append([run("a", call("bash", "ls -la"), call("bash", "ls -la"), call("bash", "ls"))])
    repeats = judged_calls(given(pool, "calls")).column("repeats").to_pylist()
    assert repeats == [False, True, False]


def test_recorded_calls_are_judged_as_the_source_says(pool: Pool, real_data: Path) -> None:
    """tau-bench: 1,164 calls of which 73 answer "Error: ..."; one call a step."""
    pool.import_files(real_data / "tau_bench")
    found = dense_tool_agent(*(given(pool, name) for name in ("calls", "steps", "scores")))
    counts = found.group_by("name").aggregate([([], "count_all")]).to_pylist()
    fired = {r["name"]: r["count_all"] for r in counts}
    assert (fired["successful-call"], fired["error"]) == (1164 - 73, 73)
    assert fired["recovery"] <= 73
