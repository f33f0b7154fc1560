from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import bash, call, details, run, said, selected, stored, summaries, why
from tests.filters.test_efficiency import RUNS, place, worked_example
from trajstore import Trajectory
from trajstore.errors import SelectionError
from trajstore.filters import Frame, stage


def test_top_n_keeps_the_best_of_each_task() -> None:
    selection = selected(worked_example(), stage("top-n", n=2))
    assert selection.ids() == ["a1", "a5"]
    assert why(selection) == {"a2": "not-in-top-n", "a3": "failure", "a4": "not-in-top-n"}
    assert details(selection)["a2"] == "rank 3"


def test_top_n_goes_by_the_cost_that_is_named() -> None:
    assert selected(worked_example(), stage("top-n", n=1, cost="tokens")).ids() == ["a2"]


def test_a_task_that_nobody_solved_has_no_top() -> None:
    frame = summaries({"success": False, "n_tool_calls": 1}, {"success": None})
    selection = selected(frame, stage("top-n", n=2))
    assert why(selection) == {"a": "failure", "b": "unknown-outcome"}


def test_failures_fill_up_only_where_they_are_asked_for() -> None:
    frame = summaries({"success": False}, {"success": None}, {"success": True})
    made = stage("top-n", n=2, failures=True)
    assert selected(frame, made).ids() == ["b", "c"]


def test_top_n_of_the_pool_ranks_all_tasks_together() -> None:
    frame = summaries(
        {"task_id": "s", "success": True, "reward": 0.5},
        {"task_id": "t", "success": True, "reward": 1.0},
        {"task_id": "t", "success": True, "reward": 0.9},
    )
    assert selected(frame, stage("top-n", n=2, per="pool")).ids() == ["b", "c"]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("top-n", {"n": 0}), ("best-of-n", {"keep": 0}), ("per-task-cap", {"most": 0})],
)
def test_less_than_one_run_is_refused(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(SelectionError, match=f"'{name}' keeps at least 1 run, not 0"):
        stage(name, **parameters)


def attempt(number: int, *words: str, **fields: Any) -> Trajectory:
    steps = [call(w, {"at": number}) for w in words]
    given = {"success": True, "reward": 1.0, "attempt": number} | fields
    return run(f"run-{number}", *steps, **given)


def test_best_of_n_keeps_the_best_of_each_strategy(tmp_path: Path) -> None:
    frame = stored(
        tmp_path,
        attempt(0, "search", "open", reward=0.7),
        attempt(1, "search", "open", reward=0.9),
        attempt(2, "guess", reward=0.8),
        attempt(3, "ask", reward=0.5),
        attempt(4, "search", success=False, reward=0.0),
    )
    selection = selected(frame, stage("best-of-n"))
    assert selection.ids() == ["run-1", "run-2"]
    reasons = {"run-0": "same-strategy", "run-3": "not-in-top", "run-4": "failure"}
    assert why(selection) == reasons
    assert details(selection)["run-0"] == "run-1"


def test_best_of_n_looks_at_the_first_n_attempts_only(tmp_path: Path) -> None:
    frame = stored(tmp_path, *(attempt(i, f"tool-{i}", reward=i / 10) for i in range(5)))
    selection = selected(frame, stage("best-of-n", attempts=3, keep=1))
    assert selection.ids() == ["run-2"]
    assert why(selection)["run-4"] == "beyond-n-attempts"


def test_attempts_without_a_number_count_by_their_start(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    runs = [
        attempt(i, f"tool-{i}", attempt=None, started_at=start - timedelta(hours=i))
        for i in range(3)
    ]
    selection = selected(stored(tmp_path, *runs), stage("best-of-n", attempts=2))
    assert why(selection) == {"run-0": "beyond-n-attempts"}


def test_one_strategy_with_other_arguments_is_still_one_strategy(tmp_path: Path) -> None:
    frame = stored(
        tmp_path,
        run("a", bash("grep x"), success=True, task_id="t"),
        run("b", bash("grep y"), success=True, task_id="t"),
        run("c", bash("sed 1d f"), success=True, task_id="t"),
    )
    assert selected(frame, stage("best-of-n")).ids() == ["a", "c"]
    assert selected(frame, stage("best-of-n", words="tools")).ids() == ["a"]


def test_runs_that_only_talk_share_a_strategy(tmp_path: Path) -> None:
    frame = stored(
        tmp_path, run("a", said("42"), success=True), run("b", said("I say 42"), success=True)
    )
    assert why(selected(frame, stage("best-of-n"))) == {"b": "same-strategy"}


def test_without_distinct_strategies_the_best_win_and_no_step_is_read() -> None:
    selection = selected(worked_example(), stage("best-of-n", distinct=False))
    assert selection.ids() == ["a1", "a5"]


def test_best_of_n_can_take_what_nobody_judged() -> None:
    frame = summaries({"success": None, "reward": 2.0}, {"success": None, "reward": 3.0})
    made = stage("best-of-n", keep=1, distinct=False, failures=True)
    assert selected(frame, made).ids() == ["b"]


def capped() -> Frame:
    rows = [
        {"trajectory_id": f"{t}{i}", "task_id": t, "success": True, "n_tool_calls": 9 - i}
        for t, n in (("s", 5), ("t", 2))
        for i in range(n)
    ]
    return summaries(*rows)


def test_a_cap_leaves_small_tasks_whole() -> None:
    selection = selected(capped(), stage("per-task-cap", most=3))
    tasks = selection.rows.column("task_id").to_pylist()
    assert (tasks.count("s"), tasks.count("t")) == (3, 2)
    assert set(why(selection).values()) == {"over-task-cap"}


def test_a_cap_by_rank_keeps_the_cheapest() -> None:
    selection = selected(capped(), stage("per-task-cap", most=2, by="rank"))
    assert selection.ids() == ["s3", "s4", "t0", "t1"]


def test_a_random_cap_depends_on_the_seed() -> None:
    stages = [stage("per-task-cap", most=2, seed=seed) for seed in range(9)]
    assert len({tuple(selected(capped(), made).ids()) for made in stages}) > 3


@settings(max_examples=40, deadline=None)
@given(RUNS, st.builds(dict, n=st.integers(1, 3), failures=st.booleans()))
def test_top_n_is_the_head_of_each_task_in_plain_python(
    runs: list[dict[str, Any]], asked: dict[str, Any]
) -> None:
    frame, n, failures = summaries(*runs), asked["n"], asked["failures"]
    expected = []
    for task in "st":
        rows = [r for r in frame.rows.to_pylist() if r["task_id"] == task]
        ordered = sorted((r for r in rows if failures or r["success"]), key=place)
        expected += [r["trajectory_id"] for r in ordered[:n]]
    assert selected(frame, stage("top-n", **asked)).ids() == sorted(expected)
