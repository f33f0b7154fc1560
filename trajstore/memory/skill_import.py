"""Take in a Voyager skill library with its dependency graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from trajstore.errors import SkillError
from trajstore.importers import ImportOptions, Problem, importer, sources
from trajstore.memory.skill_row import StoredSkill, rows_of, skills_of
from trajstore.schema import Skill, skill_id
from trajstore.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillImport:
    """What an import did."""

    skills: int
    """Skills that were found."""
    added: int
    """Those that are new to the store, as a version of their name."""
    already: int
    """Those that were there."""
    calling: int
    """Those that call others."""
    dependencies: int
    """Calls between skills, each pair once."""
    problems: tuple[str, ...]
    """What was left out, and why."""


def import_voyager(store: Store, folder: str | Path) -> SkillImport:
    """Add every skill of a Voyager library (``skills.json`` with its folders beside it).

    What a skill calls is pinned to the code that the same library has under that name. The skills
    count as unverified, since nothing here ran them.

    Args:
        store: the store.
        folder: the library's folder, or its ``skills.json``.

    Raises:
        SkillError: there is no library.
    """
    reader = importer("voyager")
    found: list[Skill] = []
    problems: list[str] = []
    if not Path(folder).exists():
        raise SkillError(f"There is nothing at {folder}.", path=folder)
    for source in sources(Path(folder)):
        if isinstance(source, Problem):
            if source.kind == "bad":
                problems.append(str(source))
            continue
        if reader.detect(source) == 0:
            continue
        for item in reader.read(source, ImportOptions()):
            if isinstance(item, Skill):
                found.append(item)
            elif isinstance(item, Problem):
                problems.append(str(item))
    if not found:
        message = f"There is no Voyager skill library (skills.json) at {folder}."
        raise SkillError(message, path=folder)
    added = _add(store, _pinned(found))
    return SkillImport(
        skills=len(found),
        added=added,
        already=len(found) - added,
        calling=sum(bool(s.dependencies) for s in found),
        dependencies=sum(len(s.dependencies) for s in found),
        problems=tuple(problems),
    )


def _pinned(skills: Sequence[Skill]) -> list[Skill]:
    ids = {s.name: skill_id(s) for s in skills}
    return [replace(s, dependencies=tuple(ids.get(d, d) for d in s.dependencies)) for s in skills]


def _add(store: Store, skills: Sequence[Skill]) -> int:
    """Add what is new; bare names of an earlier import are pinned. Gives the number of new ones."""
    before = {s.skill_id for s in skills_of(store.memory("skills"))}
    store.add_skills(skills)
    pins = {skill_id(s): s.dependencies for s in skills}

    def decide(rows: pa.Table) -> pa.Table:
        loose = [s for s in skills_of(rows) if s.skill_id in pins and _is_loose(s)]
        return rows_of(replace(s, dependencies=pins[s.skill_id]) for s in loose)

    store.change_memory("skills", decide)
    return len(pins.keys() - before)


def _is_loose(skill: StoredSkill) -> bool:
    return any("@" not in d for d in skill.dependencies)
