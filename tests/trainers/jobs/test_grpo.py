from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.jobs.conftest import TRAINING, WriteJob
from tests.trainers.jobs.stand import ROLLOUTS, SHORT, Stand, pool
from trajstore.errors import TrainingError
from trajstore.schema import Trajectory
from trajstore.store import Store
from trajstore.trainers import RowOptions, read_metrics, score
from trajstore.trainers.jobs.grpo import GrpoTable, grouped, is_flat, run_grpo
from trajstore.trainers.jobs.sampling import tasks_of
from trajstore.trainers.jobs.start import open_job, read_job, run_job
from trajstore.trainers.jobs.stored import runs_of_data, stored_runs

pytest.importorskip("torch")
pytest.importorskip("transformers")
__all__ = ["pool"]
pytestmark = pytest.mark.filterwarnings("ignore")

EXAMPLES = Path(__file__).resolve().parents[3] / "docs/examples/training"
OFFLINE = '[grpo]\nmode = "offline"\nratio = "snapshot"\n'
ONLINE = '[grpo]\nratio = "snapshot"\nattempts = 4\niterations = 2\n'


@pytest.fixture
def online(write_job: WriteJob, pool: Path) -> Any:
    def opened(settings: str = ONLINE, **given: Any) -> Stand:
        file = write_job(SHORT, ROLLOUTS, settings, store=pool)
        return Stand(open_job("grpo", file, store=Store(pool, durable=False)), **given)

    return opened


def test_an_offline_job_raises_the_better_runs(write_job: WriteJob) -> None:
    """The mean log-probability of runs that solved their task rises against that of the others."""
    file = write_job(TRAINING, OFFLINE)
    job = open_job("grpo", file)
    stored = runs_of_data(job)
    options = RowOptions(train_format_errors=True)
    groups = grouped(stored, job.config.settings, None)
    runs = [r for r in stored.runs if r.trajectory_id in groups.facts]
    rows = job.examples(runs, options=options).rows
    before = means(job.fresh_model(), rows)
    report = run_grpo(job)
    assert report.model is not None
    model = job.fresh_model(report.model)
    after = means(model, rows)
    good = [a - b for a, b, r in zip(after, before, runs, strict=True) if r.success]
    bad = [a - b for a, b, r in zip(after, before, runs, strict=True) if not r.success]
    assert sum(good) / len(good) > sum(bad) / len(bad)
    assert report.results["rows"] == len(rows)


def means(model: Any, rows: list[Any]) -> list[float]:
    """Mean log-probability of an action token, of each row."""
    found = score(model, rows)
    return [float(s.sum()) / r.n_action_tokens for s, r in zip(found, rows, strict=True)]


def test_only_tasks_that_are_solved_and_failed_are_trained_on(write_job: WriteJob) -> None:
    job = open_job("grpo", write_job(TRAINING, OFFLINE))
    stored = runs_of_data(job)
    verdicts: dict[str, set[bool | None]] = defaultdict(set)
    for run in stored.runs:
        verdicts[run.task_id].add(run.success)
    found = grouped(stored, job.config.settings, None).facts
    mixed = {r.trajectory_id for r in stored.runs if len(verdicts[r.task_id]) == 2}
    assert set(found) == mixed != set()


def test_advantages_are_those_of_the_formula(write_job: WriteJob) -> None:
    """One success and one failure with the population's deviation: +1 and -1."""
    job = open_job("grpo", write_job(TRAINING, OFFLINE))
    stored = runs_of_data(job)
    found = grouped(stored, job.config.settings, None).facts
    for run in stored.runs:
        if run.trajectory_id in found:
            expected = 1.0 if run.success else -1.0
            assert found[run.trajectory_id].advantages == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("advantage", ["rtmc", "gigpo"])
def test_credit_of_steps_goes_to_the_steps(write_job: WriteJob, advantage: str) -> None:
    file = write_job(TRAINING, OFFLINE + f'advantage = "{advantage}"\n')
    job = open_job("grpo", file)
    stored = runs_of_data(job)
    found = grouped(stored, job.config.settings, None).facts
    for run in stored.runs:
        if run.trajectory_id in found:
            given = found[run.trajectory_id].advantages
            assert isinstance(given, dict)
            agent = [i for i, s in enumerate(run.steps) if s.actor == "agent"]
            assert set(agent) <= set(given)
            assert (sum(given[i] for i in agent) > 0) == bool(run.success)
    assert run_grpo(job).results["rows"] == len(found)


def test_without_stored_logprobs_the_clip_has_no_anchor(write_job: WriteJob) -> None:
    with pytest.raises(TrainingError, match=r"old_logprobs.*ratio='snapshot'"):
        run_job("grpo", write_job(TRAINING, '[grpo]\nmode = "offline"\n'))


def test_a_window_without_versions_leaves_nothing(write_job: WriteJob) -> None:
    """Scripted profiles have no number, so nobody can say how old their runs are."""
    file = write_job(TRAINING, OFFLINE.replace("snapshot", "behaviour") + "max_staleness = 1\n")
    with pytest.raises(TrainingError, match=r"unknown-version|policy version is not known"):
        run_job("grpo", file)


def test_runs_at_held_out_tasks_are_refused(write_job: WriteJob) -> None:
    file = write_job(
        TRAINING,
        OFFLINE,
        ROLLOUTS.replace("seed = 50", "seed = 3").replace(
            "count = 6\nseed = 3", "count = 1\nseed = 9"
        ),
    )
    with pytest.raises(TrainingError, match="held-out tasks are among the runs"):
        run_job("grpo", file)


def test_each_round_samples_with_the_weights_of_the_one_before(online: Any) -> None:
    stand = online()
    report = run_grpo(stand.job)
    assert stand.asked == ["iteration-0", "iteration-1", "iteration-2"]
    assert report.results["iterations"] == 2
    assert len(report.results["held_out"]) == 3
    query = """SELECT split_part(policy_version, '/', 2) AS version, count(*) AS n,
        count(DISTINCT task_id) AS tasks FROM trajectories
        WHERE list_contains(tags, 'train') GROUP BY ALL ORDER BY ALL"""
    found = stand.job.store.query(query).read_all().to_pylist()
    assert found == [
        {"version": "iteration-0", "n": 24, "tasks": 6},
        {"version": "iteration-1", "n": 24, "tasks": 6},
    ]


def test_the_learning_curve_is_in_the_store(online: Any) -> None:
    stand = online()
    report = run_grpo(stand.job)
    query = """SELECT avg(success::INT) AS rate FROM trajectories
        WHERE list_contains(tags, 'held-out') GROUP BY policy_version ORDER BY policy_version"""
    rates = [r["rate"] for r in stand.job.store.query(query).read_all().to_pylist()]
    assert rates == pytest.approx(report.results["held_out"])


def test_metrics_say_what_each_round_did(online: Any) -> None:
    stand = online()
    run_grpo(stand.job)
    lines = [m for m in read_metrics(stand.job.folder / "metrics.jsonl") if "iteration" in m]
    assert [m["iteration"] for m in lines] == [1, 2]
    for line in lines:
        assert line["runs"] == 24
        assert line["groups"] + line["groups_dropped"] == 6
        assert 0 < line["train/success_rate"] < 1
        assert line["train/tool_calls"] > 0


def test_a_job_that_was_killed_ends_as_one_that_was_not(online: Any) -> None:
    stand = online(fails_at=2)
    with pytest.raises(KeyboardInterrupt):
        run_grpo(stand.job)
    again = online()
    report = run_grpo(again.job)
    assert report.results["iterations"] == 2
    count = "SELECT count(*) AS n FROM trajectories WHERE list_contains(tags, 'train')"
    assert again.job.store.query(count).read_all().to_pylist() == [{"n": 48}]
    assert len(report.results["held_out"]) == 3


def test_nothing_is_left_to_learn_where_all_is_solved(online: Any) -> None:
    report = run_grpo(online(profile="careful").job)
    assert (report.results["iterations"], report.model) == (0, None)
    assert report.results["ended"] == "no group has a signal"


def test_more_tasks_are_drawn_while_groups_have_no_signal(online: Any) -> None:
    stand = online(ONLINE + "tasks_per_iteration = 2\ndraws = 3\n", profile="careful")
    run_grpo(stand.job)
    query = (
        "SELECT count(DISTINCT task_id) AS n FROM trajectories WHERE list_contains(tags, 'train')"
    )
    assert stand.job.store.query(query).read_all().to_pylist() == [{"n": 6}]


def test_a_window_takes_runs_of_the_round_before(online: Any) -> None:
    settings = ONLINE.replace("snapshot", "recomputed") + "max_staleness = 1\n"
    stand = online(settings)
    job = stand.job
    job.config.settings.check()
    policy = stand.policy(None, "iteration-0")
    old = job.rollouts(policy, job.tasks.train, attempts=4, version="iteration-0", split="train")
    new = job.rollouts(
        stand.policy(None, "iteration-1"),
        job.tasks.train,
        attempts=4,
        version="iteration-1",
        split="train",
    )
    stored = stored_runs(job.store.reader(), [*old, *new])
    both = grouped(stored, job.config.settings, 1)
    late = grouped(stored, job.config.settings, 2)
    assert versions(old + new, both.facts) == {"iteration-0", "iteration-1"}
    assert versions(old + new, late.facts) == {"iteration-1"}


def versions(runs: list[Trajectory], facts: Any) -> set[str]:
    return {(r.policy_version or "").split("/")[1] for r in runs if r.trajectory_id in facts}


def test_a_round_ends_the_job_once_tool_calls_are_flat(online: Any) -> None:
    stand = online(
        ONLINE.replace("iterations = 2", "iterations = 6")
        + "stop_patience = 1\nstop_within = 9.0\n"
    )
    report = run_grpo(stand.job)
    assert (report.results["iterations"], report.results["ended"]) == (
        2,
        "tool calls no longer rise",
    )


def test_flat_needs_a_value_to_compare_with() -> None:
    assert not is_flat([2.0], 1, 0.02)
    assert is_flat([2.0, 2.0], 1, 0.02)
    assert not is_flat([2.0, 2.1], 1, 0.02)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"attempts": 1}, "compares nothing"),
        ({"iterations": 0}, "iterations starts at 1"),
        ({"max_staleness": 1, "ratio": "snapshot"}, "takes stale runs for fresh ones"),
    ],
    ids=["attempts", "iterations", "staleness"],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(TrainingError, match=says):
        GrpoTable(**given).check()


@pytest.mark.parametrize("kind", ["grpo", "dpo"])
def test_the_example_reads_and_its_held_out_tasks_are_others(kind: str, tmp_path: Path) -> None:
    """One of the 400 tasks is among the 150 held-out ones, so it is not trained on."""
    text = (EXAMPLES / f"{kind}.toml").read_text(encoding="utf-8")
    for base in ("able", "hasty"):
        (tmp_path / f"runs/{base}/model").mkdir(parents=True)
        (tmp_path / f"runs/{base}/model/config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    found = tasks_of(read_job(kind, tmp_path / "job.toml"))
    assert (len(found.train), len(found.held_out)) == (399, 150)
    assert not {t.task_id for t in found.train} & {t.task_id for t in found.held_out}
