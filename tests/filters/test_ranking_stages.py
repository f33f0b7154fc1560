"""What holds for every stage that ranks, samples or chooses tasks."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import NoSteps, selected, summaries, why
from trajstore.filters import Frame, Stage, stage, usage
from trajstore.testing import assert_tables_equal

MADE: list[Stage] = [
    stage("rank", cost="weighted", weights={"tool-calls": 1, "tokens": 0.5}),
    stage("efficient", least=0.5, cost="seconds"),
    stage("pareto", over=["tool-calls", "cost"]),
    stage("top-n", n=2, failures=True),
    stage("best-of-n", attempts=3, keep=2, distinct=False),
    stage("per-task-cap", most=2, seed=5),
    stage("sample", fraction=0.5, weight="reward", seed=5),
    stage("balanced", by="agent", each=2),
    stage("stratified", n=5, by=["agent", "success"], share="equal"),
    stage("pass-rate", above=0.1, below=0.9, passed="reward", pass_threshold=0.5),
    stage("curriculum", n=2, by="target", domain="environment", shares={"web": 1.0, "code": 2.0}),
    stage("curriculum", by="variance", policies=["p1"]),
    stage("resample-on-correct", n=3, short="drop"),
    stage("diverse", k=2, over="embedding", method="dpp"),
]

every = pytest.mark.parametrize("made", MADE, ids=lambda s: s.name)

RUN = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from("st"),
        "success": st.sampled_from([True, False, None]),
        "reward": st.sampled_from([None, 0.0, 0.5, 1.0, float("nan")]),
        "agent": st.sampled_from(["a", "b", None]),
        "environment": st.sampled_from(["web", "code", "game", None]),
        "policy_version": st.sampled_from(["p0", "p1", None]),
        "attempt": st.sampled_from([None, 0, 1]),
        "n_tool_calls": st.integers(0, 3),
        "n_tool_errors": st.integers(0, 3),
        "n_agent_steps": st.integers(0, 5),
        "n_format_errors": st.integers(0, 2),
        "prompt_tokens": st.sampled_from([None, 100]),
        "completion_tokens": st.sampled_from([None, 10]),
        "cost_usd": st.sampled_from([None, 0.0, 0.5]),
        "duration_s": st.sampled_from([None, 1.0, 2.0]),
    }
)


def frame_of(runs: list[dict[str, Any]]) -> Frame:
    rows = summaries(*runs).rows
    vectors = [[float(i % 3), 1.0] if i % 5 else None for i in range(len(runs))]
    column = pa.array(vectors, pa.list_(pa.float32()))
    return Frame(rows.append_column("embedding", column), NoSteps())


@every
def test_parameters_are_json_and_make_the_stage_again(made: Stage) -> None:
    text = json.dumps(made.parameters())
    again = stage(made.name, **json.loads(text))
    assert again.parameters() == made.parameters()
    assert made.name in usage(made.name)


@every
@settings(max_examples=12, deadline=None)
@given(st.lists(RUN, max_size=14))
def test_every_run_is_kept_or_dropped_for_a_reason(made: Stage, runs: list[dict[str, Any]]) -> None:
    frame = frame_of(runs)
    selection = selected(frame, made)
    reasons = why(selection)
    assert sorted([*selection.ids(), *reasons]) == sorted(frame.rows["trajectory_id"].to_pylist())
    assert all(reasons.values())


@every
@settings(max_examples=8, deadline=None)
@given(st.lists(RUN, max_size=14))
def test_the_same_rows_are_kept_every_time_and_nothing_of_them_changes(
    made: Stage, runs: list[dict[str, Any]]
) -> None:
    frame = frame_of(runs)
    one, other = selected(frame, made), selected(frame, made)
    assert_tables_equal(one.rows, other.rows)
    assert_tables_equal(one.dropped, other.dropped)
    kept = pc.is_in(frame.rows["trajectory_id"], value_set=one.rows["trajectory_id"])
    before = frame.rows.filter(kept)
    assert_tables_equal(one.rows.select(before.column_names), before)


@every
def test_no_rows_are_no_rows(made: Stage) -> None:
    empty = frame_of([]).rows.slice(0, 0)
    selection = selected(Frame(empty, NoSteps()), made)
    assert (len(selection), selection.dropped.num_rows) == (0, 0)


@every
def test_a_stage_can_follow_itself(made: Stage) -> None:
    """Columns that it adds are replaced, not doubled."""
    runs = [{"success": i % 2 == 0, "reward": i / 4, "agent": "a"} for i in range(6)]
    frame = frame_of([{"environment": "web", "policy_version": "p1"} | r for r in runs])
    names = selected(frame, made, made).rows.column_names
    assert len(names) == len(set(names))


SUCCESSES_ONLY = [s for s in MADE if s.name in {"efficient", "pareto"}] + [stage("top-n", n=3)]


@pytest.mark.parametrize("made", SUCCESSES_ONLY, ids=lambda s: s.name)
@settings(max_examples=12, deadline=None)
@given(st.lists(RUN, max_size=14))
def test_what_is_kept_for_its_efficiency_has_succeeded(
    made: Stage, runs: list[dict[str, Any]]
) -> None:
    selection = selected(frame_of(runs), made)
    assert set(selection.rows["success"].to_pylist()) <= {True}
    named = why(selection)
    for row in frame_of(runs).rows.to_pylist():
        expected = {False: "failure", None: "unknown-outcome"}.get(row["success"])
        assert expected is None or named[row["trajectory_id"]] == expected
