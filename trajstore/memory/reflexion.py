"""Reflexion (Shinn et al. 2023): reflect on failed runs, and try again with what was learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trajstore.errors import EndpointError, MemoryItemError
from trajstore.memory.reflections import WINDOW, Reflections, StoredReflection
from trajstore.memory.reflexion_prompt import reflect_messages, remembered
from trajstore.memory.uses import record_uses
from trajstore.memory.verifying import Chat
from trajstore.retrieval import Hit
from trajstore.rollouts import (
    Action,
    Environment,
    EnvironmentFactory,
    Limits,
    Observed,
    Outcome,
    Policy,
    Task,
    Tool,
    Transition,
    run_rollouts,
)
from trajstore.schema import Trajectory
from trajstore.store import Store

SOURCE = "reflexion"
"""Source of the reflections that are written here."""

_HOPELESS_AFTER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReport:
    """What became of the failed runs."""

    written: tuple[str, ...] = ()
    """Ids of new reflections."""
    already: int = 0
    """Failed runs that have a reflection."""
    without_steps: int = 0
    """Failed runs of which only the outcome is known."""
    unknown: int = 0
    """Runs whose outcome is unknown: they are not failures."""
    problems: tuple[str, ...] = ()
    """Runs that the model did not reflect on, and why."""
    left: int = 0
    """Failed runs that were not asked about: beyond the most, or after the model failed."""


def write_reflections(
    store: Store,
    chat: Chat,
    *,
    where: str = "true",
    most: int | None = None,
    model: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> WriteReport:
    """Let a model reflect on each failed run that has no reflection yet.

    Each reflection is kept as it is written. The model sees the last three reflections on earlier
    attempts at the task. Runs are taken by task and attempt.

    Args:
        store: the store.
        chat: the model.
        where: an SQL condition over ``trajectories``.
        most: reflections to write at most.
        model: its name, for the rows.
        progress: called with runs done and runs in all.

    Raises:
        QueryError: ``where`` does not parse or is not allowed.
    """
    has = "trajectory_id IN (SELECT trajectory_id FROM reflections WHERE trajectory_id IS NOT NULL)"
    counts = store.query(
        f"""
        SELECT count(*) FILTER (success IS NULL) AS unknown,
            count(*) FILTER (NOT success AND {has}) AS already,
            count(*) FILTER (NOT success AND NOT {has} AND n_steps = 0) AS without_steps
        FROM trajectories WHERE ({where}\n)"""
    ).read_all()
    unknown, already, without = (int(column[0].as_py()) for column in counts.columns)
    rows = store.query(
        f"""
        SELECT trajectory_id FROM trajectories
        WHERE NOT success AND NOT {has} AND n_steps > 0 AND ({where}\n)
        ORDER BY task_id, attempt NULLS LAST, trajectory_id"""
    ).read_all()
    ids = rows.column("trajectory_id").to_pylist()
    asked = ids if most is None else ids[:most]
    written, problems, done = _reflect_on(store, chat, asked, model, progress)
    return WriteReport(
        written=tuple(written),
        already=already,
        without_steps=without,
        unknown=unknown,
        problems=tuple(problems),
        left=len(ids) - done,
    )


def _reflect_on(
    store: Store,
    chat: Chat,
    ids: Sequence[str],
    model: str | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[list[str], list[str], int]:
    """New ids, problems, and how many runs were asked about before the model was given up."""
    written: list[str] = []
    problems: list[str] = []
    failures = 0
    for number, trajectory_id in enumerate(ids, start=1):
        run = store.get(trajectory_id)
        assert run is not None
        try:
            written.append(reflect(store, chat, run, model=model).reflection_id)
            failures = 0
        except EndpointError as error:
            problems.append(f"{trajectory_id}: {error}")
            failures += 1
        except MemoryItemError as error:
            problems.append(f"{trajectory_id}: {error}")
        if progress is not None:
            progress(number, len(ids))
        if failures == _HOPELESS_AFTER:
            return written, problems, number
    return written, problems, len(ids)


def reflect(
    store: Store, chat: Chat, run: Trajectory, *, model: str | None = None, window: int = WINDOW
) -> StoredReflection:
    """Let a model reflect on one failed run, and keep what it says.

    Raises:
        MemoryItemError: it says nothing, or the run is not in the store, or succeeded.
    """
    memory = Reflections(store)
    earlier = [r.text for r in memory.window(run.task_id, m=window)]
    text = chat(reflect_messages(run, earlier)).strip()
    if not text:
        raise MemoryItemError("the model's answer is empty", record=run.trajectory_id)
    return memory.add(text, trajectory_id=run.trajectory_id, model=model, source=SOURCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexionOptions:
    """What each attempt is shown, and how far it may go."""

    memory: bool = True
    """Show and write reflections; without it the same attempts are made with none, to compare."""
    window: int = WINDOW
    """Reflections on the task itself that are shown, the newest ones."""
    similar: int = 0
    """Reflections on other, similar tasks that are shown beside them; needs ``retrieval``."""
    seed: int = 0
    """Of the attempts."""
    limits: Limits = field(default_factory=lambda: Limits(concurrency=1))
    """Steps and seconds of one attempt."""
    model: str | None = None
    """Name of the model that reflects, for the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt of a loop."""

    run: Trajectory
    """The attempt, as it is stored."""
    given: tuple[StoredReflection, ...]
    """The reflections on the task that it was shown."""
    similar: tuple[Hit, ...]
    """Those on other tasks."""
    reflection: StoredReflection | None
    """What was written after it; None where it did not fail."""


def reflexion_loop(
    store: Store,
    make_environment: EnvironmentFactory,
    policy: Policy,
    task: Task,
    chat: Chat,
    *,
    trials: int = 5,
    options: ReflexionOptions = ReflexionOptions(),
) -> Iterator[Trial]:
    """Attempt a task, reflect on the failure, and try again, until it is solved.

    Each attempt is stored with what it was shown: in its first message, and as rows of ``uses``.
    Attempts are numbered on from those of the task that the store holds. An attempt whose outcome
    is unknown is no failure: the next one follows without a reflection.

    Args:
        store: where attempts, reflections and uses are kept.
        make_environment: makes a fresh environment.
        policy: who acts.
        task: at what.
        chat: the model that reflects; it may be another one than acts.
        trials: attempts at most.
        options: what is shown.

    Yields:
        Each attempt when it is stored, the successful one last.
    """
    before: Trajectory | None = None
    first = _next_attempt(store, task.task_id)
    for number in range(first, first + trials):
        own, others = _shown(store, task, options)
        text = remembered([*(r.text for r in own), *(h.text for h in others)])
        (run,) = run_rollouts(
            lambda shown=text: _Reminded(make_environment(), shown),  # type: ignore[misc]
            policy,
            [task],
            seed=options.seed + number,
            limits=options.limits,
        )
        related: dict[str, Any] = (
            {} if before is None else {"parent_id": before.trajectory_id, "relation": "retry"}
        )
        run = replace(run, attempt=number, **related)
        store.append(run)
        record_uses(store, run.trajectory_id, [*own, *others], "reflection")
        failed = run.success is False and options.memory
        note = reflect(store, chat, run, model=options.model) if failed else None
        yield Trial(run=run, given=tuple(own), similar=tuple(others), reflection=note)
        if run.success:
            return
        before = run


def _next_attempt(store: Store, task_id: str) -> int:
    quoted = task_id.replace("'", "''")
    query = f"SELECT coalesce(max(attempt) + 1, 0) FROM trajectories WHERE task_id = '{quoted}'"
    return int(store.query(query).read_all().column(0)[0].as_py())


def _shown(
    store: Store, task: Task, options: ReflexionOptions
) -> tuple[list[StoredReflection], list[Hit]]:
    if not options.memory:
        return [], []
    memory = Reflections(store)
    own = memory.window(task.task_id, m=options.window)
    if not options.similar:
        return own, []
    return own, list(memory.search(task.goal, k=options.similar, task_id=task.task_id))


class _Reminded:
    """An environment whose first observation ends with what was learnt before."""

    def __init__(self, inner: Environment, text: str) -> None:
        self._inner = inner
        self._text = text

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def version(self) -> str:
        return self._inner.version

    @property
    def system_prompt(self) -> str | None:
        return self._inner.system_prompt

    @property
    def tools(self) -> Sequence[Tool]:
        return self._inner.tools

    def reset(self, task: Task) -> Observed:
        observed = self._inner.reset(task)
        if not self._text:
            return observed
        said = task.goal if observed.text is None else observed.text
        return replace(observed, text=f"{said}\n\n{self._text}")

    def step(self, action: Action) -> Transition:
        return self._inner.step(action)

    def outcome(self) -> Outcome:
        return self._inner.outcome()

    def close(self) -> None:
        self._inner.close()
