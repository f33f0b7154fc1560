"""Pairs and groups over recorded runs, against the counts of their provenance."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trajstore
from trajstore import Pool
from trajstore.pairs import (
    GroupOptions,
    PairReport,
    StepPairOptions,
    TrajectoryPairOptions,
    group_advantages,
    rtmc_advantages,
    step_pairs,
    trajectory_pairs,
)

TAU = "source = 'tau-bench'"


@pytest.fixture(scope="module")
def store(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Pool:
    made = trajstore.open(tmp_path_factory.mktemp("real") / "pool", durable=False)
    folders = ("tau_bench", "nemo_gym/anyswe", "reflexion/hotpotqa", "mini_swe_agent")
    made.import_files([real_data / f for f in folders])
    return made


def read(store: Pool, where: str) -> tuple[pa.Table, pa.Table]:
    rows = store.query(f"select * from trajectories where {where}").read_all()
    inside = f"select trajectory_id from trajectories where {where}"
    steps = store.query(f"select * from steps where trajectory_id in ({inside})").read_all()
    return rows, steps


def paired(store: Pool, where: str, **options: Any) -> tuple[pa.Table, PairReport]:
    return trajectory_pairs(*read(store, where), options=TrajectoryPairOptions(**options))


@pytest.fixture(scope="module")
def mixed(real_data: Path) -> dict[str, list[float]]:
    """Rewards of the tau-bench tasks whose attempts differ, read from the file itself."""
    found: dict[str, list[float]] = {}
    for record in json.loads((real_data / "tau_bench/gpt-4o-airline.json").read_text()):
        found.setdefault(f"tau-bench/airline/{record['task_id']}", []).append(record["reward"])
    return {task: rewards for task, rewards in found.items() if len(set(rewards)) > 1}


def test_best_against_worst_gives_a_pair_for_each_of_the_26_mixed_tasks(
    store: Pool, mixed: dict[str, list[float]]
) -> None:
    pairs, report = paired(store, TAU)
    assert len(mixed) == 26
    assert sorted(pairs.column("task_id").to_pylist()) == sorted(mixed)
    assert set(pairs.column("chosen_reward").to_pylist()) == {1.0}
    assert set(pairs.column("rejected_reward").to_pylist()) == {0.0}
    assert report.tasks_dropped == {"no-contrast": 24}


def test_all_with_margin_gives_successes_times_failures_88(
    store: Pool, mixed: dict[str, list[float]]
) -> None:
    pairs, _ = paired(store, TAU, policy="all_margin")
    assert pairs.num_rows == 88
    expected = {task: rewards.count(1.0) * rewards.count(0.0) for task, rewards in mixed.items()}
    assert Counter(pairs.column("task_id").to_pylist()) == expected
    assert math.fsum(pairs.column("weight").to_pylist()) == pytest.approx(26)


def test_the_shared_prompt_is_the_system_message(store: Pool) -> None:
    pairs, report = paired(store, TAU)
    assert set(pairs.column("n_prompt_steps").to_pylist()) == {1}
    assert len(set(pairs.column("prompt_digest").to_pylist())) == 1
    assert report.other_start == 26


def test_no_step_pair_and_the_reason_for_each_task(store: Pool) -> None:
    """24 tasks without contrast; of the 26 others no two unlike runs share the user's opening."""
    pairs, report = step_pairs(*read(store, TAU))
    assert pairs.num_rows == 0
    assert report.tasks_dropped == {"no-contrast": 24, "only-system-shared": 24, "no-branch": 2}
    assert "no shared prefix beyond the system message" in report.explain()


def test_no_step_pair_at_any_margin(store: Pool) -> None:
    options = StepPairOptions(margin=0.0, policy="all_margin")
    assert step_pairs(*read(store, TAU), options=options)[0].num_rows == 0


def test_50_groups_of_which_10_pass_and_14_fail_as_a_whole(store: Pool) -> None:
    groups, report = group_advantages(read(store, TAU)[0])
    assert (report.groups, report.sizes) == (50, {4: 50})
    assert report.zero_variance == {"all_pass": 10, "all_fail": 14}
    assert groups.num_rows == 200


@pytest.mark.parametrize("variant", ["grpo", "rloo", "dr_grpo"])
@pytest.mark.parametrize("std", ["population", "sample"])
def test_advantages_of_every_group_sum_to_zero(store: Pool, variant: str, std: str) -> None:
    options = GroupOptions(variant=variant, std=std)  # type: ignore[arg-type]
    groups, _ = group_advantages(read(store, "true")[0], options=options)
    by_group: dict[str, list[float]] = {}
    for row in groups.to_pylist():
        by_group.setdefault(row["group_id"], []).append(row["advantage"])
    assert max(abs(math.fsum(a)) for a in by_group.values()) < 1e-9


def test_anyswe_is_one_group_of_25_with_11_successes(store: Pool) -> None:
    groups, report = group_advantages(read(store, "source_uri like '%/anyswe/%'")[0])
    assert (report.groups, report.sizes) == (1, {25: 1})
    assert groups.column("reward").to_pylist().count(1.0) == 11


def test_copies_in_hotpotqa_never_pair_with_themselves(store: Pool) -> None:
    """179 of 498 blocks repeat an earlier one; the importer drops them, the pairs must too."""
    rows, steps = read(store, "environment = 'hotpotqa'")
    solved = rows.filter(rows.column("success"))
    copies = solved.set_column(
        0, "trajectory_id", pa.array([f"copy-{i}" for i in range(solved.num_rows)])
    )
    pairs, report = trajectory_pairs(
        pa.concat_tables([rows, copies]),
        steps,
        options=TrajectoryPairOptions(policy="all_margin", prefix="actions"),
    )
    assert report.runs_dropped == {"duplicate": solved.num_rows}
    digests = {r["trajectory_id"]: r["source_digest"] for r in rows.to_pylist()}
    for pair in pairs.to_pylist():
        assert digests[pair["chosen_id"]] != digests[pair["rejected_id"]]


def test_trials_of_hotpotqa_were_given_other_prompts_by_their_reflections(store: Pool) -> None:
    """19 questions have a solved and an unsolved trial; the later one was shown reflections."""
    pairs, report = paired(store, "environment = 'hotpotqa'", policy="all_margin")
    assert pairs.num_rows == 0
    assert report.tasks_dropped["prompts-differ"] == 19


def test_unknown_outcomes_of_mini_swe_agent_enter_nothing(store: Pool) -> None:
    rows, steps = read(store, "source = 'mini-swe-agent'")
    unknown = {
        r["trajectory_id"] for r in rows.to_pylist() if r["success"] is None and r["reward"] is None
    }
    assert unknown
    groups, report = group_advantages(rows)
    assert unknown.isdisjoint(groups.column("trajectory_id").to_pylist())
    assert report.runs_dropped == {"unknown-outcome": len(unknown)}
    credit = rtmc_advantages(rows, steps)
    assert unknown.isdisjoint(credit.rows.column("trajectory_id").to_pylist())
    drops = trajectory_pairs(rows, steps)[1].run_drops
    assert set(drops.column("trajectory_id").to_pylist()) == unknown


def test_every_run_and_task_is_accounted_for(store: Pool) -> None:
    """Each task has a pair or a reason, whatever the policy."""
    for policy in ("best_worst", "all_margin", "topk_bottomk", "adjacent", "hard_negatives"):
        pairs, report = paired(store, "true", policy=policy)
        assert report.tasks_paired + report.task_drops.num_rows == report.tasks
        paired_ids = {*pairs.column("chosen_id").to_pylist()}
        paired_ids |= {*pairs.column("rejected_id").to_pylist()}
        assert paired_ids.isdisjoint(report.run_drops.column("trajectory_id").to_pylist())


def test_the_advantage_of_states_sums_to_zero_on_recorded_runs(store: Pool) -> None:
    rows, steps = read(store, TAU)
    credit = rtmc_advantages(rows, steps, kappa=0).rows
    by_task: dict[str, float] = {}
    tasks = {r["trajectory_id"]: r["task_id"] for r in rows.to_pylist()}
    for row in credit.to_pylist():
        task = tasks[row["trajectory_id"]]
        by_task[task] = by_task.get(task, 0.0) + row["value"]
    assert max(map(abs, by_task.values())) < 1e-9
