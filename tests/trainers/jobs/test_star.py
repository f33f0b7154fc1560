"""STaR and RFT: which runs are kept, and that a stopped job ends as one that was not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.jobs.conftest import MODEL, TRAINING, WriteJob
from trajstore.errors import TrainingError
from trajstore.rollouts import (
    CalculatorEnvironment,
    ScriptedPolicy,
    calculator_tasks,
    run_rollouts,
)
from trajstore.schema import Trajectory
from trajstore.store import Store
from trajstore.trainers import read_metrics
from trajstore.trainers.jobs import JobRun, run_job
from trajstore.trainers.jobs.rft import RftTable, actions_of, best_runs
from trajstore.trainers.jobs.star import StarTable, _converged, correct_runs

ROLLOUTS = """
[rollouts]
environment = "calculator"
kind = "arithmetic"
[rollouts.tasks]
count = 6
seed = 50
[rollouts.held_out]
count = 4
seed = 60
"""


def run(name: str, task: str = "t", *, success: bool = True, calls: int = 2, **more: Any) -> Any:
    return Trajectory(
        trajectory_id=name, task_id=task, source="s", success=success, n_tool_calls=calls, **more
    )


def test_the_shortest_right_runs_of_each_task_are_kept() -> None:
    runs = [
        run("long", n_agent_steps=3),
        run("short", n_agent_steps=2),
        run("wrong", success=False, n_agent_steps=1),
        run("clumsy", n_agent_steps=1, n_tool_errors=1),
        run("other", task="u", n_agent_steps=9),
        run("guess", task="v", calls=1, n_agent_steps=1),
    ]
    kept = correct_runs(runs, StarTable(per_task=2, fewest_calls=2))
    assert [r.trajectory_id for r in kept] == ["short", "long", "other"]


@pytest.mark.parametrize(
    ("rates", "stops"), [([0.3, 0.6], False), ([0.6, 0.605], True), ([0.6, 0.5], True)]
)
def test_it_stops_once_an_iteration_gains_too_little(rates: list[float], stops: bool) -> None:  # noqa: FBT001
    assert _converged(rates, 0.01) is stops


def test_the_best_of_each_strategy_are_kept() -> None:
    """The careful agent's runs at one task all do the same, so one of them is kept."""
    tasks = calculator_tasks(3, seed=9, kind="arithmetic")
    same = list(run_rollouts(CalculatorEnvironment, ScriptedPolicy("careful"), tasks, attempts=3))
    wordy = list(run_rollouts(CalculatorEnvironment, ScriptedPolicy("thorough"), tasks))
    kept = best_runs([*same, *wordy], RftTable(keep=2))
    assert [r.task_id for r in kept] == [t.task_id for t in _in_order(same) for _ in range(2)]
    assert all(r.success for r in kept)
    for first, second in zip(kept[::2], kept[1::2], strict=True):
        assert actions_of(first) != actions_of(second)
        assert first.n_agent_steps < second.n_agent_steps


def _in_order(runs: list[Trajectory]) -> list[Trajectory]:
    return list({r.task_id: r for r in runs}.values())


def test_a_higher_reward_comes_first_and_failures_only_where_asked_for() -> None:
    runs = [
        run("a", reward=0.5, n_agent_steps=1),
        run("b", reward=1.0, n_agent_steps=2),
        run("c", reward=2.0, success=False),
    ]
    wide = RftTable(keep=1, distinct=False)
    assert [r.trajectory_id for r in best_runs(runs, wide)] == ["b"]
    assert [r.trajectory_id for r in best_runs(runs, replace(wide, only_success=False))] == ["c"]


class StoppedError(Exception):
    """As if the machine had gone."""


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hasty scripted agent samples in place of the model: half of its runs are right."""

    def policy(job: JobRun, model: Any, version: str, **_: Any) -> Any:
        del model
        made = ScriptedPolicy("hasty")
        made.__class__ = type("Acting", (ScriptedPolicy,), {"version": job.version(version)})
        return made

    monkeypatch.setattr(JobRun, "policy", policy)


def job_parts(kind: str) -> tuple[str, ...]:
    own = "iterations = 2\ntolerance = -1\n" if kind == "star" else ""
    where = "[data]\nwhere = \"policy_version = 'careful'\"\n"
    return (TRAINING, ROLLOUTS, where, f"[{kind}]\n{own}")


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("kind", ["star", "rft"])
def test_rollouts_land_under_their_version_and_split(
    kind: str, write_job: WriteJob, tmp_path: Path, scripted: Path
) -> None:
    pytest.importorskip("accelerate")
    store = Store(tmp_path / "pool", durable=False)
    store.append(Store(scripted).scan())
    done = run_job(kind, write_job(*job_parts(kind), store=tmp_path / "pool"))
    found = store.query(
        "select policy_version, tags[1] split, count(*) n, count(distinct task_id) tasks "
        f"from trajectories where policy_version like '{kind}-%' and relation is null "
        "group by all order by all"
    ).read_all()
    versions = {"star": ["iteration-0", "iteration-1"], "rft": ["base"]}[kind]
    rows = {(r["policy_version"], r["split"]): (r["n"], r["tasks"]) for r in found.to_pylist()}
    for version in versions:
        assert rows[f"{kind}-s0/{version}", "train"] == (6, 6)
        assert rows[f"{kind}-s0/{version}", "held-out"] == (4, 4)
    assert done.model is not None
    if kind == "star":
        _hints_helped_and_are_gone(store)
    shared = store.query(
        "select task_id from trajectories where len(tags) > 0 group by 1 "
        "having count(distinct tags[1]) > 1"
    ).read_all()
    assert shared.num_rows == 0


def _hints_helped_and_are_gone(store: Store) -> None:
    found = list(store.scan("relation = 'rationalization'"))
    told = store.query("select count(*) n from messages where content like '%The answer is%'")
    assert found
    assert {r.policy_version for r in found} <= {f"star-s0/iteration-{n}-hinted" for n in (0, 1)}
    assert all("rationalised" in r.tags and r.success and r.parent_id for r in found)
    assert told.read_all().column("n").to_pylist() == [0]


@pytest.mark.usefixtures("able")
def test_a_stopped_star_ends_as_one_that_was_not(
    write_job: WriteJob, tmp_path: Path, scripted: Path
) -> None:
    pytest.importorskip("accelerate")

    def stop(what: str, done: int, of: int, numbers: Mapping[str, float]) -> None:
        del of, numbers
        if what == "training iteration-2" and done == 3:
            raise StoppedError

    ended = {}
    for name in ("whole", "broken"):
        store = Store(tmp_path / f"{name}-pool", durable=False)
        store.append(Store(scripted).scan())
        file = write_job(*job_parts("star"), name=name, store=tmp_path / f"{name}-pool")
        if name == "broken":
            with pytest.raises(StoppedError):
                run_job("star", file, progress=stop)
        ended[name] = run_job("star", file)
    whole, broken = ended["whole"].output, ended["broken"].output
    for part in ("iteration-1", "iteration-2"):
        weights = [(d / part / "model.safetensors").read_bytes() for d in (whole, broken)]
        assert weights[0] == weights[1]
    assert read_metrics(whole / "metrics.jsonl") == read_metrics(broken / "metrics.jsonl")
    assert ended["whole"].results == ended["broken"].results


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("kind", ["star", "rft"])
def test_a_job_that_has_ended_tells_the_same_again_and_logs_nothing(
    kind: str, write_job: WriteJob, tmp_path: Path, scripted: Path
) -> None:
    pytest.importorskip("accelerate")
    Store(tmp_path / "pool", durable=False).append(Store(scripted).scan())
    file = write_job(*job_parts(kind), store=tmp_path / "pool")
    done = run_job(kind, file)
    lines = read_metrics(done.output / "metrics.jsonl")
    assert run_job(kind, file) == done
    assert read_metrics(done.output / "metrics.jsonl") == lines


@pytest.mark.usefixtures("able")
def test_a_second_job_of_that_name_has_versions_of_its_own(
    write_job: WriteJob, tmp_path: Path, scripted: Path
) -> None:
    pytest.importorskip("accelerate")
    store = Store(tmp_path / "pool", durable=False)
    store.append(Store(scripted).scan())
    file = write_job(*job_parts("rft"), store=tmp_path / "pool")
    run_job("rft", file)
    run_job("rft", file, fresh=True)
    found = store.query(
        "select distinct split_part(policy_version, '/', 1) s from trajectories "
        "where policy_version like 'rft%' order by 1"
    ).read_all()
    assert found.column(0).to_pylist() == ["rft-s0", "rft-s0-2"]


def test_nothing_right_is_an_error_that_says_what_to_do(
    write_job: WriteJob, tmp_path: Path, scripted: Path
) -> None:
    pytest.importorskip("accelerate")
    store = Store(tmp_path / "pool", durable=False)
    store.append(Store(scripted).scan())
    short = ROLLOUTS.replace('"arithmetic"', '"arithmetic"\nmax_steps = 1\nmax_tokens = 2')
    parts = (TRAINING, short, "[star]\nrationalise = false\n")
    with pytest.raises(TrainingError, match="not one of 6 runs is right"):
        run_job("star", write_job(*parts, store=tmp_path / "pool", model=MODEL))
