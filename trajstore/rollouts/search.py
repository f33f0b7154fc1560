"""Search instead of a single attempt: one tree a task, several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event

from trajstore.rollouts.attempt import EnvironmentFactory, Limits
from trajstore.rollouts.environment import Task
from trajstore.rollouts.lats_search import Lats
from trajstore.rollouts.policy import Policy
from trajstore.rollouts.search_generations import Generations
from trajstore.rollouts.search_options import DEFAULT_SEARCH, SearchOptions, SearchTree


def lats(
    make_environment: EnvironmentFactory,
    policy: Policy,
    task: Task,
    *,
    options: SearchOptions = DEFAULT_SEARCH,
    seed: int = 0,
    cache: Generations | None = None,
) -> SearchTree:
    """Search at one task; see :func:`search_rollouts`.

    Raises:
        ValueError: a number is out of range.
    """
    (tree,) = search_rollouts(
        make_environment,
        policy,
        [task],
        options=options,
        seed=seed,
        limits=Limits(concurrency=1),
        cache=cache,
    )
    return tree


def search_rollouts(  # noqa: PLR0913 - each option is a word of its own
    make_environment: EnvironmentFactory,
    policies: Policy | Sequence[Policy],
    tasks: Iterable[Task],
    *,
    options: SearchOptions = DEFAULT_SEARCH,
    seed: int = 0,
    limits: Limits | None = None,
    cache: Generations | None = None,
    skip: Callable[[str], bool] | None = None,
    in_order: bool = True,
) -> Iterator[SearchTree]:
    """Let policies search at tasks by Language Agent Tree Search, several tasks at once.

    Each iteration goes down the tree by UCB1 (a child without a visit first), draws ``expand``
    samples at the node where it ends, lets the policy go on from a new child to the end of the run,
    and counts the reward at every node on the way. Every action of such a run is a node. When all
    ways from a node were tried, samples are drawn there once more.

    A node is reached again by doing its actions from the start of the task, so an environment must
    answer the same actions in the same way, or have a method ``fork()`` that returns a copy of it;
    what comes back is compared, and a difference ends the search with an error. The seed of a call
    depends on the node and the number of the sample, so the same search gives the same tree,
    however many calls are made at a time; only ``seconds`` looks at a clock.

    A call of the policy that fails ends its run; three failures in a row end the search. Neither
    touches another tree.

    Source: LATS (Zhou et al. 2023, 2310.04406). We differ in that the actions of a simulated run
    stay in the tree, and that equal actions at a node are one child.

    Args:
        make_environment: makes a fresh environment.
        policies: who acts; each searches at each task.
        tasks: read as needed.
        options: how wide, how deep and how long each search goes.
        seed: of the whole set.
        limits: searches at a time and retries of calls; the rest is said by ``options``.
        cache: answers of the policy from before, and for later.
        skip: told the id of a tree, says whether to leave it out.
        in_order: whether a tree waits for those of earlier tasks; else it comes as it ends.

    Yields:
        One tree a task and policy.

    Raises:
        ValueError: a number is out of range.
    """
    limits = limits or Limits()
    options.check()
    _check(limits)
    chosen: Sequence[Policy] = policies if isinstance(policies, Sequence) else [policies]
    names = _names(make_environment)
    begin = partial(Lats, make_environment, names=names, options=options, seed=seed)
    searches = (begin(p, task, cache=cache, limits=limits) for task in tasks for p in chosen)
    wanted = (s for s in searches if skip is None or not skip(s.tree_id))
    return _run(wanted, limits.concurrency, _oldest if in_order else _ended)


def _names(make_environment: EnvironmentFactory) -> tuple[str, str]:
    probe = make_environment()
    names = (probe.name, probe.version)
    probe.close()
    return names


def _check(limits: Limits) -> None:
    if limits.concurrency < 1 or limits.retries < 0 or limits.backoff_s < 0:
        raise ValueError(f"concurrency starts at 1, retries and backoff_s at 0: {limits}")


def _run(
    searches: Iterator[Lats],
    concurrency: int,
    chosen: Callable[[Sequence[Future[SearchTree]]], Future[SearchTree]],
) -> Iterator[SearchTree]:
    cancelled = Event()
    waiting: list[Future[SearchTree]] = []

    def handed_out() -> SearchTree:
        found = chosen(waiting)
        waiting.remove(found)
        return found.result()

    with ThreadPoolExecutor(concurrency) as pool:
        try:
            for search in searches:
                waiting.append(pool.submit(search.run, cancelled))
                if len(waiting) > concurrency:
                    yield handed_out()
            while waiting:
                yield handed_out()
        finally:
            cancelled.set()


def _oldest(waiting: Sequence[Future[SearchTree]]) -> Future[SearchTree]:
    return waiting[0]


def _ended(waiting: Sequence[Future[SearchTree]]) -> Future[SearchTree]:
    """The oldest of those that have ended, once there is one."""
    wait(waiting, return_when=FIRST_COMPLETED)
    return next(future for future in waiting if future.done())
