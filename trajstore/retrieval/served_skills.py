"""Which skills a search may find, and what each calls, by the rules of the skill library.

The rules are those of :meth:`trajstore.memory.SkillLibrary.served`; here they are SQL, for searches
by the index. A test keeps the two the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trajstore.store import Reader, Store

_PARTS = """
    WITH RECURSIVE versions AS MATERIALIZED (SELECT * FROM skills),
    counting AS MATERIALIZED (
        SELECT * FROM versions WHERE state IS DISTINCT FROM 'retired'
        QUALIFY row_number() OVER (
            PARTITION BY name ORDER BY verified_at IS NOT NULL DESC, version DESC, skill_id) = 1),
    calls AS MATERIALIZED (
        SELECT v.skill_id, coalesce(c.skill_id, v.pin) AS needs
        FROM (SELECT skill_id, unnest(dependencies) AS pin FROM versions) v
        LEFT JOIN counting c ON c.name = v.pin),"""

SERVED_SKILLS = f"""{_PARTS}
    below AS (
        SELECT skill_id AS root, needs FROM calls
        UNION SELECT b.root, c.needs FROM below b JOIN calls c ON c.skill_id = b.needs),
    whole AS (SELECT * FROM below UNION SELECT root, root FROM below),
    circles AS (SELECT root FROM below WHERE root = needs),
    broken AS (
        SELECT root FROM below b LEFT JOIN versions v ON v.skill_id = b.needs
        WHERE v.skill_id IS NULL OR v.state IS NOT NULL OR v.verified_at IS NULL
            OR b.needs IN (SELECT root FROM circles)
        UNION SELECT w.root FROM whole w JOIN versions v ON v.skill_id = w.needs
        GROUP BY w.root, v.name HAVING count(DISTINCT v.skill_id) > 1)
    SELECT * FROM counting
    WHERE state IS NULL
        AND (verified_at IS NULL OR skill_id NOT IN (SELECT root FROM broken))"""
"""SELECT of the versions that count and are served with all that they call, and of those that count
and never were verified."""

SKILL_RUNS = f"""{_PARTS}
    below AS (
        SELECT skill_id AS root, needs FROM calls
        UNION SELECT b.root, c.needs FROM below b JOIN calls c ON c.skill_id = b.needs),
    whole AS (SELECT * FROM below UNION SELECT skill_id, skill_id FROM versions)
    SELECT w.root AS skill_id, v.trajectory_ids
    FROM whole w JOIN versions v ON v.skill_id = w.needs"""
"""SELECT of the runs that each version is drawn from, by its own code and by all that it calls."""

_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Callee:
    """A skill that another one calls, directly or through others."""

    name: str
    """Its name."""
    code: str
    """Its code."""


def callees(source: Store | Reader, ids: Sequence[str]) -> dict[str, tuple[Callee, ...]]:
    """Skill -> all that it calls, callees first; what calls nothing has no entry.

    Args:
        source: the store, or a snapshot of it.
        ids: of the skills.
    """
    listed = ", ".join("'" + i.replace("'", "''") + "'" for i in dict.fromkeys(ids))
    query = f"""{_PARTS}
        below AS (
            SELECT skill_id AS root, needs, 1 AS depth FROM calls WHERE skill_id IN ({listed})
            UNION SELECT b.root, c.needs, b.depth + 1
            FROM below b JOIN calls c ON c.skill_id = b.needs WHERE b.depth < {_DEEPEST})
        SELECT root, any_value(v.name) AS name, any_value(v.code) AS code
        FROM below b JOIN versions v ON v.skill_id = b.needs WHERE b.needs <> b.root
        GROUP BY root, b.needs ORDER BY root, max(depth) DESC, b.needs"""
    found: dict[str, tuple[Callee, ...]] = {}
    for row in source.query(query).read_all().to_pylist() if listed else ():
        found[row["root"]] = (*found.get(row["root"], ()), Callee(row["name"], row["code"]))
    return found
