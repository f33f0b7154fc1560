from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.atif import IMPORTER
from trajstore.importers.harbor import is_config, is_trial, labels, runs_of, trial_of
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Label, Trajectory, finish

TRIAL = {
    "id": "5f0c1f9e-0000-4000-8000-000000000001",
    "task_name": "hello-world",
    "trial_name": "hello-world__abc",
    "source": "terminal-bench",
    "task_checksum": "f00d",
    "agent_info": {"name": "terminus-2", "version": "2.0.0"},
    "agent_result": {"n_input_tokens": 982, "rollout_details": [{"completion_token_ids": [[1]]}]},
    "verifier_result": {"rewards": {"reward": 1.0}},
    "exception_info": None,
    "started_at": "2026-01-02T03:04:05Z",
    "finished_at": "2026-01-02T03:14:05Z",
    "agent_execution": {
        "started_at": "2026-01-02T03:05:00Z",
        "finished_at": "2026-01-02T03:07:30Z",
    },
}
OPTIONS = ImportOptions()


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def items(path: Path, options: ImportOptions = OPTIONS) -> list[Item]:
    return list(IMPORTER.read(Source(path), options))


def outcomes(path: Path, options: ImportOptions = OPTIONS) -> list[Label]:
    return [i for i in items(path, options) if isinstance(i, Label)]


def run_of(path: Path) -> Trajectory:
    return finish(next(i for i in items(path) if isinstance(i, Trajectory)))


@pytest.fixture
def trial(real_data: Path, tmp_path: Path) -> Path:
    """A trial folder as Harbor lays it out; the path of its result."""
    (tmp_path / "agent").mkdir()
    golden = real_data / "atif/harbor_golden/terminus_2/hello-world-timeout.trajectory.json"
    shutil.copy(golden, tmp_path / "agent" / "trajectory.json")
    return write(tmp_path / "result.json", TRIAL)


def run_path(result: Path) -> Path:
    return result.parent / "agent" / "trajectory.json"


def test_the_result_tells_task_status_and_times(trial: Path) -> None:
    run = run_of(run_path(trial))
    assert run.task_id == "terminal-bench/hello-world"
    assert (run.environment, run.status, run.error) == ("terminal-bench", "terminated", None)
    assert run.duration_s == 150.0
    told = json.loads(run.metadata or "")["harbor"]
    assert told["trial_name"] == "hello-world__abc"
    assert told["agent_result"] == {"n_input_tokens": 982}


def test_the_outcome_is_a_label_and_not_in_the_trajectory(trial: Path) -> None:
    run, (label,) = run_of(run_path(trial)), outcomes(run_path(trial))
    assert (run.success, run.reward) == (None, None)
    assert label == Label(
        trajectory_id=run.trajectory_id,
        evaluator="harbor",
        value=1.0,
        success=True,
        created_at=datetime(2026, 1, 2, 3, 14, 5, tzinfo=UTC),
    )


def test_the_result_alone_gives_the_very_same_label(trial: Path) -> None:
    assert items(trial) == outcomes(run_path(trial))


def test_the_result_does_not_change_who_the_run_is(trial: Path) -> None:
    before = run_of(run_path(trial)).trajectory_id
    trial.unlink()
    assert run_of(run_path(trial)).trajectory_id == before
    assert run_of(run_path(trial)).task_id.startswith("atif/")


def test_a_result_without_its_run_is_a_problem(tmp_path: Path) -> None:
    (found,) = items(write(tmp_path / "result.json", TRIAL))
    assert isinstance(found, Problem)
    assert found.kind == "bad"
    assert "trajectory.json" in found.reason


@pytest.mark.parametrize(
    ("rewards", "value", "success"),
    [({"reward": 1}, 1.0, True), ({"reward": 0.4}, 0.4, False), ({"reward": -2.0}, -2.0, False)],
)
def test_success_is_a_full_reward(
    trial: Path, rewards: dict[str, float], value: float, *, success: bool
) -> None:
    write(trial, {**TRIAL, "verifier_result": {"rewards": rewards}})
    (label,) = outcomes(trial)
    assert (label.value, label.success) == (value, success)


def test_the_user_may_set_the_threshold(trial: Path) -> None:
    write(trial, {**TRIAL, "verifier_result": {"rewards": {"reward": 0.4}}})
    (label,) = outcomes(trial, ImportOptions(success_threshold=0.4))
    assert label.success is True


def test_further_rewards_are_labels_by_their_name(trial: Path) -> None:
    rewards = {"tests": 0.5, "reward": 0.0, "style": 1}
    write(trial, {**TRIAL, "verifier_result": {"rewards": rewards}})
    assert [(o.name, o.value, o.success) for o in outcomes(trial)] == [
        ("outcome", 0.0, False),
        ("tests", 0.5, None),
        ("style", 1.0, None),
    ]


def test_the_first_reward_counts_where_none_is_called_reward(trial: Path) -> None:
    write(trial, {**TRIAL, "verifier_result": {"rewards": {"accuracy": 1.0}}})
    assert [(o.name, o.value, o.success) for o in outcomes(trial)] == [("outcome", 1.0, True)]


@pytest.mark.parametrize(
    "change",
    [{"verifier_result": None}, {"verifier_result": {"rewards": None}}, {"reward_valid": False}],
)
def test_no_verdict_is_no_label(trial: Path, change: dict[str, Any]) -> None:
    write(trial, {**TRIAL, **change})
    assert outcomes(run_path(trial)) == []
    (note,) = items(trial)
    assert isinstance(note, Problem)
    assert note.kind == "ignored"


def test_an_agent_timeout_is_a_truncation_and_may_still_be_solved(trial: Path) -> None:
    error = {"exception_type": "AgentTimeoutError", "exception_message": "900 s"}
    write(trial, {**TRIAL, "exception_info": error})
    run = run_of(run_path(trial))
    assert (run.status, run.termination_reason) == ("truncated", "AgentTimeoutError")
    assert run.error == "AgentTimeoutError: 900 s"
    assert outcomes(trial)[0].success is True


def test_any_other_exception_is_an_error(trial: Path) -> None:
    error = {"exception_type": "ApiError", "exception_message": "503"}
    write(trial, {**TRIAL, "exception_info": error})
    assert run_of(run_path(trial)).status == "error"


@pytest.mark.parametrize(("solved", "value"), [(True, 1.0), (False, 0.0)])
def test_an_old_result_says_is_resolved(trial: Path, *, solved: bool, value: float) -> None:
    old = {"trial_name": "t.1-of-1", "task_id": "hello-world", "is_resolved": solved}
    write(trial.with_name("results.json"), old)
    trial.unlink()
    (label,) = outcomes(run_path(trial))
    assert (label.success, label.value) == (solved, value)
    assert run_of(run_path(trial)).task_id == "harbor/hello-world"


def test_an_old_result_without_verdict_is_unknown() -> None:
    assert list(labels({"trial_name": "t", "is_resolved": None}, None, "id", OPTIONS)) == []


def test_each_step_of_a_trial_has_its_own_task_and_verdict(trial: Path) -> None:
    steps = [
        {"step_name": name, "verifier_result": {"rewards": {"reward": reward}}}
        for name, reward in (("build", 1.0), ("test", 0.0))
    ]
    folder = trial.parent
    for name in ("build", "test"):
        target = folder / "steps" / name / "agent"
        target.mkdir(parents=True)
        document = json.loads(run_path(trial).read_text())
        write(target / "trajectory.json", {**document, "session_id": name})
    shutil.rmtree(folder / "agent")
    write(trial, {**TRIAL, "verifier_result": None, "step_results": steps})
    paths = [folder / "steps" / n / "agent" / "trajectory.json" for n in ("build", "test")]
    assert [run_of(p).task_id for p in paths] == [
        "terminal-bench/hello-world/build",
        "terminal-bench/hello-world/test",
    ]
    assert [outcomes(p)[0].success for p in paths] == [True, False]
    assert outcomes(trial) == [outcomes(p)[0] for p in paths]


def test_a_result_beside_the_run_counts_too(trial: Path) -> None:
    beside = trial.parent / "agent" / "result.json"
    shutil.move(trial, beside)
    assert len(outcomes(run_path(trial))) == 1


def test_a_result_beside_several_runs_belongs_to_none(trial: Path) -> None:
    folder = trial.parent
    document = json.loads(run_path(trial).read_text())
    shutil.rmtree(folder / "agent")
    for n in range(2):
        write(folder / f"{n}.json", {**document, "session_id": str(n)})
    assert runs_of(trial) == {}
    assert trial_of(folder / "0.json") is None


def test_a_sub_agent_gets_no_verdict_of_the_trial(trial: Path) -> None:
    document = json.loads(run_path(trial).read_text())
    refs = {"results": [{"subagent_trajectory_ref": [{"trajectory_path": "sub.json"}]}]}
    main = json.loads(json.dumps(document))
    main["steps"][3]["observation"] = refs
    write(run_path(trial), main)
    sub = write(run_path(trial).with_name("sub.json"), {**document, "session_id": "sub"})
    assert outcomes(sub) == []
    assert run_of(sub).task_id == "terminal-bench/hello-world/terminus-2"
    assert len(outcomes(run_path(trial))) == 1


@pytest.mark.parametrize(
    "value",
    [
        {"trial_name": "t", "trials_dir": "jobs", "agent": {}},
        {"job_name": "j", "jobs_dir": "jobs"},
        {"id": "x", "n_total_trials": 3, "stats": {}},
    ],
)
def test_configurations_and_job_summaries_are_ignored(tmp_path: Path, value: Any) -> None:
    path = write(tmp_path / "config.json", value)
    assert IMPORTER.detect(Source(path)) == 0.9
    (note,) = items(path)
    assert isinstance(note, Problem)
    assert note.kind == "ignored"


@pytest.mark.parametrize("value", [None, [], {}, {"trial_name": "t"}, {"task_name": "t"}])
def test_other_objects_are_neither_trial_nor_configuration(value: Any) -> None:
    assert not is_trial(value)
    assert not is_config(value)
