"""Searches into a store: the whole tree of each, its values and its lessons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trajstore.rollouts.attempt import EnvironmentFactory, Limits
from trajstore.rollouts.environment import Task
from trajstore.rollouts.policy import Policy
from trajstore.rollouts.recording import Known, Tally
from trajstore.rollouts.search import search_rollouts
from trajstore.rollouts.search_options import DEFAULT_SEARCH, SearchOptions, SearchTree
from trajstore.rollouts.tree_runs import TAG

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
    skipped: int = 0
    """Searches whose tree was in the store already and that were left out."""


def record_searches(  # noqa: PLR0913 - each option is a word of its own
    store: Store,
    make_environment: EnvironmentFactory,
    policies: Sequence[Policy],
    tasks: Sequence[Task],
    *,
    options: SearchOptions = DEFAULT_SEARCH,
    seed: int = 0,
    limits: Limits | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SearchReport:
    """Let policies search at tasks, and store each tree when its search ends.

    Every run of a tree is a trajectory of agent ``lats``, tagged ``lats``; the one that is handed
    in is tagged ``lats-best``. Values of actions are step labels ``q_search`` and ``q_critic``, and
    lessons of failed runs are reflections. A tree and its values are one commit, so a process that
    is killed leaves whole trees and loses the searches under way. The same call adds nothing the
    second time where the policies do the same again; with ``resume`` it does not ask them again.

    Args:
        store: where to.
        make_environment: makes a fresh environment.
        policies: who acts; each searches at each task.
        tasks: at what.
        options: how wide, how deep and how long each search goes.
        seed: of the whole set.
        limits: searches at a time and retries of calls.
        resume: leave out searches whose tree the store holds, if it did not end for technical
            reasons. A tree depends on task, policy, version, seed and options.
        progress: told after each search how many of how many have ended.

    Raises:
        ValueError: a number is out of range.
    """
    known = Known(_stored(store) if resume else frozenset())
    tallies: dict[str, SearchTally] = {}
    first_error, added = None, 0
    trees = search_rollouts(
        make_environment,
        policies,
        tasks,
        options=options,
        seed=seed,
        limits=limits,
        skip=known.meets,
        in_order=False,
    )
    for done, tree in enumerate(trees, 1):
        added += _keep(store, tree)
        tallies.setdefault(tree.policy, SearchTally()).count_in(tree)
        first_error = first_error or tree.error
        if progress is not None:
            progress(done + len(known.met), len(policies) * len(tasks))
    return SearchReport(
        policies={n: tallies[n] for n in sorted(tallies)},
        first_error=first_error,
        added=added,
        skipped=len(known.met),
    )


def _keep(store: Store, tree: SearchTree) -> int:
    """Store a tree, its lessons first: where its runs are, nothing of it is missing."""
    if tree.reflections:
        store.add_reflections(tree.reflections)
    if not tree.runs:
        return 0
    return store.append([*tree.runs, *tree.labels]).added


def _stored(store: Store) -> frozenset[str]:
    """Ids of trees that need not be searched again."""
    found = store.query(
        "select metadata->>'$.lats.tree' as tree from trajectories "
        f"where source = 'rollout' and list_contains(tags, '{TAG}') "
        "and metadata->>'$.lats.stopped' not in ('error', 'cancelled') group by all"
    )
    return frozenset(str(name) for batch in found for name in batch.column("tree"))
