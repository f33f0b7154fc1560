from __future__ import annotations

import pyarrow as pa
import pytest

from tests.filters.rewards.tables import (
    CALLS,
    NO_CALLS,
    NO_SCORES,
    NO_STEPS,
    calls,
    fired,
    rows,
    scores,
    steps,
)
from trajstore.filters.rewards import dense_tool_agent, step_totals


def test_a_call_that_worked_earns_005_and_one_that_failed_costs_003() -> None:
    made = calls(("a", "1", "ok", False), ("b", "1", "HTTP 500", None))
    assert fired(dense_tool_agent(made, NO_STEPS, NO_SCORES)) == [
        (1, "successful-call", 0.05),
        (3, "error", -0.03),
    ]


def test_a_call_without_a_result_earns_and_costs_nothing() -> None:
    assert fired(dense_tool_agent(calls(("a", "1", None, None)), NO_STEPS, NO_SCORES)) == []


def test_a_corrected_retry_earns_008() -> None:
    made = calls(("edit", '{"line":1}', "bad", True), ("edit", '{"line":2}', "ok", False))
    assert fired(dense_tool_agent(made, NO_STEPS, NO_SCORES)) == [
        (1, "error", -0.03),
        (3, "recovery", 0.08),
        (3, "successful-call", 0.05),
    ]


def test_the_same_call_again_costs_01_and_is_no_recovery() -> None:
    made = calls(("edit", "1", "bad", True), ("edit", "1", "ok", False))
    assert fired(dense_tool_agent(made, NO_STEPS, NO_SCORES))[1:] == [
        (3, "repeated-action", -0.1),
        (3, "successful-call", 0.05),
    ]


def test_a_rule_fires_once_a_step_however_many_calls_it_has() -> None:
    two = [("r0", 1, n, "a", str(n), "ok", False) for n in range(2)]
    made = pa.Table.from_pylist([dict(zip(CALLS.names, c, strict=True)) for c in two], CALLS)
    assert fired(dense_tool_agent(made, NO_STEPS, NO_SCORES)) == [(1, "successful-call", 0.05)]


def test_a_retrieval_that_is_used_later_earns_01() -> None:
    made = calls(("search", '{"q":"milk"}', "see item_42", False), ("open", "item_42", "ok", False))
    found = dense_tool_agent(made, NO_STEPS, NO_SCORES)
    assert (1, "retrieval-used", 0.1) in fired(found)
    assert "item_42 used at step 3" in found.column("rationale").to_pylist()


QUESTION = steps(
    ("user", "Book me a flight"), ("agent", "Which day?"), ("user", "Monday"), ("agent", "Done")
)


def test_a_question_to_the_user_earns_005_where_the_goal_is_ambiguous() -> None:
    told = scores(("ambiguous-goal", 1.0))
    found = dense_tool_agent(NO_CALLS, QUESTION, told)
    assert fired(found) == [(1, "clarifying-question", 0.05)]


@pytest.mark.parametrize("told", [NO_SCORES, scores(("ambiguous-goal", 0.0))], ids=["", "clear"])
def test_a_question_earns_nothing_where_nobody_called_the_goal_ambiguous(told: pa.Table) -> None:
    assert fired(dense_tool_agent(NO_CALLS, QUESTION, told)) == []


def test_a_question_that_the_user_never_answers_earns_nothing() -> None:
    asked = steps(("user", "Book me a flight"), ("agent", "Which day?"))
    assert fired(dense_tool_agent(NO_CALLS, asked, scores(("ambiguous-goal", 1.0)))) == []


def test_every_value_can_be_set() -> None:
    made = calls(("a", "1", "ok", False), ("a", "1", "Error", None))
    found = dense_tool_agent(made, NO_STEPS, NO_SCORES, success=1, error=-2, repeat=-3)
    assert [v for *_, v in fired(found)] == [1, -2, -3]


def test_runs_do_not_touch_each_other() -> None:
    made = [calls(("a", "1", "ok", False), run=run) for run in ("r0", "r1")]
    found = dense_tool_agent(pa.concat_tables(made), NO_STEPS, NO_SCORES)
    assert {name for _, name, _ in fired(found)} == {"successful-call"}


def test_the_total_of_a_run_is_the_sum_and_nothing_for_a_silent_one() -> None:
    made = calls(("edit", "1", "bad", True), ("edit", "2", "ok", False))
    totals = step_totals(rows({}, {}), dense_tool_agent(made, NO_STEPS, NO_SCORES))
    assert totals.to_pylist() == [
        {"trajectory_id": "r0", "value": 0.1},
        {"trajectory_id": "r1", "value": 0.0},
    ]
