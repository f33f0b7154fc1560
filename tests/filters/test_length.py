from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import selected, summaries, why
from trajstore.errors import SelectionError
from trajstore.filters import stage

BOUNDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "steps": ({"n_steps": 7}, "too-few-steps", "too-many-steps"),
    "agent-steps": ({"n_agent_steps": 7}, "too-few-agent-steps", "too-many-agent-steps"),
    "tool-calls": ({"n_tool_calls": 7}, "too-few-tool-calls", "too-many-tool-calls"),
    "tokens": (
        {"prompt_tokens": 4, "completion_tokens": 3},
        "too-few-tokens",
        "too-many-tokens",
    ),
    "completion-tokens": (
        {"completion_tokens": 7},
        "too-few-completion-tokens",
        "too-many-completion-tokens",
    ),
    "seconds": ({"duration_s": 7.0}, "too-fast", "too-slow"),
    "cost": ({"cost_usd": 7.0}, "too-cheap", "too-costly"),
    "size": ({"size_bytes": 7}, "too-small", "too-large"),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_run_on_either_bound_stays(name: str) -> None:
    row, _, _ = BOUNDS[name]
    assert selected(summaries(row), stage(name, least=7, most=7)).ids() == ["a"]


@pytest.mark.parametrize("name", BOUNDS)
def test_a_run_outside_goes_for_the_bound_it_breaks(name: str) -> None:
    row, too_few, too_many = BOUNDS[name]
    assert why(selected(summaries(row), stage(name, least=8))) == {"a": too_few}
    assert why(selected(summaries(row), stage(name, most=6))) == {"a": too_many}


@pytest.mark.parametrize("name", ["tokens", "completion-tokens", "seconds", "cost"])
def test_an_unknown_number_does_not_fit(name: str) -> None:
    assert why(selected(summaries({}), stage(name, most=9))) == {"a": f"unknown-{name}"}


def test_tokens_are_unknown_where_one_of_the_two_is() -> None:
    row = {"prompt_tokens": 4}
    assert why(selected(summaries(row), stage("tokens", least=1))) == {"a": "unknown-tokens"}


def test_fractions_bound_whole_numbers_exactly() -> None:
    frame = summaries({"n_steps": 3}, {"n_steps": 4})
    assert selected(frame, stage("steps", most=3.5)).ids() == ["a"]


def test_no_bound_is_refused() -> None:
    with pytest.raises(SelectionError, match="'cost' needs a bound: least, most or both"):
        stage("cost")


def test_bounds_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(SelectionError, match="keeps nothing: least 9 is above most 3"):
        stage("steps", least=9, most=3)


@settings(deadline=None)
@given(
    st.lists(st.none() | st.floats(-9, 9), max_size=9),
    st.floats(-9, 9),
    st.floats(0, 9),
)
def test_bounds_keep_what_a_plain_loop_keeps(
    costs: list[float | None], least: float, width: float
) -> None:
    frame = summaries(*({"cost_usd": c} for c in costs))
    kept = selected(frame, stage("cost", least=least, most=least + width)).ids()
    expected = [c is not None and least <= c <= least + width for c in costs]
    assert kept == [chr(97 + i) for i, fits in enumerate(expected) if fits]
