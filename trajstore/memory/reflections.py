"""Reflections (Reflexion, Shinn et al. 2023): what an agent should do otherwise after a failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from trajstore.errors import MemoryItemError
from trajstore.memory.bank_upkeep import Change, reason_of, set_states
from trajstore.memory.utility import START, Learning, confidences
from trajstore.retrieval import Hits, search
from trajstore.schema import Reflection, reflection_id
from trajstore.store import Store

WINDOW = 3
"""Reflections that a new attempt is shown (Reflexion: 1 to 3)."""

_UNHELPFUL = "confidence"
_LEARNING = Learning()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReflection:
    """One reflection, with what became of the runs that were given it."""

    reflection_id: str
    """Hash of task, trial and text."""
    task_id: str
    text: str
    trial: int | None = None
    """The failed attempt it speaks of, from 0."""
    trajectory_id: str | None = None
    """That attempt, where known."""
    environment: str | None = None
    model: str | None = None
    source: str = ""
    created_at: datetime | None = None
    state: str | None = None
    """None where it is served."""
    because: str | None = None
    """Why it is not."""
    uses: int = 0
    """Runs that were given it."""
    successes: int = 0
    """Those of them that succeeded."""
    failures: int = 0
    """Those of them that failed."""
    confidence: float = START
    """0 to 1; see :func:`trajstore.memory.utility.confidences`."""

    @property
    def item_id(self) -> str:
        """Its id, as a use is recorded."""
        return self.reflection_id

    @property
    def score(self) -> float:
        """Its confidence, as a use is recorded."""
        return self.confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What pruning changed."""

    retired: tuple[str, ...] = ()
    """Items that are out now."""
    returned: tuple[str, ...] = ()
    """Items that had been taken out so and are back, since outcomes changed."""


class Reflections:
    """The reflections of a store. It keeps nothing itself."""

    def __init__(self, store: Store, *, learning: Learning = _LEARNING) -> None:
        """Use the table ``reflections`` of a store.

        Args:
            store: the store.
            learning: how outcomes of the runs that were given a reflection move its confidence.
        """
        self.store = store
        self.learning = learning

    def add(
        self,
        text: str,
        *,
        task_id: str | None = None,
        trajectory_id: str | None = None,
        trial: int | None = None,
        environment: str | None = None,
        model: str | None = None,
        source: str = "hand",
    ) -> StoredReflection:
        """Keep a reflection; the same one again is there already.

        Args:
            text: what to do otherwise.
            task_id: the task; that of the run where None.
            trajectory_id: the run it speaks of; task, trial and environment come from it.
            trial: number of the failed attempt, from 0.
            environment: what the agent acted in.
            model: who wrote it.
            source: the writer.

        Raises:
            MemoryItemError: the text is empty, there is neither task nor run, the run is not in the
                store, or it succeeded: a reflection is on a failure.
        """
        if not text.strip():
            raise MemoryItemError("A reflection needs a text.")
        if trajectory_id is not None:
            run = self.store.get(trajectory_id)
            if run is None:
                message = f"There is no trajectory {trajectory_id!r} to reflect on."
                raise MemoryItemError(message, record=trajectory_id)
            if run.success is True:
                message = f"{trajectory_id} succeeded; a reflection is on a failed run."
                raise MemoryItemError(message, record=trajectory_id)
            task_id = task_id or run.task_id
            trial = run.attempt if trial is None else trial
            environment = environment or run.environment
        if task_id is None:
            raise MemoryItemError("Say which task or which run the reflection is on.")
        new = Reflection(
            task_id=task_id,
            text=text.strip(),
            source=source,
            trial=trial,
            trajectory_id=trajectory_id,
            environment=environment,
            model=model,
        )
        self.store.add_reflections([new])
        return self.get(reflection_id(new))

    def all(self, *, every: bool = False) -> list[StoredReflection]:
        """Reflections by task, trial and time.

        Args:
            every: also those that are out of service.
        """
        return self._read("true" if every else "state IS NULL", _IN_ORDER)

    def get(self, reference: str) -> StoredReflection:
        """One reflection, by its id or the beginning of it.

        Raises:
            MemoryItemError: there is none, or several begin so.
        """
        found = self._read(f"starts_with(reflection_id, {_quoted(reference)})", _IN_ORDER)
        return only_one(found, reference, "reflection")

    def window(self, task_id: str, *, m: int = WINDOW) -> list[StoredReflection]:
        """The newest reflections on a task in the order of trials: what a next attempt is shown.

        Args:
            task_id: the task.
            m: at most so many (Reflexion: 1 to 3).
        """
        newest = self._read(
            f"state IS NULL AND task_id = {_quoted(task_id)}",
            "trial DESC NULLS LAST, created_at DESC, reflection_id DESC",
            limit=m,
        )
        return newest[::-1]

    def recall(
        self,
        task_id: str,
        *,
        environment: str | None = None,
        limit: int = WINDOW,
        max_age: timedelta | None = None,
        include_expired: bool = False,
        now: datetime | None = None,
    ) -> list[StoredReflection]:
        """The reflections on a task that proved best: by confidence, then the newest first.

        Whatever is below the floor of confidence is not recalled, also before :meth:`prune`.

        Args:
            task_id: the task.
            environment: only those of this one.
            limit: at most so many for one environment and task.
            max_age: only what is not older; of exactly that age is not older.
            include_expired: also what is older, or was marked as expired.
            now: the time that ages are counted to.
        """
        states = "(state IS NULL OR state = 'expired')" if include_expired else "state IS NULL"
        where = f"{states} AND task_id = {_quoted(task_id)}"
        if environment is not None:
            where += f" AND environment = {_quoted(environment)}"
        found = [r for r in self._read(where, _NEWEST) if r.confidence >= self.learning.floor]
        if max_age is not None and not include_expired:
            moment = now or datetime.now(UTC)
            found = [r for r in found if r.created_at is None or moment - r.created_at <= max_age]
        return sorted(found, key=lambda r: -r.confidence)[:limit]

    def search(
        self,
        text: str,
        *,
        k: int = WINDOW,
        task_id: str | None = None,
        environment: str | None = None,
        token_budget: int | None = None,
    ) -> Hits:
        """Reflections on other tasks that are like a text.

        Needs the extra ``retrieval``. With an index (``trajstore index STORE --level reflection``)
        they are found by meaning too, else by words.

        Args:
            text: the goal, or what went wrong.
            k: at most so many.
            task_id: the task that asks: its own reflections, and those on tasks that are nearly
                the same, are left out.
            environment: only of this one.
            token_budget: tokens of all texts at most.
        """
        return search(
            self.store,
            text,
            k=k,
            level="reflection",
            where=f"state IS NULL{self._confident()}",
            task_id=task_id,
            environment=environment,
            token_budget=token_budget,
        )

    def prune(self, *, dry_run: bool = False) -> Pruned:
        """Take out what fell below the floor of confidence, and bring back what rose above it.

        Only what was taken out for its confidence comes back. Rows stay.
        """
        changes: dict[str, Change] = {}
        for item in self.all(every=True):
            low = item.confidence < self.learning.floor
            if low and item.state is None:
                changes[item.reflection_id] = Change(state="retired", because=_UNHELPFUL)
            elif not low and item.state == "retired" and item.because == _UNHELPFUL:
                changes[item.reflection_id] = Change(state=None, because=None)
        if not dry_run:
            set_states(self.store, "reflections", changes)
        return Pruned(
            retired=tuple(k for k, c in changes.items() if c.state is not None),
            returned=tuple(k for k, c in changes.items() if c.state is None),
        )

    def retire(self, references: Iterable[str], *, because: str) -> int:
        """Take reflections out by hand, and say how many; their rows stay.

        Raises:
            MemoryItemError: one is not there.
        """
        ids = [self.get(r).reflection_id for r in references]
        changes = {i: Change(state="retired", because=because) for i in ids}
        return set_states(self.store, "reflections", changes)

    def _confident(self) -> str:
        values = confidences(self.store, "reflection", self.learning)
        low = sorted(i for i, value in values.items() if value < self.learning.floor)
        return f" AND reflection_id NOT IN ({', '.join(map(_quoted, low))})" if low else ""

    def _read(self, where: str, order: str, *, limit: int | None = None) -> list[StoredReflection]:
        most = "" if limit is None else f" LIMIT {max(limit, 0)}"
        query = f"SELECT * FROM reflections WHERE {where} ORDER BY {order}{most}"
        rows = self.store.query(query).read_all()
        values = confidences(self.store, "reflection", self.learning)
        known = {f.name for f in fields(StoredReflection)}
        return [
            StoredReflection(
                **{k: v for k, v in row.items() if k in known},
                because=reason_of(row["metadata"]),
                confidence=values.get(row["reflection_id"], self.learning.start),
            )
            for row in rows.to_pylist()
        ]


_IN_ORDER = "task_id, trial NULLS LAST, created_at, reflection_id"
_NEWEST = "created_at DESC, trial DESC NULLS LAST, reflection_id"


def only_one(found: Sequence[T], reference: str, noun: str) -> T:
    """The only item that a reference means.

    Raises:
        MemoryItemError: there is none, or several.
    """
    if not found or not reference:
        raise MemoryItemError(f"There is no {noun} {reference!r}.", record=reference)
    if len(found) > 1:
        message = f"{len(found)} {noun}s begin with {reference!r}; give more of the id."
        raise MemoryItemError(message, record=reference)
    return found[0]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
