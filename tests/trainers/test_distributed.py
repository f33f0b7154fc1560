"""Two processes that torchrun starts take the very step that one takes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trajstore import open as open_store
from trajstore.rollouts import (
    CalculatorEnvironment,
    ScriptedPolicy,
    calculator_tasks,
    record_rollouts,
)
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.trainer import METRICS_FILE

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def torchrun() -> list[str]:
    """Arguments of python that start two processes on this machine."""
    made = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1"]
    return [*made, f"--master_port={_free_port()}"]


def start(launcher: list[str], module: str, *arguments: str) -> str:
    """Run a module, under a launcher or alone; what it prints."""
    paths = [str(ROOT), str(ROOT / "cli"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, "-m", module, *arguments]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _run(launcher: list[str], name: str, out: Path) -> dict[str, Any]:
    start(launcher, "tests.trainers.distributed_worker", name, str(out))
    told: dict[str, Any] = json.loads((out / "told.json").read_text())
    return told


@pytest.mark.parametrize("name", ["sft", "dpo", "grpo"])
def test_two_processes_equal_one(name: str, tmp_path: Path) -> None:
    """Seven examples: the second process gets one of weight 0."""
    one = _run([], name, tmp_path / "one")
    two = _run(torchrun(), name, tmp_path / "two")
    assert (one["world"], two["world"]) == (1, 2)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5, abs=1e-7)
    assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-5)
    weights = [torch.load(tmp_path / side / "weights.pt") for side in ("one", "two")]
    assert torch.allclose(*weights, atol=1e-6)


JOB = """
[job]
store = "pool"
output = "{output}"
[model]
template = "bare"
{model}
[training]
learning_rate = 1e-3
steps = 4
batch_size = {batch}
schedule = "constant"
warmup = 0
logging_steps = 1
tensorboard = false
"""
SCRATCH = "[model.scratch]\nlayers = 2\nhidden = 32\nheads = 2\nvocabulary = 400"


def test_a_job_of_two_processes_trains_what_a_job_of_one_trains(tmp_path: Path) -> None:
    """Both start from the small model that the first of them makes."""
    safetensors = pytest.importorskip("safetensors.torch")
    store = open_store(tmp_path / "pool")
    tasks = calculator_tasks(12)
    record_rollouts(store, CalculatorEnvironment, [ScriptedPolicy()], tasks)
    made = {
        "one": JOB.format(output="one", model=SCRATCH, batch=4),
        "two": JOB.format(output="two", model='base = "one/scratch"', batch=2),
    }
    for name, launcher in (("one", []), ("two", torchrun())):
        config = tmp_path / f"{name}.toml"
        config.write_text(made[name])
        start(launcher, "trajstore_cli.main", "train", "sft", str(config))
    losses = [
        [m["loss"] for m in read_metrics(tmp_path / name / "model" / METRICS_FILE) if "loss" in m]
        for name in made
    ]
    assert len(losses[0]) == 4
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    weights = [safetensors.load_file(tmp_path / n / "model" / "model.safetensors") for n in made]
    assert all(torch.allclose(weights[0][k], weights[1][k], atol=1e-5) for k in weights[0])
