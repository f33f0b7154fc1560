"""The Voyager loop: propose a task, find skills, write code, verify it, mend it, keep it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from trajstore.memory.curriculum import SkillTask, propose_skills
from trajstore.memory.skill_row import SkillDraft
from trajstore.memory.skill_search import TOP_K, Finder, SkillHits, search_skills
from trajstore.memory.skills import Added, SkillLibrary
from trajstore.memory.uses import record_uses
from trajstore.memory.verifying import ATTEMPTS, Chat, chat_repair, code_in
from trajstore.schema import (
    Observation,
    Step,
    ToolCall,
    Trajectory,
    finish,
    json_text,
    trajectory_id,
)

SOURCE = "voyager-loop"
"""Source of the trajectories that a loop writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One task of a loop."""

    task: SkillTask
    """What was to be written."""
    given: SkillHits
    """The skills that the model was shown."""
    added: Added
    """Every attempt, and the skill where one passed."""
    trajectory_id: str
    """The run that tells of it in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOptions:
    """What a loop shows its model, and how often it tries."""

    k: int = TOP_K
    """Skills to show."""
    attempts: int = ATTEMPTS
    """Versions of the code of one task that are tried at most."""
    token_budget: int | None = 4000
    """Tokens of the code shown at most (ours)."""
    find: Finder | None = None
    """How skills are searched; see :func:`search_skills`."""
    about: str = ""
    """What the agent works on, in words, for the proposals."""
    model: str | None = None
    """The model's name, for the trajectories."""


def voyager_loop(
    library: SkillLibrary,
    chat: Chat,
    *,
    rounds: int,
    tasks: Iterable[SkillTask] | None = None,
    options: LoopOptions = LoopOptions(),
) -> Iterator[Round]:
    """Let a model widen a library of Python skills, a task at a time (Voyager, algorithm 1).

    Each round is stored as a trajectory, with one step an attempt and the skills that the model
    was shown in the table ``uses``. Where we differ: the check of a task is code that is run, not a
    model that is asked; a skill that fails all its attempts is told to the curriculum.

    Args:
        library: where skills are found and kept.
        chat: the model.
        rounds: tasks at most.
        tasks: what to write; the model proposes one a round where None.
        options: what is shown and how often is tried.

    Yields:
        Each round when it is over and stored.

    Raises:
        SkillError: the model proposes nothing that can be read, or a name that cannot be used.
    """
    given_tasks = None if tasks is None else iter(tasks)
    failed: list[SkillTask] = []
    for _ in range(rounds):
        if given_tasks is None:
            task = propose_skills(library, chat, failed=failed, about=options.about)[0]
        else:
            upcoming = next(given_tasks, None)
            if upcoming is None:
                return
            task = upcoming
        started = datetime.now(UTC)
        name = trajectory_id(SOURCE, uuid.uuid4().hex, started)
        hits = search_skills(
            library,
            f"{task.name}\n{task.goal}",
            k=options.k,
            token_budget=options.token_budget,
            find=options.find,
        )
        draft = SkillDraft(
            name=task.name,
            code=code_in(chat(_request(task, hits))),
            check=task.check,
            description=task.goal,
            trajectory_ids=(name,),
        )
        added = library.add(draft, repair=chat_repair(chat), attempts=options.attempts)
        run = _trajectory(name, library, task, added, started, options.model)
        library.store.append(run)
        record_uses(library.store, run.trajectory_id, hits, "skill", given_at=started)
        if not added.ok:
            failed.append(task)
        yield Round(task=task, given=hits, added=added, trajectory_id=run.trajectory_id)


def _request(task: SkillTask, hits: SkillHits) -> list[dict[str, str]]:
    known = f"Functions that you may call:\n```python\n{hits.code}\n```\n\n" if len(hits) else ""
    return [
        {"role": "system", "content": _WRITE},
        {
            "role": "user",
            "content": f"{known}Write the function `{task.name}`: {task.goal}\n\n"
            f"It has to pass this check:\n```python\n{task.check}\n```",
        },
    ]


_WRITE = (
    "You write one Python function. Answer with its code in one fenced code block: the function at "
    "the top level, with a docstring, and nothing that runs when it is loaded. Call the functions "
    "that you are given where they help; do not define them again. Use the standard library only."
)


def _trajectory(
    name: str,
    library: SkillLibrary,
    task: SkillTask,
    added: Added,
    started: datetime,
    model: str | None,
) -> Trajectory:
    steps = [Step(actor="user", text=f"{task.goal}\n\nCheck:\n{task.check}")]
    for number, attempt in enumerate(added.attempts):
        arguments = json_text({"code": attempt.code})
        call = ToolCall(
            call_id=f"verify-{number}", name="verify", arguments=arguments, arguments_raw=arguments
        )
        said = attempt.verdict.feedback or "The check passed."
        seen = Observation(call_id=call.call_id, text=said, is_error=not attempt.verdict.ok)
        steps.append(Step(actor="agent", tool_calls=(call,), observations=(seen,), model=model))
    run = Trajectory(
        trajectory_id=name,
        task_id=f"{SOURCE}/{task.name}",
        source=SOURCE,
        goal=task.goal,
        steps=tuple(steps),
        environment=library.environment,
        environment_version=library.environment_version,
        agent=SOURCE,
        model=model,
        status="terminated",
        success=added.ok,
        reward=float(added.ok),
        started_at=started,
        ended_at=datetime.now(UTC),
    )
    return finish(run)
