"""Start a job from its file."""

from __future__ import annotations

import os
from pathlib import Path

from trajstore._toml import unknown
from trajstore.errors import TrainingError
from trajstore.store import Store
from trajstore.trainers.jobs.config import JobConfig, read_config
from trajstore.trainers.jobs.kinds import KINDS
from trajstore.trainers.jobs.plot import write_plot
from trajstore.trainers.jobs.processes import launched
from trajstore.trainers.jobs.report import JobReport, Progress
from trajstore.trainers.jobs.run import JobRun


def read_job(kind: str, path: str | Path, *, seed: int | None = None) -> JobConfig:
    """Read and check the file of a job of a kind; ``seed`` is taken instead of the file's.

    Raises:
        TrainingError: there is no such kind, or the file is wrong.
    """
    if kind not in KINDS:
        raise TrainingError(unknown(f"There is no job '{kind}'", kind, KINDS))
    config = read_config(path, kind, KINDS[kind].settings, seed=seed)
    samples = KINDS[kind].samples(config)
    if samples and config.need_rollouts().tasks is None:
        message = "This job samples, so it needs [rollouts.tasks] with count = 200."
        raise config.error(message, "rollouts")
    for key in ("where", "selection"):
        unread = samples and kind != "rft" and config.model.scratch is None
        if unread and getattr(config.data, key) is not None:
            message = f"This job trains on what it samples, so it reads no {key}; leave it out."
            raise config.error(message, "data", key)
    return config


def open_job(
    kind: str,
    path: str | Path,
    *,
    store: Store | None = None,
    seed: int | None = None,
    resume: bool = False,
    fresh: bool = False,
    progress: Progress | None = None,
) -> JobRun:
    """A job that is ready to work; see :func:`run_job`."""
    config = read_job(kind, path, seed=seed)
    if store is None:
        store = Store(
            config.located(config.job.store),
            create=KINDS[kind].samples(config),
        )
    return JobRun(
        config, store, resume=resume, fresh=fresh, progress=progress, processes=launched()
    )


def run_job(
    kind: str,
    path: str | Path,
    *,
    store: Store | None = None,
    seed: int | None = None,
    resume: bool = False,
    fresh: bool = False,
    progress: Progress | None = None,
) -> JobReport:
    """Do a job, or the rest of it; ``plot.svg`` shows its metrics at the end.

    A job that was interrupted goes on by itself when it is started again, from its last checkpoint
    and without sampling again what the store has. One that has ended does nothing more.

    Args:
        kind: ``sft``, ``star``, ``rft``, ``dpo`` or ``grpo``.
        path: the TOML file.
        store: instead of opening the one that the file names.
        seed: instead of the file's.
        resume: fail where there is nothing to go on from.
        fresh: remove the job's folder and start anew.
        progress: told what is going on.

    Raises:
        TrainingError: the file is wrong, examples cannot be made, or training went wrong.
        StoreNotFoundError: there is no store.
    """
    job = open_job(
        kind,
        path,
        store=store,
        seed=seed,
        resume=resume,
        fresh=fresh,
        progress=progress,
    )
    ended = job.recall("ended")
    if ended is not None:
        place = ended["model"]
        model = None if place is None else Path(os.path.normpath(job.folder / place))
        return job.report(model, ended["results"])
    report = KINDS[kind].work(job)
    if job.processes.first:
        write_plot(job.folder)
    place = None if report.model is None else os.path.relpath(report.model, job.folder)
    job.remember("ended", {"model": place, "results": dict(report.results)})
    return report
