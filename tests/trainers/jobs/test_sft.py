"""The job ``sft`` on a tiny model: what it trains on, and that nothing can interrupt it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.jobs.conftest import MODEL, TRAINING, WriteJob
from trajstore import Pool, Trajectory
from trajstore.errors import TrainingError
from trajstore.filters import stage
from trajstore.store import Store
from trajstore.trainers import read_metrics
from trajstore.trainers.jobs import run_job
from trajstore.trainers.jobs.sampling import evaluated

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

ROOT = Path(__file__).resolve().parents[3]
ROLLOUTS = """
[rollouts]
environment = "calculator"
kind = "arithmetic"
max_steps = 1
max_tokens = 4
[rollouts.held_out]
count = 2
seed = {seed}
"""


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def lines(folder: Path) -> list[dict[str, Any]]:
    timed = ("runtime", "per_second", "flos", "train_loss")  # of the last process alone
    return [
        {k: v for k, v in line.items() if not any(t in k for t in timed)}
        for line in read_metrics(folder / "metrics.jsonl")
    ]


def test_it_learns_and_leaves_a_model_metrics_and_a_plot(write_job: WriteJob) -> None:
    done = run_job("sft", write_job())
    steps = [m["loss"] for m in lines(done.output / "model") if "loss" in m]
    assert done.results == {"runs": 24, "rows": 24, "refused": 0}
    assert done.model == done.output / "model"
    assert len(steps) == 6
    assert steps[-1] < steps[0]
    assert (done.output / "plot.svg").read_text().startswith("<svg")
    assert not list(done.output.glob("*/checkpoint-*"))


def test_tensorboard_finds_events_of_each_round(write_job: WriteJob) -> None:
    pytest.importorskip("tensorboard")
    done = run_job("sft", write_job(TRAINING.replace("tensorboard = false\n", "")))
    assert list((done.output / "tensorboard" / "model").glob("events.*"))


def test_the_snapshot_is_pinned_and_read_to_the_end(write_job: WriteJob, scripted: Path) -> None:
    done = run_job("sft", write_job())
    pins = {p.name: p.snapshot for p in Store(scripted).pins()}
    assert done.snapshot in [v for k, v in pins.items() if k.startswith("train-sft-")]


class StoppedError(Exception):
    """As if the machine had gone."""


def test_a_job_that_was_stopped_ends_as_if_it_had_not_been(write_job: WriteJob) -> None:
    def stop(what: str, done: int, of: int, numbers: Mapping[str, float]) -> None:
        del what, of, numbers
        if done == 5:
            raise StoppedError

    whole = run_job("sft", write_job(name="whole"))
    file = write_job(name="broken")
    with pytest.raises(StoppedError):
        run_job("sft", file, progress=stop)
    assert list((file.parent / "broken" / "model").glob("checkpoint-4"))
    broken = run_job("sft", file, resume=True)
    assert weights(broken.output / "model") == weights(whole.output / "model")
    assert lines(broken.output / "model") == lines(whole.output / "model")


def test_a_checkpoint_that_was_cut_off_is_not_gone_on_from(write_job: WriteJob) -> None:
    whole = run_job("sft", write_job(name="whole"))
    file = write_job(name="broken")
    half = file.parent / "broken" / "model" / "checkpoint-4"
    with pytest.raises(StoppedError):
        run_job("sft", file, progress=_stop_at_three)
    half.mkdir(parents=True)
    (half / "trainer_state.json").write_text('{"global_st')
    broken = run_job("sft", file)
    assert weights(broken.output / "model") == weights(whole.output / "model")


def _stop_at_three(what: str, done: int, of: int, numbers: Mapping[str, float]) -> None:
    del what, of, numbers
    if done == 3:
        raise StoppedError


def test_a_job_that_has_ended_does_nothing_more(write_job: WriteJob) -> None:
    file = write_job()
    done = run_job("sft", file)
    before = (done.output / "model" / "model.safetensors").stat().st_mtime_ns
    again = run_job("sft", file)
    assert again == done
    assert (done.output / "model" / "model.safetensors").stat().st_mtime_ns == before


def test_runs_at_held_out_tasks_are_never_trained_on(write_job: WriteJob, tmp_path: Path) -> None:
    """The seed is that of the runs, so two of their twelve tasks are held out: four runs."""
    shutil.copytree(file_store(write_job), tmp_path / "pool")
    file = write_job(TRAINING, ROLLOUTS.format(seed=3), store=tmp_path / "pool")
    done = run_job("sft", file)
    assert (done.results["runs"], done.results["rows"], done.results["refused"]) == (24, 20, 4)


def test_held_out_tasks_are_attempted_and_stored(write_job: WriteJob, tmp_path: Path) -> None:
    store = Store(tmp_path / "pool", durable=False)
    store.append(Store(file_store(write_job)).scan())
    done = run_job("sft", write_job(TRAINING, ROLLOUTS.format(seed=4), store=tmp_path / "pool"))
    found = store.query(
        "select policy_version, count(*) n, any_value(list_contains(tags, 'held-out')) held_out, "
        "from trajectories where policy_version like 'sft-%' group by all"
    ).read_all()
    assert found.to_pylist() == [{"policy_version": "sft-s0/model", "n": 2, "held_out": True}]
    assert lines(done.output)[-1]["held_out/n"] == 2


def test_an_attempt_that_failed_is_one_that_did_not_solve_its_task() -> None:
    """Three of four ended; were the fourth left out, the rate would be two thirds."""
    ended = [
        Trajectory(
            trajectory_id=str(n), task_id="t", source="rollout", success=ok, reward=float(ok)
        )
        for n, ok in enumerate([True, True, False])
    ]
    found = evaluated(ended, 4)
    assert (found.success_rate, found.mean_reward, found.n, found.failed) == (0.5, 0.5, 4, 1)
    with pytest.raises(TrainingError, match="no run to measure"):
        evaluated([], 0)


def file_store(write_job: WriteJob) -> str:
    text = write_job(name="other").read_text()
    return text.partition('store = "')[2].partition('"')[0]


def test_a_condition_that_is_no_sql_is_an_error_with_its_line(write_job: WriteJob) -> None:
    file = write_job(TRAINING, '[data]\nwhere = "this is not sql"\n')
    with pytest.raises(TrainingError, match=r"job.toml:\d+: The SQL does not parse"):
        run_job("sft", file)


def test_a_job_does_not_go_on_with_another_selection_or_base(
    write_job: WriteJob, tmp_path: Path
) -> None:
    store = Pool(file_store(write_job))
    store.select([stage("success")]).write(tmp_path / "s.parquet")
    first = run_job("sft", write_job(TRAINING, '[data]\nselection = "s.parquet"\n', name="one"))
    store.select().write(tmp_path / "s.parquet")
    with pytest.raises(TrainingError, match=r"one.toml:\d+: What selection names has changed"):
        run_job("sft", tmp_path / "one.toml")

    model = f'[model]\ntemplate = "bare"\nbase = "{first.output}/model"\n'
    second = write_job(model=model, name="two")
    run_job("sft", second)
    weights_of = first.output / "model" / "model.safetensors"
    weights_of.write_bytes(weights_of.read_bytes()[:-4] + bytes(4))
    with pytest.raises(TrainingError, match=r"two.toml:\d+: What base names has changed"):
        run_job("sft", second)
    assert run_job("sft", second, fresh=True).results["rows"] > 0


def test_a_condition_that_nothing_fits_is_an_error_with_its_line(write_job: WriteJob) -> None:
    file = write_job(TRAINING, "[data]\nwhere = \"agent = 'nobody'\"\n")
    with pytest.raises(TrainingError, match=r"job.toml:\d+: No run of snapshot \d+ fits"):
        run_job("sft", file)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")  # peft asks
def test_adapters_are_trained_and_loaded_again(write_job: WriteJob) -> None:
    pytest.importorskip("peft")
    done = run_job("sft", write_job(model=MODEL + "[model.lora]\nrank = 2\nalpha = 4\n"))
    assert done.model is not None
    assert (done.model / "adapter_config.json").is_file()
    assert not (done.model / "model.safetensors").exists()


def test_checkpointing_activations_trains_the_same(write_job: WriteJob) -> None:
    plain = run_job("sft", write_job(name="plain"))
    model = MODEL.replace("[model]", "[model]\ngradient_checkpointing = true")
    saving = run_job("sft", write_job(name="saving", model=model))
    a, b = ([m["loss"] for m in lines(d.output / "model") if "loss" in m] for d in (plain, saving))
    assert a == pytest.approx(b, rel=1e-4)


@pytest.mark.slow
def test_a_killed_process_goes_on_to_the_very_same_weights(write_job: WriteJob) -> None:
    training = TRAINING.replace("steps = 6", "steps = 60")
    files = [write_job(training, name=name) for name in ("whole", "killed")]
    subprocess.run(command(files[0]), env=alone(), stdout=subprocess.DEVNULL, check=True)
    folder = files[1].parent / "killed" / "model"
    with subprocess.Popen(command(files[1]), env=alone(), stdout=subprocess.DEVNULL) as killed:
        while not list(folder.glob("checkpoint-*")) and killed.poll() is None:
            time.sleep(0.01)
        os.kill(killed.pid, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    again = subprocess.run(
        command(files[1], "--resume", "--json"), env=alone(), capture_output=True, check=True
    )
    whole = files[0].parent / "whole" / "model"
    assert json.loads(again.stdout)["rows"] == 24
    assert weights(folder) == weights(whole)
    assert lines(folder) == lines(whole)


def command(file: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "trajstore_cli.main", "train", "sft", str(file), *options]


def alone() -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "cli")])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
