from __future__ import annotations

from pathlib import Path

import pytest

from tests.filters.frames import asked, run, selected, stored, summaries, why
from trajstore import Label, Pool
from trajstore.errors import QueryError, SelectionError
from trajstore.filters import col, run_stages, stage
from trajstore.filters.where import Keep, Where
from trajstore.pipeline.selecting import select

RUNS = (
    run("a", asked("Book a flight"), goal="Book a flight", reward=1.0),
    run("b", asked("Cancel"), goal="Cancel it", reward=0.0),
    run("c", asked("?")),
)


def test_where_can_name_columns_with_long_text(tmp_path: Path) -> None:
    selection = selected(stored(tmp_path, *RUNS), stage("where", condition="goal LIKE '%flight%'"))
    assert selection.ids() == ["a"]
    assert why(selection) == {"b": "condition-false", "c": "condition-unknown"}


def test_where_can_ask_for_steps(tmp_path: Path) -> None:
    condition = "trajectory_id IN (SELECT trajectory_id FROM steps WHERE text = 'Cancel')"
    assert selected(stored(tmp_path, *RUNS), stage("where", condition=condition)).ids() == ["b"]


def test_all_runs_with_some_score_are_one_expression(pool: Pool) -> None:
    """Case 69: "all traces with score = x" must be possible."""
    pool.append(RUNS)
    pool.label(
        Label(trajectory_id=i, name="helpful", value=v, evaluator="me")
        for i, v in (("a", 3), ("b", 5))
    )
    condition = (
        "trajectory_id IN (SELECT trajectory_id FROM labels WHERE name = 'helpful' AND value = 5)"
    )
    assert select(pool, [stage("where", condition=condition)]).ids() == ["b"]


def test_where_takes_an_expression_and_keeps_it_as_sql(tmp_path: Path) -> None:
    made = Where(col("reward") > 0.5)
    assert made.parameters() == {"condition": '("reward" > CAST(0.5 AS DOUBLE))'}
    assert selected(stored(tmp_path, *RUNS), made).ids() == ["a"]


def test_where_sees_the_effective_outcome(pool: Pool) -> None:
    pool.append(RUNS)
    pool.label([Label(trajectory_id="c", success=True, evaluator="late")])
    assert select(pool, [stage("where", condition="success")]).ids() == ["c"]


@pytest.mark.parametrize(
    "condition",
    ["reward >", "no_such_column = 1", "1=1); DROP VIEW trajectories; --", "getenv('HOME') = ''"],
)
def test_where_lets_nothing_but_a_condition_through(tmp_path: Path, condition: str) -> None:
    with pytest.raises(QueryError):
        selected(stored(tmp_path, *RUNS), stage("where", condition=condition))


def test_a_comment_at_the_end_of_a_condition_does_no_harm(tmp_path: Path) -> None:
    assert selected(stored(tmp_path, *RUNS), Where("reward > 0.5 -- good")).ids() == ["a"]
    assert selected(summaries({"reward": 1.0}), Keep("reward > 0.5 -- good")).ids() == ["a"]


def test_keep_looks_at_the_rows_at_hand_only() -> None:
    frame = summaries({"reward": 1.0}, {"reward": 0.0}, {})
    selection = selected(
        frame, stage("keep", condition="reward > (SELECT avg(reward) FROM rows_at_hand)")
    )
    assert selection.ids() == ["a"]
    assert why(selection) == {"b": "condition-false", "c": "condition-unknown"}


@pytest.mark.parametrize(
    "condition",
    [
        "no_such_column = 1",
        "reward >",
        "1=1); ATTACH 'x'; --",
        "(SELECT count(*) FROM read_text('/etc/hostname')) = 1",
        "(SELECT count(*) FROM rows) = 1",
    ],
)
def test_keep_reaches_nothing_else(condition: str) -> None:
    with pytest.raises(QueryError):
        selected(summaries({"reward": 1.0}), stage("keep", condition=condition))


def test_an_empty_condition_is_refused() -> None:
    with pytest.raises(SelectionError, match="needs a condition, such as"):
        stage("where", condition=" ")


def test_where_and_keep_agree_on_summary_columns(tmp_path: Path) -> None:
    frame = stored(tmp_path, *RUNS)
    condition = "reward >= 0 AND n_steps = 1"
    assert run_stages(frame, [Where(condition)]).ids() == run_stages(frame, [Keep(condition)]).ids()
