"""Searches into a store: the whole tree of each, its values and its lessons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trajstore.rollouts.attempt import EnvironmentFactory, Limits
from trajstore.rollouts.environment import Task
from trajstore.rollouts.policy import Policy
from trajstore.rollouts.recording import Tally
from trajstore.rollouts.search import search_rollouts
from trajstore.rollouts.search_options import DEFAULT_SEARCH, SearchOptions, SearchTree
from trajstore.schema import Label, Trajectory

if TYPE_CHECKING:
    from trajstore.store import Store


@dataclass(slots=True, kw_only=True)
class SearchTally(Tally):
    """What came of the searches of one policy; attempts are the runs that were handed in."""

    runs: int = 0
    """Runs of all trees together."""
    calls: int = 0
    """Calls of the policy."""
    cached: int = 0
    """Questions to it that had been asked before."""
    merged: int = 0
    """Samples that were the same action as one before them."""

    def count_in(self, tree: SearchTree) -> None:
        """Count a search in."""
        if tree.best is None:
            self.attempts += 1
            self.errors += tree.stopped == "error"
        else:
            self.count(tree.best)
        self.runs += len(tree.runs)
        self.calls += tree.calls
        self.cached += tree.cached
        self.merged += tree.merged


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """What was searched and stored."""

    policies: dict[str, SearchTally] = field(default_factory=dict)
    """By version of the policy, or its agent where it has none."""
    first_error: str | None = None
    """What the first search in which something failed for technical reasons says."""
    added: int
    """Runs that were not in the store yet."""


def record_searches(
    store: Store,
    make_environment: EnvironmentFactory,
    policies: Sequence[Policy],
    tasks: Sequence[Task],
    *,
    options: SearchOptions = DEFAULT_SEARCH,
    seed: int = 0,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SearchReport:
    """Let policies search at tasks, and store each tree when its search ends.

    Every run of a tree is a trajectory of agent ``lats``, tagged ``lats``; the one that is handed
    in is tagged ``lats-best``. Values of actions are step labels ``q_search`` and ``q_critic``, and
    lessons of failed runs are reflections. The same call adds nothing the second time.

    Args:
        store: where to.
        make_environment: makes a fresh environment.
        policies: who acts; each searches at each task.
        tasks: at what.
        options: how wide, how deep and how long each search goes.
        seed: of the whole set.
        limits: searches at a time and retries of calls.
        progress: told after each search how many of how many have ended.

    Raises:
        ValueError: a number is out of range.
    """
    tallies: dict[str, SearchTally] = {}
    first_error: str | None = None
    names = [policy.version or policy.agent for _ in tasks for policy in policies]
    writer = store.writer()
    with writer:
        trees = search_rollouts(
            make_environment,
            policies,
            tasks,
            options=options,
            seed=seed,
            limits=limits,
        )
        for done, (name, tree) in enumerate(zip(names, trees, strict=True), 1):
            items: tuple[Trajectory | Label, ...] = (*tree.runs, *tree.labels)
            for item in items:
                writer.append(item)
            if tree.reflections:
                store.add_reflections(tree.reflections)
            tallies.setdefault(name, SearchTally()).count_in(tree)
            first_error = first_error or tree.error
            if progress is not None:
                progress(done, len(names))
    added = sum(report.added for report in writer.reports)
    return SearchReport(
        policies={n: tallies[n] for n in sorted(tallies)}, first_error=first_error, added=added
    )
