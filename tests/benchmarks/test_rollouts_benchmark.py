"""The benchmark of rollouts: a loop and the runner that solve the same tasks."""

from __future__ import annotations

import pytest

from benchmarks import rollouts
from benchmarks.measure import DisagreementError, Took
from benchmarks.rollouts import by_loop, by_runner, gains, main, measure
from trajstore.rollouts import calculator_tasks

TASKS = calculator_tasks(6, seed=3)


def test_the_loop_and_the_runner_solve_the_same_tasks() -> None:
    solved = by_loop(TASKS)
    assert solved == by_runner(TASKS, 6)
    assert set(solved.values()) == {True}


def test_gains_are_times_the_loops_rate() -> None:
    took = {"plain loop": (Took(6.0, 1.0),) * 3, "4 in flight": (Took(1.5, 1.0),) * 3}
    assert gains(took) == {"plain loop": 1.0, "4 in flight": 4.0}


def test_sides_that_solve_other_tasks_stop_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "by_loop", lambda _: {"nobody": False})
    with pytest.raises(DisagreementError, match="4 in flight solved other tasks"):
        measure(2, repeats=1, in_flight=[4])


def test_the_command_says_whether_the_target_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tasks", "32", "--repeats", "1", "--in-flight", "16"]) == 0
    assert "times the loop, target 5" in capsys.readouterr().out
