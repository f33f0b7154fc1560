"""The skills of a store as they are: found by name, with all that they call, and why not served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches

from trajstore.errors import SkillError
from trajstore.memory.skill_graph import closure, dependents
from trajstore.memory.skill_program import program_of
from trajstore.memory.skill_row import StoredSkill, name_of, newest_by_name, skills_of
from trajstore.store import Store


class SkillShelf:
    """What can be read of the skills of a store; :class:`SkillLibrary` also adds and verifies."""

    def __init__(
        self,
        store: Store,
        *,
        environment: str | None = None,
        environment_version: str | None = None,
    ) -> None:
        """Read the table ``skills`` of a store.

        Args:
            store: the store.
            environment: what the skills act in; skills of others are not served.
            environment_version: its version now; skills verified in another one are not served
                until they are verified again.
        """
        self.store = store
        self.environment = environment
        self.environment_version = environment_version

    def versions(self) -> list[StoredSkill]:
        """Every version of every skill, ordered by name and version."""
        found = skills_of(self.store.memory("skills"))
        return sorted(found, key=lambda s: (s.name, s.version))

    def skills(self) -> list[StoredSkill]:
        """The version of each name that counts, ordered by name."""
        return list(newest_by_name(self.versions()).values())

    def resolve(self, reference: str) -> StoredSkill:
        """The skill that a reference means, the same one for listing, showing and running.

        Args:
            reference: a name, for the version that counts, or ``name@hash`` for that one.

        Raises:
            SkillError: there is none; the message names close ones.
        """
        return find_skill(reference, self.versions())

    def closure(self, references: Iterable[str]) -> list[StoredSkill]:
        """Skills and everything that they call, callees first.

        Raises:
            SkillError: one is not there, they call each other in a circle, or two versions of one
                name would meet.
        """
        versions = self.versions()
        return whole_closure([find_skill(r, versions) for r in references], versions)

    def dependents(self, reference: str) -> list[StoredSkill]:
        """Everything that calls a skill, directly or through others, callees first."""
        current = newest_by_name(self.versions())
        return [current[n] for n in dependents(name_of(reference), needs_of(current))]

    def why_not_served(self, skill: StoredSkill) -> str | None:
        """Why a skill is not handed out, or None where it is."""
        if skill.state is not None:
            reason = skill.about.get("error") or skill.about.get("because")
            return f"{skill.state}: {reason}" if reason else skill.state
        if skill.verified_at is None:
            return "never verified"
        if self.environment is not None and skill.environment != self.environment:
            return f"of another environment ({skill.environment})"
        wanted = self.environment_version
        if wanted is not None and skill.environment_version != wanted:
            return f"stale: verified in version {skill.environment_version}, now {wanted}"
        return None

    def served(self) -> list[StoredSkill]:
        """The skills that may be handed out, with all that they call, ordered by name."""
        versions = self.versions()
        good = []
        for skill in newest_by_name(versions).values():
            try:
                below = whole_closure([skill], versions)
            except SkillError:
                continue
            if all(self.why_not_served(s) is None for s in below):
                good.append(skill)
        return good

    def usage(self) -> dict[str, tuple[int, int, datetime | None]]:
        """Uses, successes and end of the last success of each version, from the table ``uses``."""
        query = "SELECT skill_id, uses, successes, last_success_at FROM skills"
        rows = self.store.reader().query(query).read_all().to_pylist()
        return {r["skill_id"]: (r["uses"], r["successes"], r["last_success_at"]) for r in rows}

    def program(self, references: Iterable[str]) -> str:
        """The code of skills behind the code of all that they call, as one text.

        Raises:
            SkillError: see :meth:`closure`; or they cannot stand in one program.
        """
        return program_of(self.closure(references))


def needs_of(current: Mapping[str, StoredSkill]) -> dict[str, tuple[str, ...]]:
    """Names that each name calls; what is not there any more is left out."""
    return {
        n: tuple(d for d in map(name_of, s.dependencies) if d in current)
        for n, s in current.items()
    }


def find_skill(reference: str, versions: Sequence[StoredSkill]) -> StoredSkill:
    """The skill that a reference means; see :meth:`SkillShelf.resolve`."""
    if "@" in reference:
        found = next((s for s in versions if s.skill_id == reference), None)
    else:
        found = newest_by_name(versions).get(reference)
    if found is not None:
        return found
    names = sorted({s.skill_id if "@" in reference else s.name for s in versions})
    close = get_close_matches(reference, names, n=3)
    hint = f" Close: {', '.join(close)}." if close else " `trajstore skills list` shows all."
    raise SkillError(f"There is no skill {reference!r}.{hint}")


def whole_closure(
    roots: Iterable[StoredSkill], versions: Sequence[StoredSkill]
) -> list[StoredSkill]:
    """Roots and all that they call by pins; a bare name is whatever counts now."""
    known = {s.skill_id: s for s in versions}
    newest = newest_by_name(versions)
    alias = {n: s.skill_id for n, s in newest.items()}
    needs = {i: [alias.get(d, d) for d in s.dependencies] for i, s in known.items()}
    found = [known[i] for i in closure([s.skill_id for s in roots], needs)]
    by_name: dict[str, StoredSkill] = {}
    for skill in found:
        other = by_name.setdefault(skill.name, skill)
        if other is not skill:
            message = (
                f"{other.skill_id} and {skill.skill_id} cannot be loaded together. Verify what "
                "calls them again: `trajstore skills verify STORE`."
            )
            raise SkillError(message)
    return found
