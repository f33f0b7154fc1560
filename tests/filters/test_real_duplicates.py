"""Duplicates, contamination and splits over recorded runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.filters.frames import selected
from trajstore import open as open_store
from trajstore.filters import Frame, stage
from trajstore.filters.duplicates import ExactDuplicates, NearDuplicates
from trajstore.filters.splits import find_leaks
from trajstore.filters.task_groups import task_groups
from trajstore.pipeline.selecting import summary_frame

pytest.importorskip("numpy")


def frame_over(folder: Path, *paths: Path) -> Frame:
    pool = open_store(folder / "pool", durable=False)
    for path in paths:
        pool.import_files(path)
    return summary_frame(pool.reader())


@pytest.fixture(scope="module")
def airline(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Frame:
    """200 runs, 4 at each of 50 tasks."""
    return frame_over(tmp_path_factory.mktemp("airline"), real_data / "tau_bench")


@pytest.fixture(scope="module")
def hotpot(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Frame:
    """319 different attempts at 100 questions."""
    return frame_over(tmp_path_factory.mktemp("hotpot"), real_data / "reflexion" / "hotpotqa")


def test_held_out_airline_tasks_are_found_by_id_and_by_goal(airline: Frame) -> None:
    goal = airline.steps.sql(
        "SELECT goal FROM trajectories WHERE task_id = 'tau-bench/airline/0' LIMIT 1"
    )["goal"][0]
    made = stage("contamination", tasks=["tau-bench/airline/7"], goals=[str(goal)])
    selection = selected(airline, made)
    assert selection.funnel[0].dropped == {"held-out-goal": 4, "held-out-task": 4}


def test_no_two_airline_runs_did_exactly_the_same(airline: Frame) -> None:
    """The simulated user speaks differently in every attempt, and the agent answers in words."""
    actions = airline.steps.sql(
        "SELECT trajectory_id, string_agg(coalesce(text, '') || CAST(tool_calls AS VARCHAR), '|' "
        "ORDER BY step_index) AS did FROM steps WHERE actor = 'agent' GROUP BY ALL"
    )
    assert len(actions["did"].unique()) == 200
    assert ExactDuplicates().groups(airline).num_rows == 0


def test_repeated_questions_are_answered_with_the_same_searches(hotpot: Frame) -> None:
    """PROVENANCE: 498 blocks, of which 179 are byte-identical and were not imported again.

    Among the other 319 some runs make the same calls although thoughts and results differ; a
    grouping in SQL counts them.
    """
    same = hotpot.steps.sql(
        "SELECT count(*) - count(DISTINCT (task_id, did)) AS gone FROM ("
        "SELECT task_id, trajectory_id, list((c.name, c.arguments, c.arguments_raw) "
        "ORDER BY step_index) AS did FROM ("
        "SELECT task_id, s.trajectory_id, step_index, unnest(tool_calls) AS c FROM steps s "
        "JOIN trajectories USING (trajectory_id) WHERE actor = 'agent') GROUP BY ALL)"
    )["gone"][0]
    assert hotpot.rows.num_rows == 319
    selection = selected(hotpot, stage("exact-duplicates"))
    assert selection.dropped.num_rows == same.as_py() > 0


def test_near_duplicates_of_real_runs_are_really_near(hotpot: Frame) -> None:
    groups = NearDuplicates(threshold=0.6).groups(hotpot)
    gone = groups.filter(pc.invert(groups["kept"]))
    assert gone.num_rows > 0
    assert pc.min(gone["similarity"]).as_py() >= 0.6
    exact = ExactDuplicates().groups(hotpot)
    assert gone.num_rows >= exact.num_rows - len(exact["cluster"].unique())


def test_airline_tasks_that_share_a_prompt_are_one_group(airline: Frame) -> None:
    """Tasks 47 and 49 are opened with the same words in one attempt each; the rest differ."""
    groups = task_groups(airline)
    assert len(groups.unique()) == 49
    pair = airline.rows.append_column("group", groups).filter(
        pc.equal(groups, "tau-bench/airline/47")
    )
    assert set(pair["task_id"].to_pylist()) == {"tau-bench/airline/47", "tau-bench/airline/49"}


def test_a_split_of_airline_runs_does_not_leak(airline: Frame) -> None:
    selection = selected(airline, stage("split", shares={"val": 0.2}), stage("leak-check"))
    sides = selection.rows.group_by("split").aggregate([("task_id", "count_distinct")])
    counts = dict(zip(*(sides[n].to_pylist() for n in sides.column_names), strict=True))
    assert sum(counts.values()) == 50
    assert counts["val"] >= 5


def test_a_split_by_attempts_of_airline_runs_leaks_every_task(airline: Frame) -> None:
    """Case 15."""
    names = pa.array(["val" if a == 0 else "train" for a in airline.rows["attempt"].to_pylist()])
    leaks = find_leaks(Frame(airline.rows.append_column("split", names), airline.steps))
    assert leaks["kind"].to_pylist().count("task") == 50
    assert leaks["kind"].to_pylist().count("goal") == 50


@pytest.fixture(scope="module")
def both(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Frame:
    return frame_over(
        tmp_path_factory.mktemp("both"), real_data / "tau_bench", real_data / "tau2_bench"
    )


def test_tasks_that_a_later_benchmark_took_over_are_found(both: Frame) -> None:
    """tau2-bench reworded some airline tasks of tau-bench; two keep nearly all of their words."""
    rows = both.rows.append_column("group", task_groups(both))
    sources = rows.group_by("group").aggregate([("source", "count_distinct")])
    shared = sources.filter(pc.greater(sources["source_count_distinct"], 1))
    assert sorted(shared["group"].to_pylist()) == ["tau-bench/airline/0", "tau-bench/airline/27"]
