from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.rewards.tables import NO_CALLS, NO_SCORES, calls, rows, scores, values
from trajstore.filters.rewards import judge_score, outranked, spl, three_dimensions

A1_TO_A5 = rows(
    {"trajectory_id": "a1", "reward": 1.0, "n_tool_calls": 4},
    {"trajectory_id": "a2", "reward": 1.0, "n_tool_calls": 6},
    {"trajectory_id": "a3", "reward": 0.2, "success": False, "n_tool_calls": 2},
    {"trajectory_id": "a4", "reward": 0.9, "n_tool_calls": 4},
    {"trajectory_id": "a5", "reward": 1.0, "n_tool_calls": 4},
)


def test_spl_gives_the_worked_numbers() -> None:
    """Efficiencies 1, 2/3, 0, 1, 1; their mean is 0.733333."""
    found = values(spl(A1_TO_A5))
    assert found == pytest.approx([1, 2 / 3, 0, 1, 1])
    assert sum(found) / 5 == pytest.approx(0.733333, abs=1e-6)


def test_a_failed_short_run_is_never_most_efficient() -> None:
    assert values(spl(rows({"success": False, "n_tool_calls": 1}, {"n_tool_calls": 9}))) == [0, 1]


def test_each_task_has_its_own_shortest_success() -> None:
    table = rows(
        {"task_id": "a", "n_tool_calls": 2},
        {"task_id": "b", "n_tool_calls": 8},
        {"task_id": "b", "n_tool_calls": 4},
    )
    assert values(spl(table)) == [1, 0.5, 1]


def test_an_oracle_length_counts_before_the_shortest_of_the_rows() -> None:
    table = rows({"n_tool_calls": 4}, {"n_tool_calls": 8})
    oracle = table.append_column("shortest_success", pa.array([2, 2]))
    assert values(spl(oracle)) == [0.5, 0.25]


def test_spl_knows_nothing_of_unknown_outcomes() -> None:
    assert values(spl(rows({"success": None, "n_tool_calls": 1}, {"n_tool_calls": 3}))) == [None, 1]


def test_one_success_without_any_call_leaves_something_to_the_others() -> None:
    assert values(spl(rows({"n_tool_calls": 0}, {"n_tool_calls": 4}))) == [1, 0.25]


def test_three_dimensions_gives_the_worked_number() -> None:
    """Completion 1, 3 of 4 calls effective, coherence .5, recovery 1, efficiency .5: .825."""
    made = calls(*[("a", "{}", "ok", False)] * 3, ("a", "{}", "no", True))
    told = scores(("coherence", 0.5), ("recovery", 1), ("efficiency", 0.5))
    result = three_dimensions(
        rows({}), made, told, coherence="coherence", recovery="recovery", efficiency="efficiency"
    )
    assert values(result) == pytest.approx([0.825])
    process = ("effective_calls", "coherence", "recovery")
    assert sum(result[n][0].as_py() for n in process) == pytest.approx(0.3 * 0.75)


def test_three_dimensions_computes_what_no_judge_said() -> None:
    """5 calls: 4 work, 1 repeats the call before it, 1 fault that was put right; eff 5/5.

    0.5 + 0.12 * 4/5 + 0.09 * (1 - 1/5) + 0.09 * 1 + 0.2 = 0.958.
    """
    made = calls(
        ("look", '{"p":1}', "x", False),
        ("look", '{"p":1}', "x", False),
        ("edit", '{"p":1}', "bad", True),
        ("look", '{"p":2}', "x", False),
        ("edit", '{"p":2}', "ok", False),
    )
    result = three_dimensions(rows({"n_tool_calls": 5}), made, NO_SCORES)
    assert values(result) == pytest.approx([0.958])


def test_a_run_without_calls_has_no_effective_ones_and_nothing_to_recover() -> None:
    """0.5 + 0 + 0.09 + 0.09 + 0.2."""
    assert values(three_dimensions(rows({}), NO_CALLS, NO_SCORES)) == pytest.approx([0.88])


def test_a_score_that_was_asked_for_and_is_missing_leaves_the_run_without_a_value() -> None:
    told = scores(("coherence", 1.0))
    result = three_dimensions(rows({}, {}), NO_CALLS, told, coherence="coherence")
    assert values(result) == [pytest.approx(0.88), None]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), min_size=1, max_size=8))
def test_no_failure_has_the_three_dimensions_of_a_success(runs: list[tuple[bool, int]]) -> None:
    table = rows(*({"success": s, "n_tool_calls": n} for s, n in runs))
    made = calls(*[("a", "{}", "ok", False)] * 3)
    result = three_dimensions(table, made, NO_SCORES)
    assert outranked(table, result).num_rows == 0
    assert all(0 <= v <= 1 for v in values(result))


FOUR = ("completion", "accuracy", "structure", "citation")


def test_judge_score_weighs_the_four_scores() -> None:
    """0.4 * 8 + 0.3 * 6 + 0.15 * 10 + 0.15 * 2 = 6.8."""
    told = scores(*zip([f"judge/{n}" for n in FOUR], (8, 6, 10, 2), strict=True))
    assert values(judge_score(rows({}), told)) == pytest.approx([6.8])


def test_judge_score_needs_all_four() -> None:
    told = scores(*((f"judge/{n}", 5.0) for n in FOUR[:3]))
    assert values(judge_score(rows({}), told)) == [None]


def test_judge_score_takes_the_newest_word() -> None:
    first = [(f"judge/{n}", 1.0) for n in FOUR]
    later = [(f"judge/{n}", 9.0) for n in FOUR]
    assert values(judge_score(rows({}), scores(*first, *later))) == pytest.approx([9.0])


def test_a_label_is_newer_than_what_came_with_the_run() -> None:
    own = scores(("judge/completion", 2.0)).to_pylist()[0]
    own |= {"evaluator": None, "created_at": None, "label_id": None}
    label = scores(*((f"judge/{n}", 7.0) for n in FOUR))
    both = pa.concat_tables([label, pa.Table.from_pylist([own], schema=label.schema)])
    assert values(judge_score(rows({}), both)) == pytest.approx([7.0])
