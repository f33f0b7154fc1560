"""FutureWorld: runs are stored without outcome, labelled when the world answers, then selected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.filters.frames import asked, call, run, said
from trajstore import Label, Pool
from trajstore.filters import stage
from trajstore.pipeline import export_sft_from, label_from_file, write_rewards
from trajstore.pipeline.selecting import select


@pytest.fixture
def forecasts(pool: Pool) -> Pool:
    """Two forecasts of one question; nobody knows yet which is right."""
    for name, answer in (("yes", "It will rain."), ("no", "It will be dry.")):
        pool.append(
            [run(name, asked("Rain tomorrow?"), call("look", {}), said(answer), tools="[]")]
        )
    return pool


def taken(pool: Pool) -> list[str]:
    return select(pool, [stage("success")]).ids()


def test_before_the_world_answers_nothing_is_selected_and_the_reason_is_unknown(
    forecasts: Pool,
) -> None:
    selection = select(forecasts, [stage("success")])
    assert selection.ids() == []
    assert set(selection.dropped.column("reason").to_pylist()) == {"unknown-outcome"}
    assert write_rewards(forecasts, "react").without == 2


def test_after_it_answered_the_right_run_enters_selection_rewards_and_export(
    forecasts: Pool, tmp_path: Path
) -> None:
    verdicts = tmp_path / "weather.csv"
    verdicts.write_text("trajectory_id,success,reward\nyes,true,1\nno,false,0\n")
    label_from_file(forecasts, verdicts, evaluator="weather-service")
    assert taken(forecasts) == ["yes"]
    assert write_rewards(forecasts, "react").labels == 2
    report = export_sft_from(forecasts, tmp_path / "sft", to="trl")
    assert report.rows == 1


def test_the_rewards_come_back_in_one_query(forecasts: Pool) -> None:
    forecasts.label([Label(trajectory_id="yes", evaluator="world", success=True)])
    write_rewards(forecasts, "react")
    query = """
        SELECT t.trajectory_id, t.outcome_evaluator, round(l.value, 4)
        FROM trajectories t JOIN labels l USING (trajectory_id)
        WHERE l.name = 'reward' AND l.evaluator = 'trajstore/react'"""
    assert forecasts.sql(query).fetchall() == [("yes", "world", 0.98)]


def test_a_snapshot_from_before_the_answer_still_knows_nothing(forecasts: Pool) -> None:
    before = forecasts.snapshot()
    forecasts.label([Label(trajectory_id="yes", evaluator="world", success=True)])
    assert select(forecasts, [stage("success")], at=before).ids() == []
    assert taken(forecasts) == ["yes"]


def test_when_the_answer_is_corrected_the_newest_word_counts(forecasts: Pool) -> None:
    forecasts.label([Label(trajectory_id="yes", evaluator="world", success=True)])
    forecasts.label([Label(trajectory_id="yes", evaluator="world", success=False)])
    forecasts.label([Label(trajectory_id="no", evaluator="world", success=True)])
    assert taken(forecasts) == ["no"]


def test_a_composed_reward_ranks_late_outcomes_inside_a_selection(forecasts: Pool) -> None:
    forecasts.label([Label(trajectory_id="no", evaluator="world", success=True, value=0.5)])
    selection = select(forecasts, [stage("compose-reward", reward="react")])
    assert selection.rows.select(["trajectory_id", "score"]).to_pylist() == [
        {"trajectory_id": "no", "score": pytest.approx(0.48)}
    ]
