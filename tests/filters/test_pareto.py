from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import details, selected, summaries, why
from tests.filters.test_efficiency import worked_example
from trajstore.errors import SelectionError
from trajstore.filters import stage
from trajstore.filters.pareto import pareto_front


def test_the_worked_example_of_the_front() -> None:
    """a1 needs as many calls as a5 and more tokens; a3 failed; the others trade one for another."""
    selection = selected(worked_example(), stage("pareto", over=["tool-calls", "tokens"]))
    assert selection.ids() == ["a2", "a4", "a5"]
    assert why(selection) == {"a1": "dominated", "a3": "failure"}
    assert details(selection)["a1"] == "a5"


def test_equal_runs_are_on_the_front_together() -> None:
    frame = summaries(*[{"success": True, "reward": 1.0, "n_tool_calls": 3}] * 3)
    assert pareto_front(frame.rows).to_pylist() == [0, 1, 2]


def test_each_task_has_a_front_of_its_own() -> None:
    frame = summaries(
        {"task_id": "s", "success": True, "n_tool_calls": 1},
        {"task_id": "t", "success": True, "n_tool_calls": 9},
    )
    assert selected(frame, stage("pareto")).ids() == ["a", "b"]


def test_an_unknown_cost_counts_as_the_highest() -> None:
    frame = summaries({"success": True, "duration_s": None}, {"success": True, "duration_s": 100.0})
    assert pareto_front(frame.rows, ["seconds"]).to_pylist() == [1, 1]


def test_an_unknown_reward_counts_as_the_lowest() -> None:
    frame = summaries({"success": True, "reward": None}, {"success": True, "reward": -5.0})
    assert pareto_front(frame.rows, ["seconds"]).to_pylist() == [1, 1]


def test_an_unknown_outcome_is_never_on_the_front() -> None:
    frame = summaries({"success": None, "n_tool_calls": 1}, {"success": True, "n_tool_calls": 5})
    selection = selected(frame, stage("pareto"))
    assert (selection.ids(), why(selection)) == (["b"], {"a": "unknown-outcome"})


@pytest.mark.parametrize("over", [[], ["weight"]])
def test_costs_that_are_none_are_refused(over: list[str]) -> None:
    with pytest.raises(SelectionError, match="tool-calls"):
        pareto_front(summaries({"success": True}).rows, over)


RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "task_id": st.sampled_from("st"),
            "success": st.sampled_from([True, True, True, False, None]),
            "reward": st.sampled_from([None, 0.0, 1.0]),
            "n_tool_calls": st.integers(0, 3),
            "duration_s": st.sampled_from([None, 1.0, 2.0, 3.0]),
        }
    ),
    max_size=14,
)


def point(row: Mapping[str, Any]) -> tuple[float, ...]:
    worst = float("inf")
    reward, seconds = row["reward"], row["duration_s"]
    return (
        worst if reward is None else -reward,
        row["n_tool_calls"],
        worst if seconds is None else seconds,
    )


def beats(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    a, b = point(one), point(other)
    same = one["task_id"] == other["task_id"]
    return same and a != b and all(x <= y for x, y in zip(a, b, strict=True))


@settings(max_examples=80, deadline=None)
@given(RUNS)
def test_the_front_is_what_comparing_all_pairs_finds(runs: list[dict[str, Any]]) -> None:
    rows = summaries(*runs).rows
    above = pareto_front(rows, ["tool-calls", "seconds"]).to_pylist()
    listed = rows.to_pylist()
    good = [r for r in listed if r["success"]]
    for at, row in enumerate(listed):
        if not row["success"]:
            assert above[at] is None
        elif any(beats(other, row) for other in good):
            assert beats(listed[above[at]], row)
            assert above[above[at]] == above[at]
        else:
            assert above[at] == at
