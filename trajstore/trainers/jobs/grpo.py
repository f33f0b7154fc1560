"""GRPO on runs of agents: sample groups, compare inside each, move the policy, again.

Sources: Shao et al. 2024 (2402.03300) for the algorithm, Yu et al. 2025 (DAPO, 2503.14476) for
dynamic sampling and the mean over tokens, Mai et al. 2025 (ZeroTIR, 2505.07773) for the number of
tool calls as a sign of learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trajstore.errors import TrainingError
from trajstore.pairs import (
    Credit,
    GroupOptions,
    GroupReport,
    RunRules,
    StdConvention,
    Variant,
    group_advantages,
    rtmc_advantages,
    turn_advantages,
)
from trajstore.rollouts import Policy
from trajstore.schema import Trajectory
from trajstore.trainers.jobs.config import check_not_negative, check_positive
from trajstore.trainers.jobs.curriculum import TaskChoice, TaskChooser, tried
from trajstore.trainers.jobs.examples import Examples
from trajstore.trainers.jobs.report import JobReport
from trajstore.trainers.jobs.rounds import Rounds
from trajstore.trainers.jobs.run import JobRun
from trajstore.trainers.jobs.stored import StoredRuns, runs_of_data, stored_runs
from trajstore.trainers.logprobs import with_logprobs
from trajstore.trainers.losses import Aggregation, Ratio
from trajstore.trainers.objectives import Grpo
from trajstore.trainers.rows import TokenRow
from trajstore.trainers.tokenise import Facts

Advantage = Literal["grpo", "rloo", "dr_grpo", "rtmc", "gigpo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpoTable:
    """The table ``[grpo]``."""

    mode: Literal["online", "offline"] = "online"
    """``online`` samples in every iteration; ``offline`` trains once on the runs that ``[data]``
    names."""
    iterations: int = 10
    """Rounds of sampling and training at most."""
    tasks_per_iteration: int | None = None
    """Tasks of a round; all where not given."""
    attempts: int = 8
    """Runs of a group (4 to 16 in the papers)."""
    draws: int = 1
    """How often a round draws more tasks while it has fewer groups with a signal than
    ``tasks_per_iteration`` (DAPO's dynamic sampling); 1 never draws again."""
    advantage: Advantage = "grpo"
    """``grpo``, ``rloo``, ``dr_grpo``: of whole runs; ``rtmc``, ``gigpo``: of single steps."""
    std: StdConvention = "population"
    """Standard deviation of a group; TRL takes ``sample``."""
    criterion: str = "reward"
    """What runs are worth: ``reward``, ``success``, or the name of a label."""
    drop_same_verdict: bool = True
    """Leave out groups of which every run passed or every run failed, whatever their rewards."""
    max_staleness: int = 0
    """Also train on runs of so many earlier versions, with the log-probabilities that they were
    sampled with."""
    mask_truncated: bool = False
    """Runs that were cut off count in their group and are not trained on."""
    ratio: Ratio = "behaviour"
    """What the clip is anchored at."""
    aggregation: Aggregation = "dapo"
    """What the loss is a mean over."""
    clip_low: float = 0.2
    """How far below 1 the ratio may go."""
    clip_high: float = 0.28
    """How far above (0.28: DAPO)."""
    kl_coef: float = 0.0
    """Share of the KL to the weights that the job starts from."""
    tis_cap: float = 2.0
    """Greatest correction in mode ``recomputed``."""
    curriculum: TaskChoice = "shuffled"
    """Which tasks come next; others than ``shuffled`` go by how often a task was passed."""
    explore: float = 0.25
    """Share of tasks that were never tried, where there is a curriculum."""
    stop_patience: int | None = None
    """End once the tool calls of a run have not risen for so many rounds; None never does."""
    stop_within: float = 0.02
    """A rise by less than this share is none."""
    before: bool = True
    """Also measure the weights that the job starts from."""

    def check(self) -> None:
        """Check the ranges."""
        for name in ("iterations", "tasks_per_iteration", "draws", "stop_patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TrainingError(f"{name} starts at 1, not {value}.")
        check_positive("tis_cap", self.tis_cap)
        check_positive("clip_high", self.clip_high)
        check_not_negative("kl_coef", self.kl_coef)
        if not 0 < self.clip_low < 1:
            raise TrainingError(f"clip_low is between 0 and 1, not {self.clip_low}.")
        if self.attempts < 2:
            raise TrainingError(f"attempts = {self.attempts} compares nothing; give 2 or more.")
        if self.max_staleness < 0 or not 0 <= self.explore <= 1:
            raise TrainingError("max_staleness starts at 0, and explore is from 0 to 1.")
        if self.max_staleness and self.ratio == "snapshot":
            message = "ratio = 'snapshot' takes stale runs for fresh ones; give max_staleness = 0."
            raise TrainingError(message)

    def objective(self, max_tokens: int | None) -> Grpo:
        """The loss."""
        return Grpo(
            aggregation=self.aggregation,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            kl_coef=self.kl_coef,
            ratio=self.ratio,
            tis_cap=self.tis_cap,
            max_tokens=max_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Runs with what is known of each."""

    facts: Mapping[str, Facts]
    """By run; runs of groups that were left out are not there."""
    report: GroupReport
    """What became of the others."""


def grouped(stored: StoredRuns, settings: GrpoTable, current_version: int | None) -> Groups:
    """The advantages of runs, by :mod:`trajstore.pairs`.

    Attempts by one version of the policy at one task are a group; offline, attempts by any.

    Args:
        stored: the runs.
        settings: how.
        current_version: number of the policy in training; the newest one where None.
    """
    rules = RunRules(truncated="keep", criterion=settings.criterion)
    whole: Mapping[str, Variant] = {"rloo": "rloo", "dr_grpo": "dr_grpo"}
    online = settings.mode == "online"
    options = GroupOptions(
        variant=whole.get(settings.advantage, "grpo"),
        std=settings.std,
        by=("task_id", "policy_version") if online else ("task_id",),
        no_signal="drop-same-verdict" if settings.drop_same_verdict else "drop-zero-variance",
        max_staleness=settings.max_staleness if online or settings.max_staleness else None,
        current_version=current_version,
        runs=rules,
    )
    groups, report = group_advantages(stored.rows, options=options)
    columns = (groups.column(n) for n in ("trajectory_id", "group_id", "advantage"))
    members = [(i.as_py(), g.as_py(), a.as_py()) for i, g, a in zip(*columns, strict=True)]
    if settings.advantage in {"rtmc", "gigpo"}:
        give = rtmc_advantages if settings.advantage == "rtmc" else turn_advantages
        by_step = _by_step(give(stored.rows, stored.runs), stored.runs)
        facts = {i: Facts(advantages=by_step[i], group_id=g) for i, g, _ in members}
    else:
        facts = {i: Facts(advantages=a, group_id=g) for i, g, a in members}
    return Groups(facts=facts, report=report)


def _by_step(credit: Credit, runs: Sequence[Trajectory]) -> dict[str, dict[int, float]]:
    """Credit of each step; 0 where there is none, as at the second visit of a state."""
    found = {r.trajectory_id: dict.fromkeys(range(len(r.steps)), 0.0) for r in runs}
    columns = (credit.rows.column(n) for n in ("trajectory_id", "step_index", "value"))
    for run, step, value in zip(*columns, strict=True):
        found[run.as_py()][step.as_py()] = value.as_py()
    return found


def run_grpo(job: JobRun) -> JobReport:
    """Train by groups, online or on what is stored.

    Raises:
        TrainingError: there is nothing to sample at, or no group has a signal.
    """
    settings: GrpoTable = job.config.settings
    return _offline(job, settings) if settings.mode == "offline" else _Online(job, settings).run()


def _offline(job: JobRun, settings: GrpoTable) -> JobReport:
    stored = runs_of_data(job)
    groups = grouped(stored, settings, None)
    results: dict[str, Any] = {"runs": len(stored.runs), **_told(groups.report)}
    if not groups.facts:
        raise TrainingError(f"no group has a signal to train on:\n{groups.report.explain()}")
    start = job.fresh_model()
    examples = _examples(job, settings, stored, groups)
    rows = _anchored(job, settings, examples.rows, start, None)
    model = job.train("model", start, rows, settings.objective(_longest(rows)))
    results |= {"rows": len(rows), "refused": len(examples.refused), **examples.unused}
    job.log(**results)
    if job.tasks.held_out:
        found = job.evaluate(job.policy(model, "model"), "model")
        results |= {"held_out": found.success_rate, "attempts": found.n}
    return job.report(model, results)


class _Online(Rounds):
    """Rounds over groups."""

    fruitless = "no group has a signal"

    def __init__(self, job: JobRun, settings: GrpoTable) -> None:
        super().__init__(job, iterations=settings.iterations, before=settings.before)
        self._settings = settings
        self._chooser = TaskChooser(
            tasks=job.tasks.train,
            choice=settings.curriculum,
            explore=settings.explore,
            seed=job.config.job.seed,
        )

    def round(self, policy: Policy, number: int) -> dict[str, Any] | None:
        """One round; None where no group has a signal."""
        job, settings, checkpoint = self.job, self._settings, self.checkpoint(number - 1)
        stored, groups = self._sampled(policy, number)
        told = {
            "iteration": number,
            "runs": len(stored.runs),
            "train/success_rate": stored.success_rate,
            "train/tool_calls": stored.tool_calls,
            **_told(groups.report),
        }
        if not groups.facts:
            job.log(**told)
            return None
        examples = _examples(job, settings, stored, groups)
        start = job.fresh_model(checkpoint)
        rows = _anchored(job, settings, examples.rows, start, checkpoint)
        told |= {"rows": len(rows), **examples.unused}
        job.log(**told)
        job.train(f"iteration-{number}", start, rows, settings.objective(_longest(rows)))
        return told

    def _sampled(self, policy: Policy, number: int) -> tuple[StoredRuns, Groups]:
        """Runs of this round and of the staleness window, until enough groups have a signal."""
        job, settings = self.job, self._settings
        wanted = settings.tasks_per_iteration or len(job.tasks.train)
        runs: dict[str, Trajectory] = {}
        for draw in range(settings.draws):
            tasks = self._chooser.chosen(
                tried(job.store, job.series, number - 2),
                wanted,
                place=(number - 1) * settings.draws + draw,
                solved=[told["train/success_rate"] for told in self.done],
                rounds=settings.iterations,
            )
            found = job.rollouts(
                policy,
                tasks,
                attempts=settings.attempts,
                version=f"iteration-{number - 1}",
                split="train",
            )
            runs |= {r.trajectory_id: r for r in found}
            stored = stored_runs(job.store.reader(), [*runs.values(), *self._stale(number)])
            groups = grouped(stored, settings, number - 1)
            if groups.report.groups >= wanted:
                break
        return stored, groups

    def _stale(self, number: int) -> list[Trajectory]:
        """Runs of earlier rounds that are not too old."""
        first = max(0, number - 1 - self._settings.max_staleness)
        versions = [self.job.version(f"iteration-{n}") for n in range(first, number - 1)]
        if not versions:
            return []
        named = ", ".join(f"'{v}'" for v in versions)
        where = f"policy_version IN ({named}) AND list_contains(tags, 'train')"
        return list(self.job.store.scan(where))

    def ended(self) -> str | None:
        """Why there is no further round."""
        settings = self._settings
        calls = [told["train/tool_calls"] for told in self.done]
        if settings.stop_patience and is_flat(calls, settings.stop_patience, settings.stop_within):
            return "tool calls no longer rise"
        return super().ended()


def is_flat(values: Sequence[float], patience: int, within: float) -> bool:
    """Whether none of the last values is above the best one before them by more than a share.

    >>> is_flat([1.0, 2.0, 2.01, 2.0], 2, 0.02), is_flat([1.0, 2.0, 2.5], 2, 0.02)
    (True, False)

    Args:
        values: one a round.
        patience: how many of the last are looked at; with no value before them, it is not flat.
        within: the share.
    """
    before, last = values[:-patience], values[-patience:]
    return bool(before) and max(last) <= max(before) * (1 + within)


def _examples(job: JobRun, settings: GrpoTable, stored: StoredRuns, groups: Groups) -> Examples:
    """Rows of the runs that are in groups; format errors are trained on, as all that was done."""
    chosen = [
        run
        for run in stored.runs
        if run.trajectory_id in groups.facts
        and not (settings.mask_truncated and run.status == "truncated")
    ]
    options = replace(job.row_options(), train_format_errors=True)
    found = job.examples(chosen, facts=lambda r: groups.facts[r.trajectory_id], options=options)
    if not found.rows:
        first = found.refused[0].reason if found.refused else "all were cut off (mask_truncated)"
        raise TrainingError(f"none of {len(chosen):,} runs can be trained on; the first: {first}")
    return found


def _anchored(
    job: JobRun, settings: GrpoTable, rows: list[TokenRow], start: Any, checkpoint: Path | None
) -> list[TokenRow]:
    """Rows with the log-probabilities that the loss compares with."""
    if settings.ratio != "behaviour":
        rows = with_logprobs(rows, start, "snapshot_logprobs")
    if settings.kl_coef:
        reference = start if checkpoint is None else job.fresh_model()
        rows = with_logprobs(rows, reference, "ref_logprobs")
    return rows


def _longest(rows: Sequence[TokenRow]) -> int:
    return max(r.n_action_tokens for r in rows)


def _told(report: GroupReport) -> dict[str, Any]:
    return {"groups": report.groups, "groups_dropped": report.groups_dropped}
