"""Take items of memory out of service: by hand or by age; the row always stays.

An item that is out has a state: ``retired`` (it does not help, or somebody took it out),
``expired`` (too old) or ``stale`` (a run that it was made from was taken back, others remain). It
is not listed, recalled or found unless asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

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
            with_reason(text, change.because)
            for text, change in zip(found.column("metadata").to_pylist(), wanted, strict=True)
        ]
        return replaced(replaced(found, "state", [c.state for c in wanted]), "metadata", about)

    return store.change_memory(table, decide)


def reason_of(metadata: str | None) -> str | None:
    """Why a row is out of service, as :func:`set_states` wrote it."""
    value = json.loads(metadata) if metadata else {}
    found = value.get("because") if isinstance(value, dict) else None
    return None if found is None else str(found)


def with_reason(metadata: str | None, because: str | None) -> str | None:
    """Metadata with why a row is out of service; without a reason where None."""
    value = json.loads(metadata) if metadata else {}
    about = value if isinstance(value, dict) else {"metadata": value}
    about.pop("because", None)
    if because is not None:
        about["because"] = because
    return json_text(about) if about else None


def replaced(rows: pa.Table, name: str, values: list[Any]) -> pa.Table:
    """Rows with other values in one column."""
    place = rows.schema.get_field_index(name)
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array(values, field.type))


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
