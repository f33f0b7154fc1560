"""Start a job from its file."""

from __future__ import annotations

from pathlib import Path

from trajstore._toml import unknown
from trajstore.errors import TrainingError
from trajstore.store import Store
from trajstore.trainers.jobs.config import JobConfig, read_config
from trajstore.trainers.jobs.kinds import KINDS
from trajstore.trainers.jobs.plot import write_plot
from trajstore.trainers.jobs.run import JobReport, JobRun, Progress
from trajstore.trainers.jobs.state import is_first_process


def read_job(kind: str, path: str | Path, *, seed: int | None = None) -> JobConfig:
    """Read and check the file of a job of a kind; ``seed`` is taken instead of the file's.

    Raises:
        TrainingError: there is no such kind, or the file is wrong.
    """
    if kind not in KINDS:
        raise TrainingError(unknown(f"There is no job '{kind}'", kind, KINDS))
    config = read_config(path, kind, KINDS[kind].settings, seed=seed)
    if KINDS[kind].samples and config.need_rollouts().tasks is None:
        message = "This job samples, so it needs [rollouts.tasks] with count = 200."
        raise config.error(message, "rollouts")
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
            create=KINDS[kind].samples,
        )
    return JobRun(config, store, resume=resume, fresh=fresh, progress=progress)


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
    report = KINDS[kind].work(job)
    if is_first_process():
        write_plot(job.folder)
    job.remember("ended", True)
    return report
