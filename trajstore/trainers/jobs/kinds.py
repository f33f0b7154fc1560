"""The kinds of job by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trajstore.trainers.jobs.dpo import run_dpo
from trajstore.trainers.jobs.grpo import GrpoTable, run_grpo
from trajstore.trainers.jobs.preference import DpoTable
from trajstore.trainers.jobs.rft import RftTable, run_rft
from trajstore.trainers.jobs.run import JobReport, JobRun
from trajstore.trainers.jobs.sft import SftTable, run_sft
from trajstore.trainers.jobs.star import StarTable, run_star


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """One kind of job."""

    settings: type[Any]
    """The table that only it has, named as the kind."""
    work: Callable[[JobRun], JobReport]
    """What it does."""
    samples: bool
    """Whether it needs ``[rollouts]`` with tasks."""


KINDS: Mapping[str, JobKind] = {
    "sft": JobKind(settings=SftTable, work=run_sft, samples=False),
    "star": JobKind(settings=StarTable, work=run_star, samples=True),
    "rft": JobKind(settings=RftTable, work=run_rft, samples=True),
    "dpo": JobKind(settings=DpoTable, work=run_dpo, samples=False),
    "grpo": JobKind(settings=GrpoTable, work=run_grpo, samples=False),
}
"""Every kind of job."""
