"""Rounds of sampling and training, as DPO and GRPO go through them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from trajstore.rollouts import Policy
from trajstore.trainers.jobs.report import JobReport
from trajstore.trainers.jobs.run import JobRun


class Rounds(ABC):
    """Each round samples with the weights of the one before, and trains them on what came of it.

    Weights are named ``iteration-0`` (what the job starts from), ``iteration-1`` and so on. What a
    round brought is remembered once it has ended, so a job that is killed repeats no round.
    """

    fruitless: str
    """Why there is nothing more to do, where a round finds nothing to train on."""

    def __init__(self, job: JobRun, *, iterations: int, before: bool) -> None:
        """Take up where an earlier start of the job ended.

        Args:
            job: at work.
            iterations: rounds at most.
            before: whether to measure what the job starts from.

        Raises:
            TrainingError: there are no tasks to sample at.
        """
        if not job.tasks.train:
            kind = job.config.kind
            message = (
                f"This job samples, so it needs [rollouts.tasks] with count = 200, or mode = "
                f"'offline' in [{kind}] to train on the runs that [data] names."
            )
            raise job.config.error(message, "rollouts")
        self.job = job
        self._iterations = iterations
        self._before = before
        known = job.recall("rounds", {"told": [], "held_out": []})
        self.done: list[dict[str, Any]] = known["told"]
        """What each round told."""
        self._rates: list[float] = known["held_out"]

    @abstractmethod
    def round(self, policy: Policy, number: int) -> dict[str, Any] | None:
        """Sample and train.

        Args:
            policy: with the weights of the round before.
            number: of the round, from 1.

        Returns:
            What is worth telling; None where there is nothing to train on.
        """

    def ended(self) -> str | None:
        """Why there is no further round, where there is none."""
        return "iterations" if len(self.done) >= self._iterations else None

    def run(self) -> JobReport:
        """All rounds that are not done yet."""
        policy = self._policy(len(self.done))
        if self._before and not self._rates:
            self._measure(policy, 0)
            self._remember()
        while (reason := self.ended()) is None:
            number = len(self.done) + 1
            told = self.round(policy, number)
            if told is None:
                reason = self.fruitless
                break
            policy = self._policy(number)
            self._measure(policy, number)
            self.done = [*self.done, told]
            self._remember()
        results = {"iterations": len(self.done), "ended": reason, "held_out": self._rates}
        return self.job.report(self.checkpoint(len(self.done)), results)

    def checkpoint(self, number: int) -> Path | None:
        """Folder of the weights that a round gave; None for those that the job starts from."""
        return self.job.folder / f"iteration-{number}" if number else None

    def _policy(self, number: int) -> Policy:
        folder = self.checkpoint(number) or self.job.base
        return self.job.policy(folder, f"iteration-{number}")

    def _measure(self, policy: Policy, number: int) -> None:
        job = self.job
        if not job.tasks.held_out:
            return
        found = job.evaluate(policy, f"iteration-{number}")
        self._rates = [*self._rates, found.success_rate]

    def _remember(self) -> None:
        """Keep what is done as one value, so that no round is half remembered."""
        self.job.remember("rounds", {"told": self.done, "held_out": self._rates})
