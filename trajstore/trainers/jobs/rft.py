"""Rejection sampling: many attempts, the best distinct ones of each task, one round of SFT.

Source: Yuan et al. 2023 (2308.01825): sample, keep what is right, drop what reasons the same way
(there the list of equations, here the sequence of canonical actions), train on what is left and on
the data that was there before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trajstore.errors import TrainingError
from trajstore.schema import Trajectory, canonical_action, counted
from trajstore.trainers.jobs.report import JobReport
from trajstore.trainers.jobs.run import JobRun
from trajstore.trainers.objectives import Sft


@dataclass(frozen=True, slots=True, kw_only=True)
class RftTable:
    """The table ``[rft]``. ``[rollouts.tasks] attempts`` says how many samples a task has."""

    keep: int = 2
    """Runs of a task that are trained on, the highest reward first, then the shortest."""
    distinct: bool = True
    """Never two of the same actions in the same order, whatever was said."""
    only_success: bool = True
    """Only right runs; otherwise all with a reward."""
    before: bool = True
    """Also measure the base on the held-out tasks, where there are any."""

    def check(self) -> None:
        """Check the range."""
        if self.keep < 1:
            raise TrainingError(f"keep starts at 1, not {self.keep}.")


def run_rft(job: JobRun) -> JobReport:
    """Sample, keep the best, train the base on them and on the runs that ``[data]`` names."""
    settings: RftTable = job.config.settings
    table = job.config.need_rollouts()
    attempts = table.tasks.attempts if table.tasks else 1
    policy = job.policy(job.base, "base")
    if settings.before and job.tasks.held_out:
        job.evaluate(policy, "base")
    runs = job.rollouts(policy, job.tasks.train, attempts=attempts, version="base", split="train")
    kept = best_runs(runs, settings)
    if not kept:
        message = (
            f"not one of {len(runs):,} runs is worth training on; begin with a model that solves "
            "some tasks, or give [rollouts.tasks] more attempts"
        )
        raise TrainingError(message)
    made = job.examples([*kept, *_originals(job)])
    model = job.train("model", job.fresh_model, made.rows, Sft())
    results = {
        "runs": len(runs),
        "success_rate": sum(r.success is True for r in runs) / len(runs),
        "kept": len(kept),
        "rows": len(made.rows),
        "refused": len(made.refused),
        **made.unused,
    }
    job.log(version="base", **{f"train/{name}": value for name, value in results.items()})
    if job.tasks.held_out:
        found = job.evaluate(job.policy(model, "model"), "model")
        results["held_out"] = found.success_rate
    return job.report(model, results)


def _originals(job: JobRun) -> Iterator[Trajectory]:
    """The runs that the paper calls the original data: those of ``[data]``, if it names any."""
    data = job.config.data
    if data.where is not None or data.selection is not None:
        held_out = {t.task_id for t in job.tasks.held_out}
        yield from (run for run in job.runs() if run.task_id not in held_out)


def best_runs(runs: Sequence[Trajectory], settings: RftTable) -> list[Trajectory]:
    """The runs of each task that are kept, in order of tasks, the best first."""
    by_task: dict[str, list[Trajectory]] = {}
    for run in runs:
        if run.success or (not settings.only_success and run.reward is not None):
            by_task.setdefault(run.task_id, []).append(run)
    kept: list[Trajectory] = []
    for found in by_task.values():
        ranked = sorted(found, key=_rank)
        kept += (_distinct(ranked) if settings.distinct else ranked)[: settings.keep]
    return kept


def _rank(run: Trajectory) -> tuple[float, int, str]:
    return (-(run.reward or 0.0), run.n_agent_steps, run.trajectory_id)


def _distinct(runs: Sequence[Trajectory]) -> list[Trajectory]:
    """Those whose actions none before them has."""
    seen: set[tuple[str, ...]] = set()
    made = []
    for run in runs:
        done = actions_of(run)
        if done not in seen:
            made.append(run)
        seen.add(done)
    return made


def actions_of(run: Trajectory) -> tuple[str, ...]:
    """The canonical actions of a run: tool and arguments, whatever was said around them."""
    return tuple(
        canonical_action(call.name, call.arguments or call.arguments_raw)
        for step in run.steps
        if counted(step)
        for call in step.tool_calls
    )
