"""STaR: attempt, keep what is right, explain what is wrong with a hint, train from the base, again.

Source: Zelikman et al. 2022 (2203.14465) and the authors' code: the base is trained anew in each
iteration, for more steps each time, and generation uses the newest model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajstore.errors import TrainingError
from trajstore.rollouts import Policy, Task
from trajstore.schema import Trajectory
from trajstore.trainers.jobs.rationalise import HINT, hinted, without_hint
from trajstore.trainers.jobs.report import JobReport
from trajstore.trainers.jobs.run import JobRun
from trajstore.trainers.jobs.sampling import limits_of, maker_of, versioned
from trajstore.trainers.objectives import Sft
from trajstore.trainers.tokenise import Facts

_LONGEST_ANSWER = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StarTable:
    """The table ``[star]``."""

    iterations: int = 5
    """Rounds at most."""
    per_task: int = 1
    """Correct runs of a task that are trained on, the shortest first; the rest say the same."""
    rationalise: bool = True
    """Attempt what was never solved again with the answer as a hint, and keep what is right then.
    The hint is in no stored run."""
    hint: str = HINT
    """What is put behind the question; ``{answer}`` stands for the answer."""
    fewest_calls: int = 0
    """Tool calls that a run needs to be kept: with the answer before its eyes a model may give it
    back without working it out."""
    growth: float = 1.2
    """Each iteration trains so many times as long as the one before it (the authors' code: 1.2)."""
    tolerance: float = 0.01
    """Stop once an iteration raises the success rate on held-out tasks by less than this, 0 to 1;
    a negative number never stops."""

    def check(self) -> None:
        """Check the ranges."""
        if self.iterations < 1 or self.per_task < 1 or self.growth <= 0 or self.fewest_calls < 0:
            message = (
                "iterations and per_task start at 1, fewest_calls at 0, and growth is above 0: "
                f"{self.iterations}, {self.per_task}, {self.fewest_calls}, {self.growth}."
            )
            raise TrainingError(message)
        if self.rationalise and "{answer}" not in self.hint:
            raise TrainingError("hint needs {answer} in it, or there is nothing to go by.")


def run_star(job: JobRun) -> JobReport:
    """Iterate until nothing more is gained; the model of the best iteration is the result."""
    settings: StarTable = job.config.settings
    _check_answers(job, settings)
    models: list[Path] = [job.base]
    rates = [_measured(job, 0, job.base)]
    for number in range(1, settings.iterations + 1):
        models.append(_iterated(job, settings, number, models[-1]))
        rates.append(_measured(job, number, models[-1]))
        if _converged(rates, settings.tolerance):
            break
    best = max(range(len(rates)), key=lambda i: (rates[i] or 0.0, -i))
    best = best if job.tasks.held_out else len(models) - 1
    return job.report(
        models[best],
        {
            "iterations": len(models) - 1,
            "best": best,
            "held_out": [r for r in rates if r is not None],
        },
    )


def _check_answers(job: JobRun, settings: StarTable) -> None:
    told = [t for t in job.tasks.train if t.answer and len(t.answer) <= _LONGEST_ANSWER]
    if settings.rationalise and len(told) < len(job.tasks.train):
        message = (
            "The tasks of this environment have no short answer to hint at; write "
            "rationalise = false."
        )
        raise job.config.error(message, "star", "rationalise")


def _measured(job: JobRun, number: int, model: Path) -> float | None:
    """Success on held-out tasks after an iteration; None where there are none."""
    if not job.tasks.held_out:
        return None
    name = f"iteration-{number}"
    known: float | None = job.recall(f"{name}/held_out")
    if known is None:
        known = job.evaluate(job.policy(model, name), name).success_rate
        job.remember(f"{name}/held_out", known)
    return known


def _converged(rates: Sequence[float | None], tolerance: float) -> bool:
    if rates[-1] is None or rates[-2] is None:
        return False
    return rates[-1] - rates[-2] < tolerance


def _iterated(job: JobRun, settings: StarTable, number: int, model: Path) -> Path:
    """One round: sample with the newest model, train the base on what is right."""
    name = f"iteration-{number}"
    if job.recall(f"{name}/trained"):
        return job.folder / name
    table = job.config.need_rollouts()
    version = f"iteration-{number - 1}"
    policy = job.policy(model, version)
    attempts = table.tasks.attempts if table.tasks else 1
    runs = job.rollouts(policy, job.tasks.train, attempts=attempts, version=version, split="train")
    kept = correct_runs(runs, settings)
    solved = {r.task_id for r in kept}
    unsolved = [t for t in job.tasks.train if t.task_id not in solved]
    explained: list[Trajectory] = []
    if settings.rationalise and unsolved:
        explained = correct_runs(
            _explained(job, settings, policy, version, unsolved, runs), settings
        )
    if not kept and not explained:
        message = (
            f"iteration {number}: not one of {len(runs):,} runs is right, so there is nothing to "
            "learn from; begin with a model that solves some tasks (trajstore train sft), or give "
            "[rollouts.tasks] more attempts"
        )
        raise TrainingError(message)
    made = job.examples([*kept, *explained], facts=lambda _: Facts())
    growth = settings.growth ** (number - 1)
    training = job.config.training
    folder = job.train(
        name,
        job.fresh_model,
        made.rows,
        Sft(),
        steps=None if training.steps is None else max(1, round(training.steps * growth)),
        epochs=None if training.steps is not None else (training.epochs or 1.0) * growth,
    )
    job.log(
        version=name,
        **{
            "train/success_rate": sum(r.success is True for r in runs) / len(runs),
            "train/kept": len(kept),
            "train/rationalised": len(explained),
            "train/unsolved": len(unsolved) - len(explained),
            "train/refused": len(made.refused),
            **{f"train/{name}": count for name, count in made.unused.items()},
        },
    )
    job.remember(f"{name}/trained", True)
    return folder


def correct_runs(runs: Sequence[Trajectory], settings: StarTable) -> list[Trajectory]:
    """The right runs of each task, the shortest first, ``per_task`` at most; in order of tasks."""
    by_task: dict[str, list[Trajectory]] = {}
    for run in runs:
        if run.success and run.n_tool_calls >= settings.fewest_calls:
            by_task.setdefault(run.task_id, []).append(run)
    return [
        run for found in by_task.values() for run in sorted(found, key=_length)[: settings.per_task]
    ]


def _length(run: Trajectory) -> tuple[int, int, str]:
    return (run.n_format_errors + run.n_tool_errors, run.n_agent_steps, run.trajectory_id)


def _explained(
    job: JobRun,
    settings: StarTable,
    policy: Policy,
    version: str,
    tasks: Sequence[Task],
    failed: Sequence[Trajectory],
) -> list[Trajectory]:
    """Attempts at tasks with a hint; right ones are stored without it."""
    table = job.config.need_rollouts()
    of_task: Mapping[str, Task] = {t.task_id: t for t in tasks}
    parents: dict[str, str] = {}
    for run in failed:
        parents.setdefault(run.task_id, run.trajectory_id)

    def stored(run: Trajectory) -> Trajectory | None:
        task = of_task[run.task_id]
        clean = without_hint(run, task, settings.hint, parent_id=parents.get(run.task_id))
        return clean if clean is not None and clean.success else None

    sampler: Any = job.sampler(f"hinted rollouts of {version}")
    found: list[Trajectory] = sampler.runs(
        hinted(maker_of(table), settings.hint),
        versioned_as_hinted(job, policy, version),
        tasks,
        attempts=1,
        limits=limits_of(table),
        tags=("train", "rationalised"),
        change=stored,
    )
    return found


def versioned_as_hinted(job: JobRun, policy: Policy, version: str) -> Policy:
    """The policy under a version of its own, so that hinted runs are not counted as its runs."""
    return versioned(policy, job.version(f"{version}-hinted"))
