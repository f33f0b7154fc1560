"""The fields of an item of memory that a prompt shows."""

from __future__ import annotations

from collections.abc import Sequence

from trajstore.retrieval.hits import Level
from trajstore.retrieval.levels import MEMORIES
from trajstore.retrieval.quoting import line
from trajstore.retrieval.served_skills import callees
from trajstore.schema import TABLES
from trajstore.store import Reader, Store

_SHOWN: dict[Level, tuple[str, ...]] = {
    "skill": ("name", "language", "signature", "description", "docstring", "code"),
    "reflection": ("text",),
    "workflow": ("name", "description", "steps"),
    "insight": ("title", "description", "text"),
}

UNVERIFIED = ("verified", "never")
"""The field of a skill that nobody ever saw work."""

Fields = tuple[tuple[str, str], ...]
"""Name and text of each field that has one."""


def memory_fields(source: Store | Reader, level: Level, ids: Sequence[str]) -> dict[str, Fields]:
    """Item -> its fields in the order of reading; an item that is gone has none.

    A skill has the code of all that it calls before its own, callees first.

    Args:
        source: the store, or a snapshot of it.
        level: a level of memory.
        ids: item ids.
    """
    memory = MEMORIES[level]
    known = {column.name for column in TABLES[memory.view]}
    names = [n for n in _SHOWN[level] if n in known]
    listed = ", ".join("'" + i.replace("'", "''") + "'" for i in dict.fromkeys(ids))
    more, served = (", verified_at", " AND state IS NULL") if level == "skill" else ("", "")
    query = (
        f"SELECT {memory.key} AS item_id, {', '.join(names)}{more} FROM {memory.view} "
        f"WHERE {memory.key} IN ({listed}){served}"
    )
    found = source.query(query).read_all().to_pylist()
    fields = {r["item_id"]: tuple((n, str(r[n])) for n in names if r[n]) for r in found}
    if level != "skill":
        return fields
    below = callees(source, list(fields))
    for row in found:
        name = row["item_id"]
        first = () if row["verified_at"] is not None else (UNVERIFIED,)
        called = ((f"code of {line(c.name)}", c.code) for c in below.get(name, ()))
        own = [(n, text) for n, text in fields[name] if n == "code"]
        head = [(n, text) for n, text in fields[name] if n != "code"]
        fields[name] = (*first, *head, *called, *own)
    return fields
