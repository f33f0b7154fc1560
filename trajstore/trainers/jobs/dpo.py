"""Preference training on runs of agents: sample, pair, prefer, again.

Sources: AgentQ (Putta et al. 2024, 2408.07199) for siblings by ``Q = alpha * Q_search + (1 - alpha)
* Q_critic`` and stored reference log-probabilities; ETO (Song et al. 2024, 2403.02502) for best and
worst runs and the policy of the iteration before as reference; IPR (Xiong et al. 2024, 2406.11176)
for step pairs beside them, a fixed reference, and a share of likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import TrainingError
from trajstore.rollouts import (
    Limits,
    Policy,
    PolicyCritic,
    SearchOptions,
    Task,
    record_searches,
)
from trajstore.schema import LABEL_SCHEMA, Trajectory
from trajstore.store import Reader
from trajstore.trainers.jobs.preference import DpoTable, Paired, pairs_of, with_reference
from trajstore.trainers.jobs.report import JobReport
from trajstore.trainers.jobs.rounds import Rounds
from trajstore.trainers.jobs.run import JobRun
from trajstore.trainers.jobs.sampling import maker_of
from trajstore.trainers.jobs.stored import StoredRuns, runs_of_data, stored_runs, task_draw


def run_dpo(job: JobRun) -> JobReport:
    """Train by preference, online or on what is stored.

    Raises:
        TrainingError: there is nothing to sample at, or there are no pairs.
    """
    settings: DpoTable = job.config.settings
    return _offline(job, settings) if settings.mode == "offline" else _Online(job, settings).run()


def _offline(job: JobRun, settings: DpoTable) -> JobReport:
    stored = runs_of_data(job)
    found = pairs_of(job, stored, _labels(job.reader, stored), settings)
    results: dict[str, Any] = {"runs": len(stored.runs), **_told(found)}
    if not found.pairs:
        raise TrainingError(_none(stored, found))
    start = job.fresh_model()
    reference = None if settings.reference == "stored" else start
    pairs = with_reference(job, found.pairs, reference)
    job.log(**results)
    model = job.train("model", start, pairs, settings.objective(1))
    if job.tasks.held_out:
        measured = job.evaluate(job.policy(model, "model"), "model")
        results |= {"held_out": measured.success_rate, "attempts": measured.n}
    return job.report(model, results)


class _Online(Rounds):
    """Rounds over pairs."""

    fruitless = "no pairs"

    def __init__(self, job: JobRun, settings: DpoTable) -> None:
        super().__init__(job, iterations=settings.iterations, before=settings.before)
        self._settings = settings

    def round(self, policy: Policy, number: int) -> dict[str, Any] | None:
        """One round; None where nothing could be paired."""
        job, settings = self.job, self._settings
        stored = self._sampled(policy, number)
        labels = _labels(job.store.reader(), stored)
        found = pairs_of(job, stored, labels, settings)
        told = {
            "iteration": number,
            "runs": len(stored.runs),
            "train/success_rate": stored.success_rate,
            "train/tool_calls": stored.tool_calls,
            **_told(found),
        }
        job.log(**told)
        if not found.pairs:
            return None
        start = job.fresh_model(self.checkpoint(number - 1))
        reference = {"previous": start, "stored": None}.get(settings.reference)
        if settings.reference == "base":
            reference = job.fresh_model()
        pairs = with_reference(job, found.pairs, reference)
        job.train(f"iteration-{number}", start, pairs, settings.objective(number))
        return told

    def _sampled(self, policy: Policy, number: int) -> StoredRuns:
        """Runs of this round, by single attempts or by search."""
        job, settings = self.job, self._settings
        count = settings.tasks_per_iteration or len(job.tasks.train)
        seed = job.config.job.seed
        tasks = task_draw(job.tasks.train, (number - 1) * count, count, seed)
        version = f"iteration-{number - 1}"
        if settings.search:
            runs = self._searched(policy, tasks, version)
        else:
            runs = job.rollouts(
                policy, tasks, attempts=settings.attempts, version=version, split="train"
            )
        return stored_runs(job.store.reader(), runs)

    def _searched(self, policy: Policy, tasks: Sequence[Task], version: str) -> list[Trajectory]:
        job, settings = self.job, self._settings
        table, seed = job.config.need_rollouts(), job.config.job.seed
        record_searches(
            job.store,
            maker_of(table),
            [policy],
            job.share(tasks),
            options=SearchOptions(
                iterations=settings.attempts,
                expand=settings.expand,
                depth=table.max_steps,
                alpha=settings.alpha,
                critic=PolicyCritic(policy, seed=seed) if settings.self_critique else None,
                seconds=None,
                stop_on_success=False,
            ),
            seed=seed,
            limits=Limits(concurrency=table.concurrency),
            resume=True,
            progress=job.sampler(f"searches of {version}").shown,
        )
        where = f"policy_version = '{job.version(version)}' AND list_contains(tags, 'lats')"
        return list(job.settled().scan(where))


def _labels(reader: Reader, stored: StoredRuns) -> pa.Table:
    """Labels on those runs."""
    columns = ", ".join(LABEL_SCHEMA.names)
    query = f"SELECT {columns} FROM labels ORDER BY trajectory_id, name, step_index, evaluator"
    found = reader.query(query).read_all().cast(LABEL_SCHEMA)
    ids = pa.array([r.trajectory_id for r in stored.runs], pa.string())
    return found.filter(pc.is_in(found.column("trajectory_id"), value_set=ids))


def _none(stored: StoredRuns, found: Paired) -> str:
    """What to say where there is no pair to train on."""
    refused, cut = found.counts["refused"], found.counts["cut"]
    if refused + cut:
        return (
            f"all {refused + cut:,} pairs are left out: {cut:,} of which a side is cut to "
            f"max_tokens, {refused:,} of which a side gives no row, or several; raise max_tokens"
        )
    return f"{len(stored.runs):,} runs give no pair; trajstore pairs tells why"


def _told(found: Paired) -> dict[str, int]:
    return {f"pairs/{name}": count for name, count in found.counts.items()}
