from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.trainers.row_makers import row
from trajstore.errors import TrainingError
from trajstore.trainers.guards import check_finite, memory_guard
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.objectives import Grpo, Sft
from trajstore.trainers.trainer import make_trainer


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_stops_with_the_step(value: float) -> None:
    with pytest.raises(TrainingError, match=r"the loss is -?(nan|inf) at step 7\."):
        check_finite(value, "the loss", 7)


def test_a_number_passes() -> None:
    check_finite(1e30, "the loss", 0)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")],
    ids=["python", "torch"],
)
def test_full_memory_is_told_with_advice(error: Exception) -> None:
    pytest.importorskip("torch")
    advice = r"step 3 on a batch of 4,096 tokens\. Halve"
    with pytest.raises(TrainingError, match=advice), memory_guard(3, 4096):
        raise error


def test_other_errors_pass_through() -> None:
    pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="shapes"), memory_guard(0, 1):
        raise RuntimeError("shapes differ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_gpu": 2, "fp16": False}, r"sees 2 GPUs.*torchrun --nproc_per_node 2"),
        ({"n_gpu": 0, "fp16": True}, "fp16 needs a GPU; use bf16"),
    ],
    ids=["gpus", "fp16"],
)
def test_arguments_that_cannot_be_kept_are_refused(
    arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        make_trainer(None, [row(5, seed=1)], Sft(), SimpleNamespace(**arguments))


def test_an_unknown_ratio_is_refused_before_training() -> None:
    with pytest.raises(TrainingError, match="known are behaviour, recomputed, snapshot"):
        make_trainer(None, [row(5, seed=1)], Grpo(ratio="old"), None)  # type: ignore[arg-type]


def test_a_line_that_a_kill_broke_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert read_metrics(file) == [{"step": 1, "loss": 2.0}]
    assert read_metrics(tmp_path / "none.jsonl") == []


def test_importing_the_trainers_loads_nothing_heavy() -> None:
    names = ["torch", "transformers", "peft", "accelerate", "tokenizers", "trl"]
    program = f"import sys, trajstore.trainers; print([m for m in {names} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert out.stdout.strip() == "[]"
