"""The comparison of ways to spend model calls."""

from __future__ import annotations

import pytest

from benchmarks.lats import SETTINGS, WAYS, Bout, attempts, main, one_attempt
from trajstore.rollouts import SHIPPED, FreshSeeds


def bout(calls: int) -> Bout:
    there = SHIPPED["calculator"]
    policy = FreshSeeds(there.agent("hasty"))
    tasks = there.tasks(12, 0)
    return Bout(there=there, policy=policy, tasks=tasks, seed=0, calls=calls, expand=2)


@pytest.mark.parametrize("name", [name for name in WAYS if name != "one attempt"])
def test_no_way_spends_more_calls_than_it_has(name: str) -> None:
    assert WAYS[name](bout(10)).calls <= 10


def test_repeated_attempts_solve_what_one_attempt_does_and_more() -> None:
    assert attempts(bout(60)).rate > one_attempt(bout(60)).rate


def test_a_row_a_setting_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tasks", "3", "--seeds", "2", "--calls", "12", "--only", "calculator"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + sum(env == "calculator" for env, _ in SETTINGS)
    assert {line.count("|") for line in lines} == {len(WAYS) + 2}
