"""Training jobs: from one TOML file and a store to a model, whatever interrupts them.

``run_job("star", "star.toml")`` is ``trajstore train star star.toml``. Every job pins a snapshot,
stores its rollouts under its policy versions, logs to ``metrics.jsonl`` and goes on where it was
killed. Using it needs ``pip install 'trajstore[train]'``, importing it does not.
"""

from __future__ import annotations

from trajstore.trainers.jobs.config import JobConfig, read_config
from trajstore.trainers.jobs.kinds import KINDS, JobKind
from trajstore.trainers.jobs.preview import Preview, Span, preview_job
from trajstore.trainers.jobs.processes import Processes, launched
from trajstore.trainers.jobs.report import JobReport, Progress
from trajstore.trainers.jobs.run import JobRun
from trajstore.trainers.jobs.start import open_job, read_job, run_job

__all__ = [
    "KINDS",
    "JobConfig",
    "JobKind",
    "JobReport",
    "JobRun",
    "Preview",
    "Processes",
    "Progress",
    "Span",
    "launched",
    "open_job",
    "preview_job",
    "read_config",
    "read_job",
    "run_job",
]
