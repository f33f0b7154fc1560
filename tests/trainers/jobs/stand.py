"""Jobs that sample, with a scripted agent in the place of the model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.jobs.conftest import TRAINING
from trajstore.rollouts import ScriptedPolicy
from trajstore.trainers.jobs.run import JobRun

ROLLOUTS = """
[rollouts]
environment = "calculator"
kind = "arithmetic"
max_steps = 5
[rollouts.tasks]
count = 6
seed = 3
[rollouts.held_out]
count = 4
seed = 50
"""
SHORT = TRAINING.replace("steps = 6", "steps = 2")


class Stand:
    """A job whose policy is a scripted agent, so that attempts differ in what they bring."""

    def __init__(self, job: JobRun, *, profile: str = "hasty", fails_at: int | None = None) -> None:
        self.job, self.profile, self.fails_at = job, profile, fails_at
        self.asked: list[str] = []
        self.given: list[Any] = []
        job.policy = self.policy  # type: ignore[method-assign]

    def policy(self, model: Any, version: str, **_: Any) -> Any:
        self.given.append(model)
        self.asked.append(version)
        if len(self.asked) == self.fails_at:
            raise KeyboardInterrupt
        made = ScriptedPolicy(self.profile)
        stand = type("Stand", (), {"agent": made.agent, "model": None, "act": made.act})()
        stand.version = self.job.version(version)
        return stand


@pytest.fixture
def pool(scripted: Path, tmp_path: Path) -> Path:
    """A copy of the scripted runs, to write to."""
    return Path(shutil.copytree(scripted, tmp_path / "pool"))
