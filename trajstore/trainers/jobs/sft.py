"""Supervised fine-tuning on runs of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trajstore.errors import TrainingError
from trajstore.trainers.jobs.examples import Examples
from trajstore.trainers.jobs.report import JobReport
from trajstore.trainers.jobs.run import JobRun
from trajstore.trainers.objectives import Sft


@dataclass(frozen=True, slots=True, kw_only=True)
class SftTable:
    """The table ``[sft]``."""

    before: bool = False
    """Also measure the base on the held-out tasks, where there are any."""


def run_sft(job: JobRun) -> JobReport:
    """Train on the runs that ``[data]`` names, then measure on held-out tasks if there are any."""
    settings: SftTable = job.config.settings
    if settings.before and job.tasks.held_out and not job.recall("base_measured"):
        job.evaluate(job.policy(job.base, "base"), "base")
        job.remember("base_measured", True)
    examples = sft_examples(job)
    model = job.train("model", job.fresh_model, examples.rows, Sft())
    results: dict[str, Any] = {
        "runs": examples.runs,
        "rows": len(examples.rows),
        "refused": len(examples.refused),
        **examples.unused,
    }
    if job.tasks.held_out:
        found = job.evaluate(job.policy(model, "model"), "model")
        results |= {"held_out": found.success_rate, "attempts": found.n}
    return job.report(model, results)


def sft_examples(job: JobRun) -> Examples:
    """Rows of the runs that ``[data]`` names.

    Raises:
        TrainingError: no run gave a row.
    """
    found = job.examples(job.runs())
    if not found.rows:
        first = found.refused[0].reason
        raise TrainingError(f"none of {found.runs:,} runs can be trained on; the first: {first}")
    return found
