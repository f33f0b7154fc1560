"""Utility is a function of the rows of uses and the effective outcomes, and of nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from trajstore import Label, Pool, Trajectory
from trajstore.memory import q_values, record_uses, utilities

START = datetime(2026, 1, 1, tzinfo=UTC)


def run(
    store: Pool,
    name: str,
    *,
    success: bool | None,
    item: str | None = None,
    task: str = "t",
    policy: str | None = None,
    minute: int = 0,
) -> None:
    store.append(
        Trajectory(
            trajectory_id=name, task_id=task, source="x", success=success, policy_version=policy
        )
    )
    if item is not None:
        at = START + timedelta(minutes=minute)
        record_uses(store, name, [item], "insight", given_at=at)


def group(
    store: Pool, task: str, given: str, alone: str, *, minute: int, policy: str = "1"
) -> None:
    """A task with runs that were given ``a`` and runs that were not: ``+`` won, ``-`` lost."""
    for number, sign in enumerate(given):
        name = f"{task}-{policy}-g{number}"
        won = sign == "+"
        run(store, name, success=won, item="a@1", task=task, policy=policy, minute=minute)
    for number, sign in enumerate(alone):
        name = f"{task}-{policy}-n{number}"
        run(store, name, success=sign == "+", task=task, policy=policy)


def test_q_is_0_3_and_then_minus_0_09(store: Pool) -> None:
    # algorithms.md B4: Q 0 -> .3 -> -.09 after +1, -1; an unknown outcome moves nothing.
    run(store, "r1", success=True, item="a@1", minute=0)
    assert q_values(store, "insight") == {"a": pytest.approx(0.3)}
    run(store, "r2", success=False, item="a@2", minute=1)
    run(store, "r3", success=None, item="a@2", minute=2)
    assert q_values(store, "insight") == {"a": pytest.approx(-0.09)}


def test_the_order_of_uses_decides_not_that_of_writing(store: Pool) -> None:
    run(store, "r2", success=False, item="a", minute=9)
    run(store, "r1", success=True, item="a", minute=1)
    assert q_values(store, "insight") == {"a": pytest.approx(-0.09)}


def test_a_gap_of_one_half_moves_a_utility_to_a_quarter(store: Pool) -> None:
    # With [1, 1, 0, 1], without [0, 1, 0, 0]: gap .5 (B4); from 0 by half of it.
    group(store, "t", "++-+", "-+--", minute=0)
    assert utilities(store, "insight") == {"a": pytest.approx(0.25)}


def test_a_later_group_weighs_more(store: Pool) -> None:
    # Gaps 1, then 0.5 in the order given: 0.5 -> 0.5; the other way round: 0.25 -> 0.625.
    group(store, "t1", "+", "-", minute=0)
    group(store, "t2", "++", "+-", minute=1)
    assert utilities(store, "insight") == {"a": pytest.approx(0.5)}
    group(store, "t0", "+", "-", minute=2)
    assert utilities(store, "insight") == {"a": pytest.approx(0.75)}


def test_a_group_without_a_baseline_says_nothing(store: Pool) -> None:
    group(store, "t", "+++", "", minute=0)
    assert utilities(store, "insight") == {}


def test_another_policy_is_no_baseline(store: Pool) -> None:
    group(store, "t", "+", "", minute=0, policy="2")
    group(store, "t", "", "-", minute=0, policy="1")
    assert utilities(store, "insight") == {}


def test_unknown_policies_are_one_group(store: Pool) -> None:
    run(store, "g", success=True, item="a")
    run(store, "n", success=False)
    assert utilities(store, "insight") == {"a": pytest.approx(0.5)}


def test_at_level_step_each_run_moves_it(store: Pool) -> None:
    # Baseline .5: gaps .5 and -.5, so .25 and then -.125, or -.25 and then .125.
    group(store, "t", "+-", "+-", minute=0)
    (value,) = utilities(store, "insight", level="step").values()
    assert abs(value) == pytest.approx(0.125)
    assert utilities(store, "insight") == {"a": pytest.approx(0.0)}


def test_a_late_verdict_moves_it(store: Pool) -> None:
    group(store, "t", "-", "-", minute=0)
    assert utilities(store, "insight") == {"a": 0.0}
    store.label([Label(trajectory_id="t-1-g0", name="outcome", success=True, evaluator="human")])
    assert utilities(store, "insight") == {"a": pytest.approx(0.5)}


def test_kinds_do_not_mix(store: Pool) -> None:
    group(store, "t", "+", "-", minute=0)
    assert utilities(store, "reflection") == {}
    assert q_values(store, "workflow") == {}
