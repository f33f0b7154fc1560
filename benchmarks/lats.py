"""A weak policy with and without tree search, for the same number of model calls.

Every way of working may use the environment's verdict and stops at its first success; a task counts
as solved when one of its runs that fit into the calls is a success.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trajstore.rollouts import (
    SHIPPED,
    FreshSeeds,
    Limits,
    Reflector,
    SearchOptions,
    Shipped,
    Task,
    first_error,
    run_rollouts,
    search_rollouts,
)

DEPTH = 15
"""Actions of one run at most, as in LATS on WebShop."""
ONE = Limits(concurrency=1, max_steps=DEPTH)

SETTINGS = (
    ("web-shop", "hasty"),
    ("web-shop", "careless"),
    ("calculator", "hasty"),
    ("calculator", "clumsy"),
)
"""Environments and profiles of their scripted agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """What came of the tasks of one seed."""

    rate: float
    """Share that was solved, from 0 to 1."""
    calls: float
    """Calls of the policy a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bout:
    """Who works at what, and how far."""

    there: Shipped
    """The environment."""
    policy: FreshSeeds
    """Who acts."""
    tasks: Sequence[Task]
    """At what."""
    seed: int
    """Of the runs."""
    calls: int
    """Calls of the policy a task at most."""
    expand: int
    """Samples at a node of a search."""


Way = Callable[[Bout], Solved]


def one_attempt(bout: Bout) -> Solved:
    """ReAct: one attempt at each task."""
    runs = list(run_rollouts(bout.there.make, bout.policy, bout.tasks, seed=bout.seed, limits=ONE))
    steps = sum(run.n_agent_steps for run in runs)
    return Solved(rate=sum(r.success is True for r in runs) / len(runs), calls=steps / len(runs))


def attempts(bout: Bout) -> Solved:
    """ReAct again and again, until one attempt is a success or the calls are used up."""
    left = {task.task_id: bout.calls for task in bout.tasks}
    waiting, solved, number = list(bout.tasks), 0, 0
    while waiting:
        seed = bout.seed + 1000 * number
        runs = run_rollouts(bout.there.make, bout.policy, waiting, seed=seed, limits=ONE)
        by_task = {run.task_id: run for run in runs}
        again = []
        for task in waiting:
            run, room = by_task[task.task_id], left[task.task_id]
            left[task.task_id] = max(0, room - run.n_agent_steps)
            if run.n_agent_steps <= room and run.success:
                solved += 1
            elif left[task.task_id]:
                again.append(task)
        waiting, number = again, number + 1
    used = sum(bout.calls - rest for rest in left.values())
    return Solved(rate=solved / len(bout.tasks), calls=used / len(bout.tasks))


def tree_search(bout: Bout, reflect: Reflector | None = None) -> Solved:
    """LATS without reflections."""
    options = SearchOptions(
        iterations=bout.calls,
        expand=bout.expand,
        depth=DEPTH,
        policy_calls=bout.calls,
        seconds=None,
        concurrency=1,
        reflect=reflect,
    )
    trees = list(
        search_rollouts(
            bout.there.make, bout.policy, bout.tasks, options=options, seed=bout.seed, limits=ONE
        )
    )
    rate = sum(tree.success is True for tree in trees) / len(trees)
    return Solved(rate=rate, calls=sum(tree.calls for tree in trees) / len(trees))


def reflecting_search(bout: Bout) -> Solved:
    """LATS that is pruned behind the first error or repetition of each failed run."""
    return tree_search(bout, first_error)


WAYS: dict[str, Way] = {
    "one attempt": one_attempt,
    "attempts": attempts,
    "LATS, no reflections": tree_search,
    "LATS": reflecting_search,
}
"""What is compared, by name."""


def rows(
    settings: Sequence[tuple[str, str]], *, tasks: int, seeds: int, calls: int, expand: int
) -> Iterator[str]:
    """Lines of a table in Markdown, each when its numbers are there."""
    yield f"| environment, profile | {' | '.join(WAYS)} |"
    yield f"| --- |{' --- |' * len(WAYS)}"
    for environment, profile in settings:
        there = SHIPPED[environment]
        bouts = [
            Bout(
                there=there,
                policy=FreshSeeds(there.agent(profile)),
                tasks=there.tasks(tasks, seed),
                seed=seed,
                calls=calls,
                expand=expand,
            )
            for seed in range(seeds)
        ]
        cells = []
        for way in WAYS.values():
            found = [way(bout) for bout in bouts]
            rates = [100 * one.rate for one in found]
            spread = statistics.stdev(rates) if len(rates) > 1 else 0.0
            used = statistics.mean(one.calls for one in found)
            cells.append(f"{statistics.mean(rates):.1f} ± {spread:.1f} % ({used:.0f} calls)")
        yield f"| {environment}, {profile} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lats", description=__doc__)
    parser.add_argument("--tasks", type=int, default=120, help="tasks of a seed")
    parser.add_argument("--seeds", type=int, default=3, help="seeds, from 0")
    parser.add_argument("--calls", type=int, default=120, help="calls of the policy a task at most")
    parser.add_argument("--expand", type=int, default=2, help="samples at a node of a search")
    parser.add_argument("--only", metavar="ENV", help="one environment only")
    given = parser.parse_args(arguments)
    chosen = [s for s in SETTINGS if given.only in (None, s[0])]
    numbers = {n: getattr(given, n) for n in ("tasks", "seeds", "calls", "expand")}
    for line in rows(chosen, **numbers):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
