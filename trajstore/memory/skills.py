"""The skill library (Voyager, Wang et al. 2023): verified code, found again by what it does.

The table ``skills`` of the store is the single truth; whatever is kept beside it (a search index)
is made from it. Code is kept only once it ran with its check in a sandbox. A version never changes:
its id is ``name@hash``, and what it calls is pinned by such ids. Where a skill gets a new version,
or none, everything that calls it is marked, and served again only after it was verified anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa

from trajstore.errors import SkillError
from trajstore.memory.skill_code import (
    PYTHON,
    called_skills,
    check_name,
    docstring_of,
    problem_of,
    signature_of,
)
from trajstore.memory.skill_graph import closure, dependents
from trajstore.memory.skill_program import program_of
from trajstore.memory.skill_row import (
    SkillDraft,
    StoredSkill,
    id_of,
    name_of,
    newest_by_name,
    rows_of,
    skills_of,
)
from trajstore.memory.skill_shelf import SkillShelf, needs_of, whole_closure
from trajstore.memory.verifying import (
    ATTEMPTS,
    Attempt,
    Repair,
    Verdict,
    run_with,
    verify_skills,
)
from trajstore.rollouts import Sandbox, SandboxResult
from trajstore.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What verifying one skill brought."""

    skill_id: str
    """The version."""
    ok: bool | None
    """Whether it may be served; None where it has no check to run."""
    why: str = ""
    """Why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What became of a draft."""

    skill: StoredSkill | None
    """The version that is kept now; None where no attempt passed."""
    attempts: tuple[Attempt, ...] = ()
    """Every version of the code that was tried; none where the code was there already."""
    reverified: tuple[Verified, ...] = ()
    """What calls a skill whose code was replaced, callees first."""

    @property
    def ok(self) -> bool:
        """Whether the skill is in the library."""
        return self.skill is not None


class SkillLibrary(SkillShelf):
    """The skills of a store. It keeps nothing itself, so any number of them may be open."""

    def __init__(
        self,
        store: Store,
        *,
        sandbox: Sandbox | None = None,
        environment: str | None = None,
        environment_version: str | None = None,
        commands: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Use the table ``skills`` of a store.

        Args:
            store: the store.
            sandbox: where code is verified and run; made when it is first needed where None.
            environment: what the skills act in; given to new ones, and others are not served.
            environment_version: its version now; skills verified in another one are not served
                until they are verified again.
            commands: language -> what runs a program in it, such as
                ``{"javascript": ("node", "{program}")}``; goes before a skill's own.
        """
        super().__init__(store, environment=environment, environment_version=environment_version)
        self._sandbox = sandbox
        self._commands = dict(commands or {})

    @property
    def sandbox(self) -> Sandbox:
        """Where code is verified and run."""
        if self._sandbox is None:
            self._sandbox = Sandbox()
        return self._sandbox

    def run(self, references: Iterable[str], code: str) -> SandboxResult:
        """Run Python code in the sandbox with skills, and all that they call, at hand.

        Each skill is in a module of its own, with what it calls bound there, as when it was
        verified: a helper of one never stands in for that of another.

        Raises:
            SkillError: a skill is not there or not in Python.
        """
        skills = self.closure(references)
        other = [s.skill_id for s in skills if s.language != PYTHON]
        if other:
            raise SkillError(f"Only skills in Python run beside Python code, not {other[0]}.")
        return run_with(self.sandbox, skills, code)

    def add(
        self, draft: SkillDraft, *, repair: Repair | None = None, attempts: int = ATTEMPTS
    ) -> Added:
        """Verify a draft and keep it; a name that is there gets a new version.

        Args:
            draft: the code and its check.
            repair: asked for other code after each failed attempt; without it there is one.
            attempts: versions of the code that are tried at most.

        Returns:
            The kept skill and every attempt. Code that is kept and served already is not run again.

        Raises:
            SkillError: the name cannot be used, there is no check, the language needs a command, or
                the code is that of a version that was replaced since.
        """
        check_name(draft.name, draft.language)
        if not draft.check.strip():
            raise SkillError(f"The skill {draft.name} has no check, so it cannot be verified.")
        tried: list[Attempt] = []
        for number in range(1 if repair is None else max(attempts, 1)):
            if number:
                assert repair is not None
                mended = repair(draft, tried[-1].verdict.feedback)
                draft = replace(draft, code=mended.code, description=mended.description)
            there = self._already(draft)
            if there is not None:
                return Added(skill=self._drawn_too(there, draft), attempts=tuple(tried))
            verdict, calls = self._try(draft)
            tried.append(Attempt(code=draft.code, verdict=verdict))
            if verdict.ok:
                return self._keep(draft, calls, tuple(tried))
        return Added(skill=None, attempts=tuple(tried))

    def _already(self, draft: SkillDraft) -> StoredSkill | None:
        versions = self.versions()
        same = next((s for s in versions if s.skill_id == id_of(draft)), None)
        if same is None or same.state == "retired":
            return None
        newest = newest_by_name(versions)[draft.name]
        if newest.version != same.version:
            message = (
                f"{same.skill_id} is version {same.version} of {same.name} and was replaced by "
                f"version {newest.version}. To go back, remove {newest.skill_id}."
            )
            raise SkillError(message)
        return same if self.why_not_served(same) is None else None

    def _drawn_too(self, there: StoredSkill, draft: SkillDraft) -> StoredSkill:
        """A kept skill, which the runs of a draft with the same code speak for, too."""
        if set(draft.trajectory_ids) <= set(there.trajectory_ids):
            return there
        self.store.change_memory(
            "skills",
            lambda rows: rows_of(
                s.drawn_from(draft.trajectory_ids)
                for s in skills_of(rows)
                if s.skill_id == there.skill_id
            ),
        )
        return self.resolve(there.skill_id)

    def _try(self, draft: SkillDraft) -> tuple[Verdict, tuple[StoredSkill, ...]]:
        """Look at the code, find what it calls, and run it."""
        problem = problem_of(draft.name, draft.code, draft.language)
        if problem is not None:
            return Verdict(ok=False, feedback=problem), ()
        versions = self.versions()
        current = {
            n: s for n, s in newest_by_name(versions).items() if s.language == draft.language
        }
        names = called_skills(draft.name, draft.code, draft.language, current)
        calls = tuple(current[n] for n in names)
        try:
            closure([draft.name], {**needs_of(current), draft.name: names})
            below = whole_closure(calls, versions)
        except SkillError as error:
            return Verdict(ok=False, feedback=str(error)), ()
        refused = self._refused(below)
        if refused is not None:
            return Verdict(ok=False, feedback=refused), ()
        skills = [*below, self._stored(draft, calls, ())]
        try:
            program_of(skills)
        except SkillError as error:
            return Verdict(ok=False, feedback=str(error)), ()
        command = self._commands.get(draft.language) or draft.command
        return verify_skills(self.sandbox, skills, draft.check, command=command), calls

    def _refused(self, below: Sequence[StoredSkill]) -> str | None:
        """Why what code calls cannot be called."""
        for skill in below:
            why = self.why_not_served(skill)
            if why is not None:
                return f"The code calls {skill.name}, which is not served ({why})."
        return None

    def _keep(
        self, draft: SkillDraft, calls: tuple[StoredSkill, ...], tried: tuple[Attempt, ...]
    ) -> Added:
        skill = self._stored(draft, calls, tried)

        def decide(rows: pa.Table) -> pa.Table:
            versions = skills_of(rows)
            same = next((s for s in versions if s.skill_id == skill.skill_id), None)
            top = max((s.version for s in versions if s.name == skill.name), default=0)
            version = top + 1 if same is None else same.version
            new = replace(skill, version=version)
            if same is not None:
                new = replace(new, created_at=same.created_at, source=same.source)
                new = new if same.state == "retired" else new.drawn_from(same.trajectory_ids)
            others = [s for s in versions if s.skill_id != skill.skill_id]
            current = newest_by_name([*others, new])
            called = {current[c.name].skill_id for c in calls if c.name in current}
            if called != {c.skill_id for c in calls}:
                new = replace(new, state="pending").with_about(because="what it calls was replaced")
            return rows_of([new, *_marked(new.name, current, f"{new.skill_id} is new")])

        self.store.change_memory("skills", decide)
        again = self.verify(s.skill_id for s in self.dependents(skill.name))
        return Added(skill=self.resolve(skill.skill_id), attempts=tried, reverified=tuple(again))

    def _stored(
        self, draft: SkillDraft, calls: tuple[StoredSkill, ...], tried: tuple[Attempt, ...]
    ) -> StoredSkill:
        now = datetime.now(UTC)
        skill = StoredSkill(
            skill_id=id_of(draft),
            name=draft.name,
            version=1,
            code=draft.code,
            language=draft.language,
            description=draft.description,
            signature=signature_of(draft.name, draft.code, draft.language),
            docstring=docstring_of(draft.name, draft.code, draft.language),
            dependencies=tuple(c.skill_id for c in calls),
            trajectory_ids=draft.trajectory_ids,
            verified_at=now,
            environment=self.environment,
            environment_version=self.environment_version,
            created_at=now,
        )
        return skill.with_about(
            check=draft.check, command=list(draft.command) or None, attempts=len(tried)
        )

    def verify(self, references: Iterable[str] | None = None) -> list[Verified]:
        """Run skills with their checks again, callees first, against the newest of what they call.

        One that passes is pinned to that and served; one that fails is not served until it passes.

        Args:
            references: which; all that count where None.

        Raises:
            SkillError: one is not there.
        """
        current = newest_by_name(self.versions())
        names = list(current) if references is None else [self.resolve(r).name for r in references]
        order = closure(names, needs_of(current)) if names else []
        return [self._again(name) for name in order if name in set(names)]

    def _again(self, name: str) -> Verified:
        versions = self.versions()
        current = newest_by_name(versions)
        skill = current[name]
        if skill.check is None:
            return Verified(skill_id=skill.skill_id, ok=None, why="it has no check")
        command = tuple(skill.command)
        draft = SkillDraft(
            name=name,
            code=skill.code,
            check=skill.check,
            description=skill.description or "",
            language=skill.language,
            command=command,
        )
        verdict, calls = self._try(draft)
        pins = tuple(c.skill_id for c in calls)
        passed = replace(
            skill,
            dependencies=pins,
            state=None,
            verified_at=datetime.now(UTC),
            environment_version=self.environment_version or skill.environment_version,
        ).with_about(error=None, because=None)
        failed = replace(skill, state="pending").with_about(error=verdict.feedback)
        result = passed if verdict.ok else failed
        self.store.change_memory("skills", lambda rows: _if_unchanged(skill, result, rows))
        return Verified(skill_id=skill.skill_id, ok=verdict.ok, why=verdict.feedback)

    def remove(self, reference: str) -> list[Verified]:
        """Take a skill out; its row stays, and is not listed, found or served any more.

        Where the name has an older version, that one counts again, and whatever calls the name is
        verified against it.

        Returns:
            What was verified again.

        Raises:
            SkillError: it is not there, or it has no older version and others call it.
        """
        skill = self.resolve(reference)

        def decide(rows: pa.Table) -> pa.Table:
            versions = skills_of(rows)
            before = newest_by_name(versions)
            left = newest_by_name([s for s in versions if s.skill_id != skill.skill_id])
            callers = sorted(
                n for n, s in before.items() if skill.name in map(name_of, s.dependencies)
            )
            if skill.name not in left and callers:
                message = (
                    f"{skill.skill_id} cannot be removed: {', '.join(callers)} call it. Remove "
                    "them first, or give it a new version."
                )
                raise SkillError(message)
            gone = replace(skill, state="retired")
            if before.get(skill.name, gone).skill_id != skill.skill_id:
                return rows_of([gone])
            return rows_of([gone, *_marked(skill.name, left, f"{skill.skill_id} was removed")])

        self.store.change_memory("skills", decide)
        current = newest_by_name(self.versions())
        return self.verify(s.skill_id for s in self.dependents(skill.name)) if current else []


def _marked(name: str, current: Mapping[str, StoredSkill], because: str) -> list[StoredSkill]:
    """What calls a name, marked as to be verified again."""
    if name not in current:
        return []
    pinned = current[name].skill_id
    callers = [current[n] for n in dependents(name, needs_of(current))]
    direct = {s.name for s in callers if name in map(name_of, s.dependencies)}
    if all(pinned in current[n].dependencies for n in direct):
        return []
    return [replace(s, state="pending").with_about(because=because) for s in callers]


def _if_unchanged(seen: StoredSkill, result: StoredSkill, rows: pa.Table) -> pa.Table:
    """The result of a verification, unless the skill was changed while it ran."""
    now = next((s for s in skills_of(rows) if s.skill_id == seen.skill_id), None)
    return rows_of([result] if now == seen else [])
