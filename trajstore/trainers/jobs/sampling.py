"""Rollouts of a job: which tasks, by which policy, and back from the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from trajstore.errors import TrainingError
from trajstore.rollouts import (
    EnvironmentFactory,
    Limits,
    Message,
    Policy,
    Response,
    Task,
    Tool,
    calculator_tasks,
    run_rollouts,
    shipped,
)
from trajstore.schema import Trajectory
from trajstore.trainers.jobs.config import JobConfig, RolloutTable, TaskTable

if TYPE_CHECKING:
    from trajstore.store import Reader, Store

Split = Literal["train", "held-out"]
"""Whether runs may be trained on; a tag of each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """How a policy does on held-out tasks."""

    success_rate: float
    """Share of the attempts that solved their task, from 0 to 1."""
    mean_reward: float
    """Mean of the rewards; unknown ones count as 0."""
    n: int
    """Attempts."""
    failed: int = 0
    """Of them those that ended for technical reasons, and count as not solved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTasks:
    """Tasks of a job; none is in both lists."""

    train: tuple[Task, ...]
    """To train on."""
    held_out: tuple[Task, ...]
    """To measure on."""


def tasks_of(config: JobConfig) -> JobTasks:
    """The tasks that the file asks for; one to train on that is also held out is left out there.

    So the held-out tasks are the same for all jobs that name the same ones, and no job that does
    trains on any of them.

    Raises:
        TrainingError: there are not that many, or all those to train on are held out.
    """
    table = config.rollouts
    if table is None:
        return JobTasks(train=(), held_out=())
    held_out = _tasks(table, table.held_out)
    known = {t.task_id for t in held_out}
    asked = _tasks(table, table.tasks)
    train = tuple(t for t in asked if t.task_id not in known)
    if asked and not train:
        message = (
            "Every task to train on is held out, too: give [rollouts.held_out] another seed than "
            "[rollouts.tasks]."
        )
        raise config.error(message, "rollouts", "held_out")
    return JobTasks(train=train, held_out=held_out)


def _tasks(table: RolloutTable, asked: TaskTable | None) -> tuple[Task, ...]:
    if asked is None:
        return ()
    try:
        if table.kind is not None:
            return tuple(calculator_tasks(asked.count, seed=asked.seed, kind=table.kind))
        return tuple(shipped(table.environment).tasks(asked.count, asked.seed))
    except ValueError as error:
        raise TrainingError(str(error)) from error


def maker_of(table: RolloutTable) -> EnvironmentFactory:
    """What makes the environment."""
    found = shipped(table.environment)
    return found.make_unisolated if table.allow_unisolated else found.make


class Versioned:
    """A policy under another version, which its runs are stored with."""

    def __init__(self, policy: Policy, version: str) -> None:
        """Take the policy's name and actions."""
        self._policy = policy
        self.agent = policy.agent
        self.model = policy.model
        self.version: str | None = version

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """Act as the policy does."""
        return self._policy.act(messages, tools, seed=seed)


def versioned(policy: Policy, version: str) -> Policy:
    """The policy, under that version."""
    return policy if policy.version == version else Versioned(policy, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Lets policies act, and stores what they did under tags."""

    store: Store
    """Where runs go, and come back from."""
    seed: int
    """Of the attempts."""
    share: Callable[[Sequence[Task]], Sequence[Task]]
    """The tasks that this process attempts, of those of all."""
    settled: Callable[[], Reader]
    """The store once every process is done."""
    shown: Callable[[int, int], None] | None = None
    """Told after each attempt how many of how many have ended."""

    def runs(
        self,
        make: EnvironmentFactory,
        policy: Policy,
        tasks: Sequence[Task],
        *,
        attempts: int,
        limits: Limits,
        tags: Sequence[str],
        change: Callable[[Trajectory], Trajectory | None] = lambda run: run,
    ) -> list[Trajectory]:
        """Attempts at tasks, each stored as it ends, ordered by task and attempt.

        What the store has already is read back and not done again. Of several processes each does
        its share, and all get what all did.

        Args:
            make: makes the environment.
            policy: who acts; its version and the tags tell these runs from others.
            tasks: at what.
            attempts: how often at each.
            limits: steps, seconds, attempts at a time.
            tags: of the runs.
            change: what is stored of a run; None stores nothing of it.

        Raises:
            TrainingError: every attempt failed for technical reasons.
        """
        own = self.share(tasks)
        mine = {t.task_id for t in own}
        stored = self._stored(self.store.reader(), policy.version, tags)
        known = {r.trajectory_id for r in stored if r.task_id in mine}
        total, done, error = len(own) * attempts, len(known), None
        with self.store.writer() as writer:
            for run in run_rollouts(
                make,
                policy,
                own,
                attempts=attempts,
                seed=self.seed,
                limits=limits,
                skip=known.__contains__,
            ):
                done += 1
                error = error or run.error
                kept = change(run)
                if kept is not None and run.status != "error":
                    writer.append(replace(kept, tags=(*kept.tags, *tags)))
                if self.shown is not None:
                    self.shown(done, total)
        wanted = {t.task_id: place for place, t in enumerate(tasks)}
        stored = self._stored(self.settled(), policy.version, tags)
        found = [r for r in stored if r.task_id in wanted]
        if error is not None and not found:
            raise TrainingError(f"every attempt failed; the first: {error}")
        return sorted(found, key=lambda r: (wanted[r.task_id], r.attempt or 0, r.trajectory_id))

    @staticmethod
    def _stored(reader: Reader, version: str | None, tags: Sequence[str]) -> list[Trajectory]:
        named = _quoted(version or "")
        tagged = "".join(f" AND list_contains(tags, {_quoted(t)})" for t in tags)
        return list(reader.scan(f"policy_version = {named}{tagged}"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def free_series(store: Store, wanted: str) -> str:
    """What policy versions may begin with: as wanted, with a number where the store has such runs.

    Args:
        store: whose runs have versions.
        wanted: such as ``star-s0``.
    """
    query = "SELECT DISTINCT split_part(policy_version, '/', 1) AS series FROM trajectories"
    found = store.query(f"{query} WHERE policy_version IS NOT NULL").read_all()
    taken = set(map(str, found.column(0)))
    number = 1
    made = wanted
    while made in taken:
        number += 1
        made = f"{wanted}-{number}"
    return made


def evaluated(runs: Sequence[Trajectory], attempts: int) -> Evaluated:
    """The rates of some attempts.

    Args:
        runs: those that ended by themselves or at a limit.
        attempts: all that were made; what is missing ended for technical reasons.

    Raises:
        TrainingError: there are none.
    """
    if not attempts:
        raise TrainingError("there is no run to measure; give [rollouts.held_out] a count")
    return Evaluated(
        success_rate=sum(r.success is True for r in runs) / attempts,
        mean_reward=sum(r.reward or 0.0 for r in runs) / attempts,
        n=attempts,
        failed=attempts - len(runs),
    )


def limits_of(table: RolloutTable) -> Limits:
    """Limits of an attempt, as the file says."""
    return Limits(max_steps=table.max_steps, concurrency=table.concurrency, timeout_s=None)
