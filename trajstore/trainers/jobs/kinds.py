"""The kinds of job by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trajstore.trainers.jobs.config import JobConfig
from trajstore.trainers.jobs.dpo import run_dpo
from trajstore.trainers.jobs.grpo import GrpoTable, run_grpo
from trajstore.trainers.jobs.preference import DpoTable
from trajstore.trainers.jobs.report import JobReport
from trajstore.trainers.jobs.rft import RftTable, run_rft
from trajstore.trainers.jobs.run import JobRun
from trajstore.trainers.jobs.sft import SftTable, run_sft
from trajstore.trainers.jobs.star import StarTable, run_star


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """One kind of job."""

    settings: type[Any]
    """The table that only it has, named as the kind."""
    work: Callable[[JobRun], JobReport]
    """What it does."""
    samples: Callable[[JobConfig], bool]
    """Whether a job needs ``[rollouts]`` with tasks."""


def _is_online(config: JobConfig) -> bool:
    return bool(config.settings.mode == "online")


KINDS: Mapping[str, JobKind] = {
    "sft": JobKind(settings=SftTable, work=run_sft, samples=lambda _: False),
    "star": JobKind(settings=StarTable, work=run_star, samples=lambda _: True),
    "rft": JobKind(settings=RftTable, work=run_rft, samples=lambda _: True),
    "dpo": JobKind(settings=DpoTable, work=run_dpo, samples=_is_online),
    "grpo": JobKind(settings=GrpoTable, work=run_grpo, samples=_is_online),
}
"""Every kind of job."""
