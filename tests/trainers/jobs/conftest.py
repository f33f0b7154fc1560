"""A store of scripted runs, and files of jobs that train a tiny model on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trajstore.rollouts import (
    CalculatorEnvironment,
    Limits,
    ScriptedPolicy,
    calculator_tasks,
    record_rollouts,
)
from trajstore.store import Store

WriteJob = Callable[..., Path]

MODEL = """
[model]
template = "bare"
[model.scratch]
layers = 1
hidden = 16
heads = 2
vocabulary = 400
"""
TRAINING = """
[training]
learning_rate = 1e-2
steps = 6
batch_size = 2
save_steps = 2
logging_steps = 1
tensorboard = false
"""


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 runs of able and hasty agents at 12 word problems; read only."""
    folder = tmp_path_factory.mktemp("scripted") / "pool"
    record_rollouts(
        Store(folder, durable=False),
        CalculatorEnvironment,
        [ScriptedPolicy("careful"), ScriptedPolicy("hasty")],
        calculator_tasks(12, seed=3, kind="arithmetic"),
        limits=Limits(max_steps=5),
    )
    return folder


@pytest.fixture
def write_job(tmp_path: Path, scripted: Path) -> WriteJob:
    """Write a job's file: parts of TOML behind ``[job]``; its folder is ``out`` beside it."""

    def write(
        *parts: str, name: str = "job", store: Path = scripted, model: str = MODEL, extra: str = ""
    ) -> Path:
        file = tmp_path / f"{name}.toml"
        head = f'[job]\nstore = "{store}"\noutput = "{name}"\n{extra}\n'
        file.write_text(head + model + "".join(parts or (TRAINING,)), encoding="utf-8")
        return file

    return write
