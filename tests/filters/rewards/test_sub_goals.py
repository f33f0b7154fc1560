from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.filters.rewards.tables import (
    ACTIONS,
    ESTIMATES,
    GOALS,
    NO_ESTIMATES,
    fired,
    rows,
)
from trajstore.filters.rewards import first_failed_sub_goals, sub_goals


def goals(*decided: tuple[str, int | None, bool]) -> pa.Table:
    listed = [
        {"trajectory_id": "r0", "name": n, "step_index": i, "success": s} for n, i, s in decided
    ]
    return pa.Table.from_pylist(listed, schema=GOALS)


def actions(*at: int) -> pa.Table:
    return pa.Table.from_pylist([{"trajectory_id": "r0", "step_index": i} for i in at], ACTIONS)


def estimates(**at: float) -> pa.Table:
    listed = [{"trajectory_id": "r0", "step_index": int(k[1:]), "value": v} for k, v in at.items()]
    return pa.Table.from_pylist(listed, schema=ESTIMATES)


LOGIN_THEN_FIND = goals(("login", 2, True), ("find", 6, False), ("pay", 9, False))
EIGHT = actions(1, 2, 3, 4, 5, 6, 7, 8)


def run(values: pa.Table = NO_ESTIMATES, *, success: bool | None, **named: Any) -> list[Any]:
    table = rows({"success": success})
    return list(fired(sub_goals(table, EIGHT, LOGIN_THEN_FIND, values, **named)))


def test_the_first_failed_sub_goal_is_found_with_its_span() -> None:
    """``find`` was decided at 6, ``login`` before it at 2: the span is 3 to 6."""
    assert first_failed_sub_goals(LOGIN_THEN_FIND).to_pylist() == [
        {"trajectory_id": "r0", "name": "find", "first_step": 3, "last_step": 6}
    ]


def test_a_reached_sub_goal_earns_02_and_blame_falls_inside_the_failed_span_only() -> None:
    assert run(success=False) == [
        (2, "sub-goal-reached", 0.2),
        *((step, "sub-goal-failed", -0.05) for step in (3, 4, 5, 6)),
    ]


def test_nobody_is_blamed_for_a_task_that_succeeded() -> None:
    assert run(success=True) == [(2, "sub-goal-reached", 0.2)]


def test_nobody_is_blamed_for_a_task_of_unknown_outcome() -> None:
    assert run(success=None) == [(2, "sub-goal-reached", 0.2)]


def test_value_estimates_give_the_blame_to_the_action_that_lost_it() -> None:
    """V falls from .6 to .1 at step 4 and rises afterwards: only step 4 is blamed, with -.5."""
    known = estimates(_3=0.5, _4=0.6, _5=0.1, _6=0.2, _7=0.3)
    assert run(known, success=False) == [(2, "sub-goal-reached", 0.2), (4, "sub-goal-failed", -0.5)]


def test_one_missing_estimate_falls_back_to_even_blame() -> None:
    known = estimates(_3=0.5, _4=0.6, _5=0.1, _7=0.3)
    assert [v for *_, v in run(known, success=False)] == [0.2, -0.05, -0.05, -0.05, -0.05]


def test_behind_the_last_action_of_a_failed_run_nothing_can_be_expected() -> None:
    """Span 1 to 2, the last action had 0.4 before it and 0 behind it."""
    open_end = goals(("find", None, False))
    known = estimates(_1=0.4, _2=0.4)
    found = sub_goals(rows({"success": False}), actions(1, 2), open_end, known)
    assert fired(found) == [(2, "sub-goal-failed", -0.4)]


def test_a_sub_goal_that_was_still_open_at_the_end_spans_the_rest() -> None:
    left = goals(("login", 2, True), ("find", None, False))
    found = sub_goals(rows({"success": False}), actions(1, 2, 3, 7), left, NO_ESTIMATES)
    assert fired(found)[1:] == [(3, "sub-goal-failed", -0.1), (7, "sub-goal-failed", -0.1)]


def test_bonus_and_penalty_can_be_set() -> None:
    found = run(success=False, bonus=1, penalty=8)
    assert [v for *_, v in found] == [1, -2, -2, -2, -2]


def test_two_sub_goals_reached_at_one_step_earn_twice() -> None:
    both = goals(("a", 3, True), ("b", 3, True))
    found = sub_goals(rows({}), actions(3), both, NO_ESTIMATES)
    assert fired(found) == [(3, "sub-goal-reached", 0.4)]
    assert found.column("rationale").to_pylist() == ["a, b"]
