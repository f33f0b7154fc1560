"""Splits by group of tasks, and the check that nothing leaks from one side to the other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.embeddings import Embed, embedder_name
from trajstore.filters.relations import relation
from trajstore.filters.row_columns import NO_REASON
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.filters.task_groups import (
    GoalLikeness,
    TaskKeys,
    distinct_goals,
    groups_of,
    near_goals,
    task_keys,
)

LEAK_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("what", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("other_split", pa.string(), nullable=False),
    ]
)
"""One row a leak: ``kind`` is ``task``, ``prompt``, ``goal`` or ``near-goal``; ``what`` is the task
id, the hash of the prompt, the goal, or both goals; then the two splits that share it."""

_SHOWN = 3
_LEAST_TASKS = 20


def split_position(group: str) -> float:
    """Where a group of tasks lies between 0 and 1, the same for ever and on every machine.

    >>> round(split_position("task-3"), 6), round(split_position("task-1"), 6)
    (0.090402, 0.480387)
    """
    return int(hashlib.sha256(group.encode()).hexdigest()[:8], 16) / 2**32


@dataclass(frozen=True, slots=True)
class Split(NamedStage):
    """Give every run a split, so that tasks which are nearly the same are on one side.

    A group of tasks (:func:`~trajstore.filters.task_groups.task_groups`) goes to the split in whose
    stretch of 0 to 1 its hash falls. A run on the other side whose goal is still nearly the same as
    one that is held out, without being in its group, is dropped. Near-duplicate goals need NumPy;
    with ``goal_jaccard=None`` and no ``embed`` nothing is needed.
    """

    name: ClassVar[str] = "split"

    shares: dict[str, float] = field(default_factory=lambda: {"val": 0.1})
    """Share of the groups for each held-out split, in order; the sum is below 1."""
    rest: str = "train"
    """The split of all others."""
    keep: str | None = None
    """Keep only this split; None keeps all."""
    goal_jaccard: float | None = 0.8
    """Least Jaccard similarity of the word pairs of two goals that are nearly the same; None looks
    for equal goals only."""
    cosine: float = 0.95
    """Least cosine of the vectors of two such goals, where there is ``embed``."""
    most_share: float | None = 0.5
    """Most tasks in one group, as a share of all tasks; None for no bound."""
    embedder: str | None = None
    """Name of ``embed``, for the record."""
    embed: Embed | None = None
    """Makes vectors of goals; a recipe keeps its name only."""

    def __post_init__(self) -> None:
        """Check the shares and the names."""
        total = sum(self.shares.values())
        if not self.shares or min(self.shares.values()) <= 0.0 or total >= 1.0:
            message = (
                "The stage 'split' needs shares above 0 with a sum below 1, such as "
                f'{{"val": 0.1}}, not {self.shares}.'
            )
            raise SelectionError(message)
        if self.rest in self.shares:
            raise SelectionError(f"The split '{self.rest}' is the rest; it takes no share.")
        if self.keep is not None and self.keep not in self.splits():
            raise SelectionError(_no_split(self.keep, self.splits()))
        if self.embed is not None and self.embedder is None:
            object.__setattr__(self, "embedder", embedder_name(self.embed))
        elif self.embedder is not None and self.embed is None:
            message = (
                f"The split was made with vectors of '{self.embedder}': give embed=, the function "
                "that makes them, or leave embedder out."
            )
            raise SelectionError(message)
        self.likeness()

    def splits(self) -> tuple[str, ...]:
        """The names of all splits, the held-out ones first."""
        return (*self.shares, self.rest)

    def likeness(self) -> GoalLikeness:
        """When two goals are nearly the same."""
        return GoalLikeness(jaccard=self.goal_jaccard, cosine=self.cosine, embed=self.embed)

    def parameters(self) -> dict[str, Any]:
        """All fields but ``embed``, which no file can hold."""
        values = super(Split, self).parameters()
        return {n: dict(v) if n == "shares" else v for n, v in values.items() if n != "embed"}

    def apply(self, frame: Frame) -> StageResult:
        """Add the columns ``split`` and ``task_group``.

        Drops ``near-duplicate-of-held-out``, whose detail is the held-out goal's split and text,
        and with ``keep`` also ``other-split``.

        Raises:
            SelectionError: the split to keep holds no run, or one group swallows the tasks.
        """
        keys = task_keys(frame)
        group = groups_of(keys, self.likeness())
        self._check_share(keys, group)
        groups = pc.unique(group)
        named = pa.array([self.split_of(str(g)) for g in groups], pa.string())
        split = named.take(pc.index_in(group, value_set=groups))
        held_out = self._near_held_out(keys, split)
        reasons = pc.if_else(pc.is_valid(held_out), "near-duplicate-of-held-out", NO_REASON)
        details = held_out
        if self.keep is not None:
            _need_split(pc.if_else(pc.is_valid(held_out), NO_REASON, split), self.keep)
            other = pc.and_(pc.is_null(reasons), pc.not_equal(split, self.keep))
            reasons = pc.if_else(other, "other-split", reasons)
            details = pc.if_else(other, split, details)
        rows = _with(_with(frame.rows, "split", split), "task_group", group)
        return StageResult.split(rows, pa.chunked_array([reasons]), pa.chunked_array([details]))

    def split_of(self, group: str) -> str:
        """The split of a group of tasks."""
        position, end = split_position(group), 0.0
        for name, share in self.shares.items():
            end += share
            if position < end:
                return name
        return self.rest

    def _near_held_out(self, keys: TaskKeys, split: pa.Array) -> pa.Array:
        """For runs that come too near to an earlier split, the split and the goal; else null."""
        distinct = distinct_goals(keys)
        order = {name: n for n, name in enumerate(self.splits())}
        first = pc.index_in(distinct, value_set=keys.goal)
        names = [str(x) for x in split.take(first)]
        pairs = near_goals(distinct, self.likeness(), [order[n] for n in names])
        told: dict[int, str] = {}
        for left, right in pairs:
            held, near = sorted((left, right), key=lambda goal: order[names[goal]])
            told.setdefault(near, f"{names[held]}: {distinct[held].as_py()[:80]}")
        text = pa.array([told.get(n) for n in range(len(distinct))], pa.string())
        return text.take(pc.index_in(keys.goal, value_set=distinct))

    def _check_share(self, keys: TaskKeys, group: pa.Array) -> None:
        table = pa.table({"task": keys.task, "group": group})
        sizes = table.group_by("group").aggregate([("task", "count_distinct")])
        tasks = pc.sum(sizes.column("task_count_distinct")).as_py() or 0
        if self.most_share is None or tasks < _LEAST_TASKS:
            return
        order = [("task_count_distinct", "descending"), ("group", "ascending")]
        largest = sizes.sort_by(order).slice(0, 1)
        count = largest["task_count_distinct"][0].as_py()
        if count > self.most_share * tasks:
            message = (
                f"The group of the task {largest['group'][0]} would hold {count} of {tasks} tasks, "
                f"more than the share of {self.most_share} allowed: their goals or prompts are too "
                "alike to tell tasks apart. Raise goal_jaccard or cosine, or raise most_share."
            )
            raise SelectionError(message)


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    kept = rows.drop_columns(name) if name in rows.column_names else rows
    return kept.append_column(name, values)


def _no_split(name: str, there: tuple[str, ...]) -> str:
    return f"There is no split '{name}'; there are {', '.join(there) or 'none'}."


def _need_split(split: pa.Array | pa.ChunkedArray, name: str) -> None:
    there = tuple(sorted(str(x) for x in pc.unique(split).drop_null()))
    if name not in there:
        raise SelectionError(f"{_no_split(name, there)} No other is taken in its place.")


@dataclass(frozen=True, slots=True)
class OnlySplit(NamedStage):
    """Keep the runs of one split of rows that have the column ``split``."""

    name: ClassVar[str] = "only-split"

    split: str
    """The split."""

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``other-split``; the detail is the split.

        Raises:
            SelectionError: the rows have no splits, or none of that name; no other is taken.
        """
        split = split_column(frame.rows)
        _need_split(split, self.split)
        mine = pc.fill_null(pc.equal(split, self.split), False)
        return StageResult.split(frame.rows, pc.if_else(mine, NO_REASON, "other-split"), split)


def split_column(rows: pa.Table) -> pa.ChunkedArray:
    """The column ``split``.

    Raises:
        SelectionError: there is none.
    """
    if "split" not in rows.column_names:
        raise SelectionError("The rows have no column 'split'; put the stage 'split' first.")
    return rows.column("split")


@dataclass(frozen=True, slots=True)
class LeakCheck(NamedStage):
    """Refuse to go on where two splits share a task, a prompt or nearly a goal."""

    name: ClassVar[str] = "leak-check"

    goal_jaccard: float | None = 0.8
    """As in the stage ``split``."""
    cosine: float = 0.95
    """As in the stage ``split``."""
    embed: Embed | None = None
    """As in the stage ``split``."""

    def parameters(self) -> dict[str, Any]:
        """All fields but ``embed``, which no file can hold."""
        values = super(LeakCheck, self).parameters()
        return {n: v for n, v in values.items() if n != "embed"}

    def apply(self, frame: Frame) -> StageResult:
        """Keep all rows.

        Raises:
            SelectionError: something leaks; the message names the first things that do.
        """
        likeness = GoalLikeness(jaccard=self.goal_jaccard, cosine=self.cosine, embed=self.embed)
        leaks = find_leaks(frame, likeness)
        if leaks.num_rows:
            shown = [
                f"{kind} {str(what)[:80]!r} in {split} and {other}"
                for kind, what, split, other in zip(*leaks.slice(0, _SHOWN).columns, strict=True)
            ]
            message = (
                f"{leaks.num_rows} leaks between splits: {'; '.join(shown)}. Split by groups of "
                "tasks with the stage 'split', before anything else is made of the runs."
            )
            raise SelectionError(message)
        return StageResult.split(frame.rows, pa.nulls(frame.rows.num_rows, pa.string()))


def find_leaks(frame: Frame, likeness: GoalLikeness | None = None) -> pa.Table:
    """What is on both sides of a split: task ids, prompts, goals and nearly equal goals.

    Args:
        frame: runs with the column ``split``; a run without a split is on no side.
        likeness: when goals are nearly the same; the defaults where None.

    Returns:
        The leaks in :data:`LEAK_SCHEMA`, ordered by its columns; none is a table without rows.

    Raises:
        SelectionError: the rows have no splits.
    """
    split = split_column(frame.rows).combine_chunks()
    keys = task_keys(frame)
    found = [
        _shared(kind, column, split)
        for kind, column in (("task", keys.task), ("prompt", keys.prompt), ("goal", keys.goal))
    ]
    found.append(_near(keys, split, likeness or GoalLikeness()))
    return pa.concat_tables(found).sort_by([(n, "ascending") for n in LEAK_SCHEMA.names])


def _shared(kind: str, key: pa.Array, split: pa.Array) -> pa.Table:
    """Keys that two splits have, a row for each two."""
    found = relation(
        """
        WITH sides AS (SELECT DISTINCT key, split FROM runs
            WHERE key IS NOT NULL AND split IS NOT NULL)
        SELECT $kind AS kind, key AS what, a.split AS split, b.split AS other_split
        FROM sides a JOIN sides b USING (key) WHERE a.split < b.split ORDER BY ALL""",
        tables={"runs": pa.table({"key": key, "split": split})},
        kind=kind,
    )
    return found.cast(LEAK_SCHEMA)


def _near(keys: TaskKeys, split: pa.Array, likeness: GoalLikeness) -> pa.Table:
    """Pairs of nearly equal goals that two splits have."""
    distinct = distinct_goals(keys)
    goal = pc.index_in(keys.goal, value_set=distinct)
    sides: Mapping[int, set[str]] = {n: set() for n in range(len(distinct))}
    seen = pa.table({"goal": goal, "split": split}).group_by(["goal", "split"]).aggregate([])
    for number, name in zip(seen.column("goal"), seen.column("split"), strict=True):
        if number.is_valid and name.is_valid:
            sides[number.as_py()].add(str(name))
    kinds = {names: n for n, names in enumerate(sorted({tuple(sorted(s)) for s in sides.values()}))}
    apart = [kinds[tuple(sorted(s))] if len(s) < 2 else len(kinds) + n for n, s in sides.items()]
    rows = [
        ("near-goal", f"{distinct[left].as_py()} | {distinct[right].as_py()}", one, other)
        for left, right in near_goals(distinct, likeness, apart)
        for one in sorted(sides[left])
        for other in sorted(sides[right])
        if one != other
    ]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(LEAK_SCHEMA)
    return pa.table([pa.array(c, pa.string()) for c in columns], schema=LEAK_SCHEMA)


STAGES = {s.name: s for s in (Split, OnlySplit, LeakCheck)}
"""Stages of this module by name."""
