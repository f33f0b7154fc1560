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

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(launcher: list[str], name: str, out: Path) -> dict[str, Any]:
    paths = [str(ROOT), str(ROOT / "cli"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, "-m", "tests.trainers.distributed_worker", name, str(out)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads((out / "told.json").read_text())
    return told


@pytest.mark.parametrize("name", ["sft", "dpo", "grpo"])
def test_two_processes_equal_one(name: str, tmp_path: Path) -> None:
    """Seven examples: the second process gets one of weight 0."""
    torchrun = ["-m", "torch.distributed.run", "--nproc_per_node=2"]
    torchrun += ["--master_addr=127.0.0.1", f"--master_port={_free_port()}"]
    one = _run([], name, tmp_path / "one")
    two = _run(torchrun, name, tmp_path / "two")
    assert (one["world"], two["world"]) == (1, 2)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5, abs=1e-7)
    assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-5)
    weights = [torch.load(tmp_path / side / "weights.pt") for side in ("one", "two")]
    assert torch.allclose(*weights, atol=1e-6)
