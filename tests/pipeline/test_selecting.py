"""Selections over real runs in a real store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pytest

from trajstore import Label, Pool
from trajstore import open as open_store
from trajstore.errors import QueryError, SelectionError
from trajstore.filters import (
    SUMMARY_SCHEMA,
    Selection,
    run_stages,
    stage,
    stages_from,
)
from trajstore.pipeline.selecting import StoreSteps, select, summary_frame
from trajstore.testing import sample_trajectories


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> Pool:
    """The 200 attempts of tau-bench, 84 of them successful (PROVENANCE)."""
    pool = open_store(tmp_path_factory.mktemp("airline") / "pool", durable=False)
    pool.import_files(real_data / "tau_bench" / "gpt-4o-airline.json")
    return pool


def test_tau_bench_has_84_successes_and_116_failures(airline: Pool) -> None:
    selection = select(airline, [stage("success")])
    assert len(selection) == 84
    assert selection.funnel[0].dropped == {"failure": 116}


def test_tasks_that_can_give_pairs_have_an_attempt_above_and_one_below_their_mean(
    airline: Pool,
) -> None:
    """PROVENANCE: of 50 groups 10 are all success, 14 all failure, 26 mixed."""
    above = select(airline, [stage("above-task-mean")])
    assert pc.count_distinct(above.rows.column("task_id")).as_py() == 26
    assert pc.all(above.rows.column("success")).as_py()


def test_unknown_outcomes_of_mini_swe_agent_enter_nothing(pool: Pool, real_data: Path) -> None:
    """PROVENANCE: resolved true 3, false 4, unknown 3 of format 1.1, and 3 older runs unknown."""
    pool.import_files(real_data / "mini_swe_agent")
    both = select(pool, [stage("success", failures=True)])
    assert len(both) == 7
    assert both.funnel[0].dropped == {"unknown-outcome": 6}
    assert len(select(pool, [stage("success")])) == 3


def test_the_group_of_25_has_11_successes(pool: Pool, real_data: Path) -> None:
    """PROVENANCE: one task, five harnesses, 25 attempts, 11 with reward 1."""
    pool.import_files(real_data / "nemo_gym" / "anyswe")
    assert len(select(pool, [stage("reward", least=1.0)])) == 11
    assert select(pool, []).rows.column("task_id").unique().to_pylist() == [
        "swe-bench/astropy__astropy-12907"
    ]


def test_the_same_snapshot_and_recipe_give_the_same_bytes(airline: Pool, tmp_path: Path) -> None:
    recipe = [
        {"stage": "success"},
        {"stage": "loops"},
        {"stage": "integrity"},
        {"stage": "where", "condition": "n_tool_calls > 3"},
    ]
    for name in ("one", "two"):
        fresh = open_store(airline.root.uri)
        select(fresh, stages_from(recipe)).write(tmp_path / f"{name}.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    again = Selection.read(tmp_path / "one.parquet")
    assert select(airline, stages_from(again.recipe), at=again.snapshot) == again


def test_late_outcomes_count_from_their_snapshot_on(pool: Pool) -> None:
    """Delayed outcomes are labelled when the world answers, then enter selection."""
    runs = sample_trajectories(3)
    pool.append(runs)
    before = pool.snapshot()
    unknown = next(r.trajectory_id for r in runs if r.success is None)
    pool.label([Label(trajectory_id=unknown, success=True, evaluator="world")])
    assert unknown in select(pool, [stage("success")]).ids()
    earlier = select(pool, [stage("success")], at=before)
    assert unknown not in earlier.ids()
    assert earlier.snapshot == before


def test_a_reader_is_selected_from_like_its_store(airline: Pool) -> None:
    stages = [stage("success"), stage("tools", required=["cancel_reservation"])]
    assert select(airline.reader(), stages) == select(airline, stages)


def test_summary_rows_have_the_declared_schema(airline: Pool) -> None:
    assert summary_frame(airline.reader()).rows.schema == SUMMARY_SCHEMA


def test_an_empty_store_gives_an_empty_selection(pool: Pool) -> None:
    stages = [
        stage("success"),
        stage("loops"),
        stage("integrity"),
        stage("where", condition="true"),
    ]
    assert len(select(pool, stages)) == 0


def test_whole_runs_come_in_the_order_of_their_ids(airline: Pool) -> None:
    steps = StoreSteps(airline.reader())
    ids = select(airline, []).ids()[::-1]
    assert [t.trajectory_id for t in steps.trajectories(ids)] == ids
    assert list(steps.trajectories(["no such id"])) == []


def test_stages_reach_the_store_by_select_only(airline: Pool) -> None:
    steps = StoreSteps(airline.reader())
    assert steps.sql("SELECT count(*) AS n FROM tool_calls").column("n").to_pylist() == [1164]
    with pytest.raises(QueryError):
        steps.sql("DELETE FROM trajectories")


def test_a_selection_can_start_from_another_one(airline: Pool) -> None:
    first = select(airline, [stage("success")])
    listed = ", ".join(f"'{i}'" for i in first.ids())
    condition = f"trajectory_id IN ({listed})"
    again = select(airline, [stage("where", condition=condition), stage("success")])
    assert again.rows == first.rows


def test_a_stage_with_a_fault_in_its_condition_names_it(airline: Pool) -> None:
    with pytest.raises(QueryError, match="rewrd"):
        run_stages(summary_frame(airline.reader()), [stage("where", condition="rewrd > 1")])
    with pytest.raises(SelectionError, match="no stage"):
        stages_from([{"stage": "nonsense"}])


@pytest.mark.slow
def test_a_large_store_is_selected_from_in_bounded_memory(tmp_path: Path) -> None:
    """300,000 summaries take under 1.5 KB each at the peak, however large the runs are."""
    program = Path(__file__).with_name("select_many.py")
    out = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "pool"), "300000"],
        capture_output=True,
        check=True,
        text=True,
    )
    kept, grown_mb = out.stdout.split()
    assert int(kept) > 0
    assert float(grown_mb) < 450
