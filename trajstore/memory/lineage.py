"""What was drawn from which runs: taken out of service, or removed, with the runs it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.memory.bank_upkeep import (
    MEMORY_KEYS,
    Change,
    MemoryTable,
    replaced,
    set_states,
    with_reason,
)
from trajstore.memory.skill_graph import dependents
from trajstore.memory.skill_row import StoredSkill, newest_by_name, rows_of, skills_of
from trajstore.memory.skill_shelf import needs_of
from trajstore.store import Store

_RUNS: Mapping[MemoryTable, str] = {
    "reflections": "trajectory_id",
    "workflows": "trajectory_ids",
    "insights": "trajectory_ids",
}
_GONE = "a run that it was drawn from was deleted"
_CALLS = "what it calls was taken back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retracted:
    """What a retraction took out of service."""

    retired: Mapping[str, int] = field(default_factory=dict)
    """Table -> items whose every run was taken back."""
    stale: Mapping[str, int] = field(default_factory=dict)
    """Table -> items that other runs still speak for; make them anew to serve them again. Of
    ``skills`` those that are to be verified again, for this or because they call a retired one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What went with deleted runs."""

    removed: Mapping[str, int] = field(default_factory=dict)
    """Table -> rows that are gone: items that were drawn from these runs alone (of an insight every
    version), and in ``uses`` what the runs were given."""
    stale: Mapping[str, int] = field(default_factory=dict)
    """Table -> items that other runs speak for, too, as in :class:`Retracted`."""


def retract(store: Store, trajectory_ids: Iterable[str], *, because: str) -> Retracted:
    """Take out whatever was learnt from some runs (say, they cheated, or were mislabelled).

    The runs themselves stay; :meth:`trajstore.pipeline.Pool.delete` removes those, with what was
    drawn from them. Every version of an insight goes, as a later one may still hold what an earlier
    one learnt. Skills that call one that goes have to be verified again.

    Args:
        store: the store.
        trajectory_ids: the runs.
        because: why; kept with each item.
    """
    gone = set(trajectory_ids)
    retired: dict[str, int] = {}
    stale: dict[str, int] = {}
    for table, key in MEMORY_KEYS.items():
        rows = store.memory(table)
        states = _states(table, rows, gone)
        before = rows.column("state").to_pylist()
        keys = zip(rows.column(key).to_pylist(), _owners(table, rows), before, strict=True)
        changes = {
            k: Change(state=states[owner], because=because)
            for k, owner, state in keys
            if owner in states and state != "retired"
        }
        set_states(store, table, changes)
        retired[table] = sum(s == "retired" for s in states.values())
        stale[table] = sum(s == "stale" for s in states.values())
    retired["skills"], stale["skills"] = _retract_skills(store, gone, because)
    return Retracted(retired=retired, stale=stale)


def _retract_skills(store: Store, gone: set[str], because: str) -> tuple[int, int]:
    counts = (0, 0)

    def decide(rows: pa.Table) -> pa.Table:
        nonlocal counts
        skills = skills_of(rows)
        touched, alone = _drawn(skills, gone)
        calling = {s.skill_id for s in _callers(skills, alone)} - touched
        changed = [
            replace(s, state="retired" if s.skill_id in alone else "pending").with_about(
                because=_CALLS if s.skill_id in calling else because
            )
            for s in skills
            if s.skill_id in touched | calling and s.state != "retired"
        ]
        counts = (len(alone), len(touched - alone) + len(calling))
        return rows_of(changed)

    store.change_memory("skills", decide)
    return counts


def forget_runs(store: Store, trajectory_ids: Iterable[str], *, dry_run: bool = False) -> Forgotten:
    """Remove whatever was drawn from some runs alone, and what is recorded of what they were given.

    Items that other runs speak for, too, stay without these runs' ids and are not served until they
    are made anew (skills: verified again). ``vacuum`` removes the bytes.

    Args:
        store: the store.
        trajectory_ids: the runs.
        dry_run: only count.
    """
    gone = set(trajectory_ids)
    removed: dict[str, int] = {}
    stale: dict[str, int] = {}
    for table in (*MEMORY_KEYS, "skills", "uses"):
        outcome = _Forgetting(table, gone)
        if dry_run:
            outcome.decide(store.memory(table))
        else:
            store.rewrite_memory(table, outcome.decide)
        removed |= {table: outcome.removed} if outcome.removed else {}
        stale |= {table: outcome.stale} if outcome.stale else {}
    return Forgotten(removed=removed, stale=stale)


class _Forgetting:
    """What stays of one table, and how many rows and items do not."""

    def __init__(self, table: str, gone: set[str]) -> None:
        self._table = table
        self._gone = gone
        self.removed = 0
        self.stale = 0

    def decide(self, rows: pa.Table) -> pa.Table:
        if self._table == "skills":
            kept = self._skills(rows)
        elif self._table == "uses":
            runs = pa.array(sorted(self._gone), pa.string())
            kept = rows.filter(pc.invert(pc.is_in(rows.column("trajectory_id"), value_set=runs)))
        else:
            kept = self._items(self._table, rows)  # type: ignore[arg-type]
        self.removed = rows.num_rows - kept.num_rows
        return kept

    def _items(self, table: MemoryTable, rows: pa.Table) -> pa.Table:
        states = _states(table, rows, self._gone)
        self.stale = sum(s == "stale" for s in states.values())
        found = [states.get(owner) for owner in _owners(table, rows)]
        stays = pa.array([f != "retired" for f in found], pa.bool_())
        kept = rows.filter(stays)
        left = [f for f in found if f != "retired"]
        return self._without_runs(table, kept, left) if self.stale else kept

    def _without_runs(
        self, table: MemoryTable, rows: pa.Table, found: list[str | None]
    ) -> pa.Table:
        """The rows, stale ones marked and without the ids of runs that are gone."""
        names = ("state", "metadata", _RUNS[table])
        columns: dict[str, list[Any]] = {n: rows.column(n).to_pylist() for n in names}
        for at, state in enumerate(found):
            if state is not None:
                ids = columns[_RUNS[table]][at]
                columns[_RUNS[table]][at] = [i for i in ids if i not in self._gone]
                columns["state"][at] = columns["state"][at] or state
                columns["metadata"][at] = with_reason(columns["metadata"][at], _GONE)
        for name, values in columns.items():
            rows = replaced(rows, name, values)
        return rows

    def _skills(self, rows: pa.Table) -> pa.Table:
        skills = skills_of(rows)
        touched, alone = _drawn(skills, self._gone)
        if not touched:
            return rows
        marked = {s.skill_id: _CALLS for s in _callers(skills, alone)}
        marked |= dict.fromkeys(touched, _GONE)
        left = [s for s in skills if s.skill_id not in alone]
        self.stale = sum(s.skill_id in marked for s in left)
        why = (marked.get(s.skill_id) for s in left)
        return rows_of(
            s if w is None else self._marked(s, w) for s, w in zip(left, why, strict=True)
        )

    def _marked(self, skill: StoredSkill, because: str) -> StoredSkill:
        runs = tuple(r for r in skill.trajectory_ids if r not in self._gone)
        state = skill.state or "pending"
        return replace(skill, state=state, trajectory_ids=runs).with_about(because=because)


def _drawn(skills: list[StoredSkill], gone: set[str]) -> tuple[set[str], set[str]]:
    """Ids of the skills that some of the runs speak for, and of those that no other does."""
    touched = {s.skill_id for s in skills if gone & set(s.trajectory_ids)}
    others = {s.skill_id for s in skills if set(s.trajectory_ids) - gone}
    return touched, touched - others


def _callers(skills: list[StoredSkill], alone: set[str]) -> Iterator[StoredSkill]:
    """The skills that count and call, directly or through others, a version that goes."""
    current = newest_by_name(skills)
    needs = needs_of(current)
    found: dict[str, StoredSkill] = {}
    for skill in skills:
        if skill.skill_id in alone:
            names = dependents(skill.name, needs)
            direct = {n for n in names if skill.skill_id in current[n].dependencies}
            above = {n for d in direct for n in (d, *dependents(d, needs))}
            found |= {n: current[n] for n in above}
    return (s for _, s in sorted(found.items()) if s.skill_id not in alone)


def _states(table: MemoryTable, rows: pa.Table, gone: set[str]) -> dict[str, str]:
    """Item -> ``retired`` where every run of it is gone, ``stale`` where some are."""
    made_from: dict[str, set[str]] = {}
    runs = rows.column(_RUNS[table]).to_pylist()
    for owner, value in zip(_owners(table, rows), runs, strict=True):
        ids = [value] if isinstance(value, str) else value or []
        made_from.setdefault(owner, set()).update(ids)
    return {
        owner: "stale" if ids - gone else "retired"
        for owner, ids in made_from.items()
        if ids & gone
    }


def _owners(table: MemoryTable, rows: pa.Table) -> list[str]:
    """The item of each row; every version of an insight is one item."""
    found: list[str] = rows.column(
        "insight_id" if table == "insights" else MEMORY_KEYS[table]
    ).to_pylist()
    return found
