"""Rollouts into a store: each attempt is kept as it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trajstore.rollouts.attempt import EnvironmentFactory, Limits
from trajstore.rollouts.environment import Task
from trajstore.rollouts.policy import Policy
from trajstore.rollouts.runner import run_rollouts
from trajstore.schema import Trajectory

if TYPE_CHECKING:
    from trajstore.store import Store


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came of the attempts of one policy."""

    attempts: int = 0
    """How many ended."""
    solved: int = 0
    """Those that the environment's evaluator calls a success."""
    errors: int = 0
    """Those that failed for technical reasons."""
    truncated: int = 0
    """Those that a limit cut off."""
    steps: int = 0
    """Steps of the agent in all of them."""
    rewards: float = 0.0
    """Sum of the rewards that are known."""
    rewarded: int = 0
    """Attempts whose reward is known."""

    @property
    def success_rate(self) -> float:
        """Share of the attempts that were solved, from 0 to 1."""
        return self.solved / self.attempts if self.attempts else 0.0

    @property
    def mean_reward(self) -> float | None:
        """Mean of the rewards that are known; None where none is."""
        return self.rewards / self.rewarded if self.rewarded else None

    def count(self, run: Trajectory) -> None:
        """Count an attempt in."""
        self.attempts += 1
        self.solved += run.success is True
        self.errors += run.status == "error"
        self.truncated += run.status == "truncated"
        self.steps += sum(step.actor == "agent" for step in run.steps)
        if run.reward is not None:
            self.rewards += run.reward
            self.rewarded += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutReport:
    """What was run and stored."""

    policies: dict[str, Tally] = field(default_factory=dict)
    """By version of the policy, or its agent where it has none."""
    first_error: str | None = None
    """What the first attempt that failed for technical reasons says."""
    added: int
    """Attempts that were not in the store yet."""


def record_rollouts(
    store: Store,
    make_environment: EnvironmentFactory,
    policies: Sequence[Policy],
    tasks: Sequence[Task],
    *,
    attempts: int = 1,
    seed: int = 0,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RolloutReport:
    """Let policies attempt tasks and store each attempt as it ends, with all that is known of it.

    What has ended is committed after five seconds at most, so an interruption costs no more than
    that. The same call adds nothing the second time where the policies do the same again.

    Args:
        store: where to.
        make_environment: makes a fresh environment for each attempt.
        policies: who acts; each attempts each task.
        tasks: at what.
        attempts: how often each policy attempts each task.
        seed: seed of the whole set.
        limits: steps, seconds, attempts at a time, retries.
        progress: told after each attempt how many of how many have ended.

    Raises:
        ValueError: a number is out of range.
    """
    tallies: dict[str, Tally] = {}
    first_error: str | None = None
    total = len(policies) * len(tasks) * attempts
    writer = store.writer()
    with writer:
        runs = run_rollouts(
            make_environment, policies, tasks, attempts=attempts, seed=seed, limits=limits
        )
        for done, run in enumerate(runs, 1):
            writer.append(run)
            name = run.policy_version or run.agent or ""
            tallies.setdefault(name, Tally()).count(run)
            first_error = first_error or run.error
            if progress is not None:
                progress(done, total)
    added = sum(r.added for r in writer.reports)
    return RolloutReport(
        policies={n: tallies[n] for n in sorted(tallies)}, first_error=first_error, added=added
    )
