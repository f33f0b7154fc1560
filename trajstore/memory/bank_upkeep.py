"""Take items of memory out of service: by hand, by age, with a run; the row always stays.

An item that is out has a state: ``retired`` (it does not help, or somebody took it out),
``expired`` (too old) or ``stale`` (a run that it was made from was taken back, others remain). It
is not listed, recalled or found unless asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.schema import json_text
from trajstore.store import Store

MemoryTable = Literal["reflections", "workflows", "insights"]
"""Tables whose rows have a state of this kind."""

MEMORY_KEYS: Mapping[MemoryTable, str] = {
    "reflections": "reflection_id",
    "workflows": "workflow_id",
    "insights": "version_id",
}
"""Table -> its key."""

_RUNS: Mapping[MemoryTable, str] = {
    "reflections": "trajectory_id",
    "workflows": "trajectory_ids",
    "insights": "trajectory_ids",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new state of a row, and why."""

    state: str | None
    """None puts it back into service."""
    because: str | None
    """Why, for whoever asks; kept in the row's metadata."""


def set_states(store: Store, table: MemoryTable, changes: Mapping[str, Change]) -> int:
    """Write new states, and say how many rows got one.

    Args:
        store: the store.
        table: which.
        changes: key -> state; keys that are not there are passed over.
    """
    if not changes:
        return 0
    key = MEMORY_KEYS[table]

    def decide(rows: pa.Table) -> pa.Table:
        found = rows.filter(pc.is_in(rows.column(key), value_set=pa.array(list(changes))))
        wanted = [changes[k] for k in found.column(key).to_pylist()]
        about = [
            _with_reason(text, change.because)
            for text, change in zip(found.column("metadata").to_pylist(), wanted, strict=True)
        ]
        return _replaced(_replaced(found, "state", [c.state for c in wanted]), "metadata", about)

    return store.change_memory(table, decide)


def reason_of(metadata: str | None) -> str | None:
    """Why a row is out of service, as :func:`set_states` wrote it."""
    value = json.loads(metadata) if metadata else {}
    found = value.get("because") if isinstance(value, dict) else None
    return None if found is None else str(found)


def _with_reason(metadata: str | None, because: str | None) -> str | None:
    value = json.loads(metadata) if metadata else {}
    about = value if isinstance(value, dict) else {"metadata": value}
    about.pop("because", None)
    if because is not None:
        about["because"] = because
    return json_text(about) if about else None


def _replaced(rows: pa.Table, name: str, values: list[str | None]) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), pa.array(values, pa.string()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retracted:
    """What a retraction took out of service."""

    retired: Mapping[str, int] = field(default_factory=dict)
    """Table -> items whose every run was taken back."""
    stale: Mapping[str, int] = field(default_factory=dict)
    """Table -> items that other runs still speak for; make them anew to serve them again."""


def retract(store: Store, trajectory_ids: Iterable[str], *, because: str) -> Retracted:
    """Take out whatever was learnt from some runs (say, they cheated, or were mislabelled).

    The runs themselves stay; :meth:`trajstore.store.Store.delete` removes those. Every version of
    an insight goes, as a later one may still hold what an earlier one learnt.

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
        runs = rows.column(_RUNS[table]).to_pylist()
        owners = rows.column("insight_id" if table == "insights" else key).to_pylist()
        made_from: dict[str, set[str]] = {}
        for owner, value in zip(owners, runs, strict=True):
            ids = [value] if isinstance(value, str) else value or []
            made_from.setdefault(owner, set()).update(ids)
        states = {
            owner: "stale" if ids - gone else "retired"
            for owner, ids in made_from.items()
            if ids & gone
        }
        before = rows.column("state").to_pylist()
        keys = zip(rows.column(key).to_pylist(), owners, before, strict=True)
        changes = {
            k: Change(state=states[owner], because=because)
            for k, owner, state in keys
            if owner in states and state != "retired"
        }
        set_states(store, table, changes)
        retired[table] = sum(s == "retired" for s in states.values())
        stale[table] = sum(s == "stale" for s in states.values())
    return Retracted(retired=retired, stale=stale)


def expire(store: Store, table: MemoryTable, ttl: timedelta, *, now: datetime | None = None) -> int:
    """Mark what is older than its time to live as expired, and say how many rows.

    An item exactly as old as that is still served.

    Args:
        store: the store.
        table: which.
        ttl: time to live, counted from ``created_at``.
        now: the time that ages are counted to.
    """
    moment = now or datetime.now(UTC)
    rows = store.memory(table)
    columns = (rows.column(n).to_pylist() for n in (MEMORY_KEYS[table], "created_at", "state"))
    because = f"older than {ttl}"
    return set_states(
        store,
        table,
        {
            key: Change(state="expired", because=because)
            for key, created, state in zip(*columns, strict=True)
            if state is None and created is not None and moment - created > ttl
        },
    )
