"""One skill as the library knows it, and its row in the store's table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from trajstore.schema import SKILL_SCHEMA, Skill, build_table, json_text_or_none, skill_id

State = Literal["pending", "retired"]
"""Why a skill is not served: verify it again, or it was taken out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDraft:
    """A skill that is to be kept once it is verified."""

    name: str
    """Name of its function."""
    code: str
    """The code; it may call any skill of the library by name."""
    check: str
    """Code that runs after it and fails, by an exception or an exit code, if it does not work."""
    description: str
    """What it does, in words; searches read it."""
    language: str = "python"
    """Programming language."""
    command: tuple[str, ...] = ()
    """Of other languages than Python: what runs a program, such as ``("node", "{program}")``."""
    trajectory_ids: tuple[str, ...] = ()
    """The runs that it was drawn from, so that it goes with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSkill:
    """One version of a skill, as it is in the store."""

    skill_id: str
    """``name@hash``; the code under it never changes."""
    name: str
    version: int
    """1 for the first code under this name."""
    code: str
    language: str
    description: str | None = None
    signature: str | None = None
    docstring: str | None = None
    dependencies: tuple[str, ...] = ()
    """The skills that its code calls, each as ``name@hash``."""
    trajectory_ids: tuple[str, ...] = ()
    """The runs that it was drawn from."""
    verified_at: datetime | None = None
    environment: str | None = None
    environment_version: str | None = None
    source: str = "library"
    source_uri: str | None = None
    created_at: datetime | None = None
    state: State | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    """The row's metadata: ``check``, ``command``, ``error`` of the last verification, ..."""
    uses: int = 0
    """Counted by the source it was imported from; :meth:`SkillLibrary.usage` has what is so now."""
    successes: int = 0

    @property
    def check(self) -> str | None:
        """The code that verifies it."""
        return self.about.get("check")

    @property
    def command(self) -> tuple[str, ...]:
        """What runs a program in its language."""
        return tuple(self.about.get("command") or ())

    def drawn_from(self, trajectory_ids: Iterable[str]) -> StoredSkill:
        """A copy that some more runs speak for."""
        runs = dict.fromkeys((*self.trajectory_ids, *trajectory_ids))
        return replace(self, trajectory_ids=tuple(runs))

    def with_about(self, **changes: Any) -> StoredSkill:
        """A copy with other metadata; None takes an entry out."""
        about = {k: v for k, v in {**self.about, **changes}.items() if v is not None}
        return replace(self, about=about)


def id_of(draft: SkillDraft) -> str:
    """``name@hash`` of a draft."""
    skill = Skill(name=draft.name, code=draft.code, language=draft.language, source="library")
    return skill_id(skill)


def name_of(reference: str) -> str:
    """The name in a reference: ``name`` or ``name@hash``."""
    return reference.partition("@")[0]


def skills_of(rows: pa.Table) -> list[StoredSkill]:
    """Skills from rows of the table, in the same order."""
    known = {f.name for f in fields(StoredSkill)}
    found = []
    for row in rows.to_pylist():
        values = {k: v for k, v in row.items() if k in known}
        for name in ("dependencies", "trajectory_ids"):
            values[name] = tuple(row[name] or ())
        values["about"] = _about(row["metadata"])
        found.append(StoredSkill(**values))
    return found


def rows_of(skills: Iterable[StoredSkill]) -> pa.Table:
    """Rows of the table from skills, in the same order."""
    listed = list(skills)
    columns: dict[str, list[Any]] = {
        name: [getattr(s, name, None) for s in listed] for name in SKILL_SCHEMA.names
    }
    columns["dependencies"] = [list(s.dependencies) for s in listed]
    columns["trajectory_ids"] = [list(s.trajectory_ids) for s in listed]
    columns["metadata"] = [json_text_or_none(dict(s.about)) for s in listed]
    return build_table(columns, SKILL_SCHEMA)


def newest_by_name(skills: Sequence[StoredSkill]) -> dict[str, StoredSkill]:
    """The version of each name that counts: the newest that was not taken out.

    One that never was verified, such as an imported one, counts only where no other was.
    """

    def place(skill: StoredSkill) -> tuple[bool, int]:
        return skill.verified_at is not None, skill.version

    found: dict[str, StoredSkill] = {}
    for skill in skills:
        before = found.get(skill.name)
        if skill.state != "retired" and (before is None or place(skill) > place(before)):
            found[skill.name] = skill
    return dict(sorted(found.items()))


def _about(metadata: str | None) -> dict[str, Any]:
    value = json.loads(metadata) if metadata else {}
    return value if isinstance(value, dict) else {"metadata": value}
