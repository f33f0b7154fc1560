"""Run many attempts at once and hand out each trajectory as it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Event, Thread

from trajstore.rollouts.attempt import Attempt, EnvironmentFactory, Limits
from trajstore.rollouts.environment import Task
from trajstore.rollouts.policy import Policy
from trajstore.schema import Trajectory

_GRACE_S = 1.0
"""An attempt that ran out of time may take this long to stop by itself, at its next step."""

_Ended = SimpleQueue[tuple[Attempt, Trajectory | BaseException]]


def run_rollouts(
    make_environment: EnvironmentFactory,
    policies: Policy | Sequence[Policy],
    tasks: Iterable[Task],
    *,
    attempts: int = 1,
    seed: int = 0,
    limits: Limits | None = None,
    skip: Callable[[str], bool] | None = None,
) -> Iterator[Trajectory]:
    """Let policies attempt tasks, several at once.

    Each attempt has a thread and an environment of its own, as most of the time is spent waiting
    for a model. A crash of a policy or an environment ends that attempt with status ``error`` and
    no other. An attempt that hangs is handed out as truncated once its time is up, and its thread
    is left behind. Closing the iterator stops the attempts under way before their next step.

    Ids depend on environment, task, policy, seed and attempt number and on no clock: the same call
    gives the same ids again.

    Args:
        make_environment: makes a fresh environment, for example the class itself.
        policies: who acts; each policy attempts each task.
        tasks: read as needed, so there may be more than fit into memory.
        attempts: how often each policy attempts each task.
        seed: seed of the whole set; another seed gives other attempts.
        limits: steps, seconds, attempts at a time, retries; :class:`Limits` where None.
        skip: told the id of an attempt, says whether to leave it out.

    Yields:
        Trajectories in the order in which they end, each finished and ready to be stored.

    Raises:
        ValueError: a number is out of range.
    """
    limits = limits or Limits()
    if attempts < 1 or limits.max_steps < 1 or limits.concurrency < 1:
        raise ValueError(f"attempts, max_steps and concurrency start at 1: {limits}")
    if limits.retries < 0 or limits.backoff_s < 0:
        raise ValueError(f"retries and backoff_s start at 0: {limits}")
    chosen: Sequence[Policy] = policies if isinstance(policies, Sequence) else [policies]
    probe = make_environment()
    names = (probe.name, probe.version)
    probe.close()
    attempted = (
        Attempt(
            make_environment, policy, task, names=names, number=number, seed=seed, limits=limits
        )
        for task in tasks
        for policy in chosen
        for number in range(attempts)
    )
    wanted = (a for a in attempted if skip is None or not skip(a.trajectory_id))
    return _run(wanted, limits)


def _run(jobs: Iterator[Attempt], limits: Limits) -> Iterator[Trajectory]:
    cancelled = Event()
    ended: _Ended = SimpleQueue()
    deadlines: dict[Attempt, float] = {}
    try:
        while True:
            for attempt in islice(jobs, limits.concurrency - len(deadlines)):
                deadlines[attempt] = _deadline(limits)
                Thread(target=_work, args=(attempt, cancelled, ended), daemon=True).start()
            if not deadlines:
                return
            yield from _next(deadlines, ended)
    finally:
        cancelled.set()


def _deadline(limits: Limits) -> float:
    if limits.timeout_s is None:
        return float("inf")
    return time.monotonic() + limits.timeout_s + min(_GRACE_S, limits.timeout_s)


def _work(attempt: Attempt, cancelled: Event, ended: _Ended) -> None:
    try:
        result: Trajectory | BaseException = attempt.run(cancelled)
    except BaseException as error:  # noqa: BLE001 - a thread's exception is raised by the iterator
        result = error
    ended.put((attempt, result))


def _next(deadlines: dict[Attempt, float], ended: _Ended) -> list[Trajectory]:
    """Wait for the next attempt to end or to run out of time.

    What has ended comes before what is overdue, as the caller may have been away for long. An
    attempt that was given up and ends after all is not handed out twice.
    """
    first = min(deadlines.values())
    wait_s = None if first == float("inf") else max(0.0, first - time.monotonic())
    try:
        attempt, result = ended.get(timeout=wait_s)
    except Empty:
        overdue = [a for a, deadline in deadlines.items() if deadline <= time.monotonic()]
        for attempt in overdue:
            del deadlines[attempt]
        return [attempt.cut_off() for attempt in overdue]
    if deadlines.pop(attempt, None) is None:
        return []
    if isinstance(result, BaseException):
        raise result
    return [result]
