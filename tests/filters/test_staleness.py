from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import details, selected, summaries, why
from trajstore.errors import SelectionError
from trajstore.filters import stage

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
WEEK_S = 604_800


def aged(seconds: float, column: str = "ended_at") -> dict[str, Any]:
    return {column: NOW - timedelta(seconds=seconds)}


def test_a_policy_exactly_at_the_window_is_kept() -> None:
    """Algorithms B6 and case 56: current 10, at most 4 behind, version 6 kept, 5 dropped."""
    frame = summaries(*({"policy_version": f"iter-{v}"} for v in (10, 6, 5)))
    selection = selected(frame, stage("staleness", most=4, current=10))
    assert selection.ids() == ["a", "b"]
    assert why(selection) == {"c": "stale-policy"}
    assert details(selection) == {"c": "iter-5 5 versions behind"}


def test_the_newest_version_counts_where_no_current_one_is_given() -> None:
    frame = summaries(*({"policy_version": v} for v in ("step-9", "step-10", "step-12")))
    assert selected(frame, stage("staleness", most=2)).ids() == ["b", "c"]


def test_versions_without_a_number_are_unknown() -> None:
    frame = summaries({"policy_version": "main"}, {"policy_version": None}, {"policy_version": "7"})
    selection = selected(frame, stage("staleness", most=0))
    assert selection.ids() == ["c"]
    assert set(why(selection).values()) == {"unknown-policy-version"}


def test_versions_can_be_given_in_order() -> None:
    frame = summaries(*({"policy_version": v} for v in ("alpha", "beta", "gamma", "delta")))
    made = stage("staleness", most=1, order=["alpha", "beta", "gamma"], current="gamma")
    selection = selected(frame, made)
    assert selection.ids() == ["b", "c"]
    assert why(selection)["d"] == "unknown-policy-version"


def test_a_version_ahead_of_the_current_one_is_not_stale() -> None:
    frame = summaries({"policy_version": "12"})
    assert selected(frame, stage("staleness", most=0, current="10")).ids() == ["a"]


def test_a_current_version_that_says_nothing_is_refused() -> None:
    with pytest.raises(SelectionError, match="must be a text with a number, not 'main'"):
        stage("staleness", most=1, current="main")
    with pytest.raises(SelectionError, match="must be in order a, b, not 'c'"):
        stage("staleness", most=1, current="c", order=["a", "b"])
    with pytest.raises(SelectionError, match="0 or more, not -1"):
        stage("staleness", most=-1)


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(0, 40), min_size=1, max_size=9), st.integers(0, 9))
def test_the_window_agrees_with_a_plain_loop(versions: list[int | None], most: int) -> None:
    newest = max((v for v in versions if v is not None), default=0)
    expected = [v is not None and newest - v <= most for v in versions]
    frame = summaries(*({"policy_version": None if v is None else f"v{v}"} for v in versions))
    kept = selected(frame, stage("staleness", most=most)).ids()
    assert kept == [chr(97 + i) for i, stays in enumerate(expected) if stays]


def test_a_run_exactly_as_old_as_its_time_to_live_is_active() -> None:
    """Algorithms B6: ttl 7 days, age 604800 s active, 604801 s expired."""
    frame = summaries(aged(WEEK_S), aged(WEEK_S + 1))
    selection = selected(frame, stage("expiry", ttl_s=WEEK_S, now=NOW))
    assert selection.ids() == ["a"]
    assert why(selection) == {"b": "expired"}


def test_age_counts_from_the_end_else_the_start_else_the_import() -> None:
    old, young = aged(WEEK_S * 2), aged(10)
    frame = summaries(
        {"ended_at": young["ended_at"], "started_at": old["ended_at"]},
        {"started_at": young["ended_at"], "imported_at": old["ended_at"]},
        {"imported_at": young["ended_at"]},
        {"started_at": old["ended_at"], "imported_at": young["ended_at"]},
        {},
    )
    selection = selected(frame, stage("expiry", ttl_s=WEEK_S, now=NOW))
    assert selection.ids() == ["a", "b", "c"]
    assert why(selection) == {"d": "expired", "e": "unknown-age"}


def test_a_run_at_its_own_expiry_is_active_and_after_it_is_not() -> None:
    frame = summaries({"expires_at": NOW}, {"expires_at": NOW - timedelta(microseconds=1)}, {})
    assert selected(frame, stage("expiry", now=NOW)).ids() == ["a", "c"]


def test_the_moment_is_settled_when_the_stage_is_made() -> None:
    before = datetime.now(UTC)
    told = stage("expiry", ttl_s=60).parameters()["now"]
    assert before <= datetime.fromisoformat(told) <= datetime.now(UTC)


def test_a_moment_without_time_zone_is_in_utc() -> None:
    assert stage("expiry", now="2026-01-01").parameters()["now"] == "2026-01-01T00:00:00+00:00"


def test_a_moment_that_is_none_is_refused() -> None:
    with pytest.raises(SelectionError, match="'soon' is no moment; write it like"):
        stage("expiry", now="soon")
    with pytest.raises(SelectionError, match="0 or more"):
        stage("expiry", ttl_s=-1)


def test_runs_of_another_environment_version_go() -> None:
    frame = summaries({"environment_version": "2"}, {"environment_version": "1"}, {})
    selection = selected(frame, stage("environment-version", current="2"))
    assert selection.ids() == ["a"]
    assert why(selection) == {"b": "old-environment", "c": "unknown-environment-version"}


def test_each_environment_can_have_a_version_of_its_own() -> None:
    frame = summaries(
        {"environment": "web", "environment_version": "2"},
        {"environment": "web", "environment_version": "1"},
        {"environment": "shop", "environment_version": "1"},
        {},
    )
    selection = selected(frame, stage("environment-version", current={"web": "2"}))
    assert selection.ids() == ["a", "c", "d"]


def test_a_better_success_at_the_same_task_supersedes() -> None:
    """Case 23: supersession needs the same task, the same version, a better outcome."""
    won = {"success": True, "reward": 1.0, "environment_version": "1"}
    frame = summaries(
        {**won, "n_tool_calls": 4},
        {**won, "n_tool_calls": 6},
        {**won, "n_tool_calls": 6, "environment_version": "2"},
        {**won, "n_tool_calls": 9, "task_id": "other"},
        {**won, "n_tool_calls": 9, "reward": 2.0},
        {**won, "n_tool_calls": 4},
        {"success": False, "n_tool_calls": 30},
        {"n_tool_calls": 30},
    )
    selection = selected(frame, stage("superseded"))
    assert why(selection) == {"b": "superseded"}
    assert details(selection) == {"b": "a"}


def test_a_run_of_unknown_cost_neither_supersedes_nor_is_superseded() -> None:
    won = {"success": True, "reward": 1.0}
    frame = summaries({**won, "cost_usd": 3.0}, won, {**won, "cost_usd": 2.0})
    assert details(selected(frame, stage("superseded", cost="cost_usd"))) == {"a": "c"}
