"""What to learn next (Voyager's automatic curriculum): by rule from the store, or by a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from trajstore.errors import SkillError
from trajstore.memory.skill_shelf import SkillShelf
from trajstore.memory.verifying import Chat, code_in
from trajstore.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProposal:
    """A task of the store that is worth another attempt."""

    task_id: str
    """The task."""
    goal: str | None
    """What it asks for."""
    attempts: int
    """Attempts whose outcome is known."""
    successes: int
    """Those that succeeded."""
    weight: float
    """``p * (1 - p)`` of the smoothed success rate, 0 to 0.25: how much is to be learnt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTask:
    """A skill that is to be written."""

    name: str
    """Name of the function."""
    goal: str
    """What it does."""
    check: str
    """Code that fails if it does not."""


def propose_tasks(
    store: Store, *, k: int = 5, environment: str | None = None
) -> list[TaskProposal]:
    """The tasks from which most is to be learnt now, by their success rate in the store.

    The rate is smoothed by one success and one failure, ``p = (s + 1) / (n + 2)``; ``p * (1 - p)``
    is highest for tasks that are solved half of the time. Tasks that are always solved, and tasks
    of which no outcome is known, are left out. Ties: the task tried less often, then by id.

    Args:
        store: the store.
        k: tasks at most.
        environment: only tasks of this one.
    """
    rows = store.query(
        f"""
        SELECT task_id, goal, environment, attempts - unknown AS judged, successes,
            (successes + 1) / (judged + 2) AS p, p * (1 - p) AS weight
        FROM tasks
        WHERE judged > successes AND {_in(environment)}
        ORDER BY weight DESC, judged, task_id
        LIMIT {int(k)}"""
    )
    return [
        TaskProposal(
            task_id=row["task_id"],
            goal=row["goal"],
            attempts=row["judged"],
            successes=row["successes"],
            weight=row["weight"],
        )
        for row in rows.read_all().to_pylist()
    ]


def _in(environment: str | None) -> str:
    if environment is None:
        return "true"
    return "environment = '" + environment.replace("'", "''") + "'"


def propose_skills(
    shelf: SkillShelf,
    chat: Chat,
    *,
    k: int = 1,
    failed: Sequence[SkillTask] = (),
    about: str = "",
) -> list[SkillTask]:
    """Skills that a model thinks the library should learn next, from what it has already.

    Args:
        shelf: the library.
        chat: the model; it is shown names, signatures and descriptions of the served skills.
        k: skills to ask for.
        failed: tasks that were given up; the model is told to propose something easier.
        about: what the agent works on, in words.

    Raises:
        SkillError: the answer holds no proposal that can be read.
    """
    known = [f"- {s.signature or s.name}: {s.description or ''}" for s in shelf.served()]
    parts = [
        f"Propose {k} new functions." if k > 1 else "Propose one new function.",
        f"The agent works on: {about}" if about else "",
        "The library has:\n" + ("\n".join(known) or "nothing yet"),
        "Given up:\n" + "\n".join(f"- {t.name}: {t.goal}" for t in failed) if failed else "",
    ]
    messages = [
        {"role": "system", "content": _PROPOSE},
        {"role": "user", "content": "\n\n".join(p for p in parts if p)},
    ]
    taken = {s.name for s in shelf.skills()}
    answer = chat(messages)
    found = [t for t in _tasks(answer) if t.name not in taken]
    if not found:
        message = f"The model proposed no new skill that can be read: {answer[:300]!r}"
        raise SkillError(message)
    return found[:k]


_PROPOSE = (
    "You plan what a library of Python functions learns next. A good proposal is new, useful, a "
    "little harder than what is there, and can build on it. Answer with a JSON list only, each "
    'entry {"name": a Python identifier, "goal": what the function does and takes and returns, '
    '"check": Python code with assert statements that call it}. The check sees the function and '
    "nothing else, and needs no network and no files."
)


def _tasks(answer: str) -> list[SkillTask]:
    text = code_in(answer)
    start = min((i for i in (text.find("["), text.find("{")) if i >= 0), default=-1)
    if start < 0:
        return []
    try:
        value = json.JSONDecoder().raw_decode(text, start)[0]
    except ValueError:
        return []
    entries = value if isinstance(value, list) else [value]
    names = ("name", "goal", "check")
    return [
        SkillTask(**{n: e[n] for n in names})
        for e in entries
        if isinstance(e, dict) and all(isinstance(e.get(n), str) and e[n].strip() for n in names)
    ]
