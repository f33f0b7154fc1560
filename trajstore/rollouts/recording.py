"""Rollouts into a store: each attempt is kept as it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trajstore.rollouts.attempt import EnvironmentFactory, Limits
from trajstore.rollouts.environment import Task
from trajstore.rollouts.policy import Policy
from trajstore.rollouts.runner import run_rollouts
from trajstore.schema import Trajectory

if TYPE_CHECKING:
    from trajstore.store import Store, TrajectoryWriter


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
    skipped: int = 0
    """Attempts that were in the store already and were left out."""


def record_rollouts(  # noqa: PLR0913 - each option is a word of its own
    store: Store,
    make_environment: EnvironmentFactory,
    policies: Sequence[Policy],
    tasks: Sequence[Task],
    *,
    attempts: int = 1,
    seed: int = 0,
    limits: Limits | None = None,
    resume: bool = False,
    commit_s: float = 5.0,
    progress: Callable[[int, int], None] | None = None,
) -> RolloutReport:
    """Let policies attempt tasks and store each attempt as it ends, with all that is known of it.

    What has ended is committed after ``commit_s`` seconds at most, so a process that is killed
    loses no more than that. The same call adds nothing the second time where the policies do the
    same again; with ``resume`` it does not ask them again.

    Args:
        store: where to.
        make_environment: makes a fresh environment for each attempt.
        policies: who acts; each attempts each task.
        tasks: at what.
        attempts: how often each policy attempts each task.
        seed: seed of the whole set.
        limits: steps, seconds, attempts at a time, retries.
        resume: leave out attempts that the store holds and that did not fail for technical reasons.
        commit_s: age of the oldest attempt that has ended and is not committed yet.
        progress: told after each attempt how many of how many have ended.

    Raises:
        ValueError: a number is out of range.
    """
    known = Known(_stored(store) if resume else frozenset())

    def shown(done: int) -> None:
        if progress is not None:
            progress(done + len(known.met), len(policies) * len(tasks) * attempts)

    writer = store.writer(max_seconds=commit_s)
    with writer:
        runs = run_rollouts(
            make_environment,
            policies,
            tasks,
            attempts=attempts,
            seed=seed,
            limits=limits,
            skip=known.meets,
        )
        tallies, first_error = _recorded(runs, writer, shown)
    added = sum(r.added for r in writer.reports)
    return RolloutReport(
        policies=tallies, first_error=first_error, added=added, skipped=len(known.met)
    )


class Known:
    """Ids of attempts or trees that the store holds, and which of them came up."""

    def __init__(self, ids: frozenset[str]) -> None:
        """Take the ids."""
        self._ids = ids
        self.met: set[str] = set()
        """Those that came up."""

    def meets(self, identity: str) -> bool:
        """Whether the store holds it; noted if so."""
        if identity in self._ids:
            self.met.add(identity)
        return identity in self._ids


def _recorded(
    runs: Iterable[Trajectory], writer: TrajectoryWriter, shown: Callable[[int], None]
) -> tuple[dict[str, Tally], str | None]:
    """Store runs as they come; what came of them by policy, and the first error."""
    tallies: dict[str, Tally] = {}
    first_error: str | None = None
    for done, run in enumerate(runs, 1):
        writer.append(run)
        name = run.policy_version or run.agent or ""
        tallies.setdefault(name, Tally()).count(run)
        first_error = first_error or run.error
        shown(done)
    return {name: tallies[name] for name in sorted(tallies)}, first_error


def _stored(store: Store) -> frozenset[str]:
    """Ids of rollouts that need not be repeated."""
    found = store.query(
        "select trajectory_id from trajectories where source = 'rollout' and status <> 'error'"
    )
    return frozenset(name for batch in found for name in batch.column("trajectory_id").to_pylist())
