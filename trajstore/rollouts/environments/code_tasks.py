"""Seeded tasks of the code-fixing environment: small modules with one bug or two."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, count
from random import Random
from typing import Any

from trajstore.rollouts.environment import Task
from trajstore.rollouts.environments import (
    code_problems_lists,
    code_problems_numbers,
    code_problems_text,
)
from trajstore.rollouts.environments.code_exercise import Call, Case, Exercise
from trajstore.rollouts.environments.code_problem import Level, Problem, Question
from trajstore.schema import canonical_json, digest

PROBLEMS: tuple[Problem, ...] = (
    *code_problems_numbers.PROBLEMS,
    *code_problems_text.PROBLEMS,
    *code_problems_lists.PROBLEMS,
)
"""Every module, right."""

_DRAWS = 400
_VISIBLE, _VISIBLE_FAILING = 5, 2
_HIDDEN, _HIDDEN_FAILING = 10, 4


@dataclass(slots=True)
class _Drawn:
    """Distinct cases, by whether the broken module fails them."""

    failing: list[Case] = field(default_factory=list)
    passing: list[Case] = field(default_factory=list)


def code_tasks(count: int = 60, *, seed: int = 0, level: Level | None = None) -> list[Task]:
    """Distinct modules to mend, the same for the same seed on every machine.

    A longer list starts with the shorter one. There are 26 modules and 252 ways to break
    them; after that the same broken modules come again with other tests. The visible tests always
    show the bug, and the hidden ones hold cases of it that the visible ones do not.

    Args:
        count: how many tasks.
        seed: which ones.
        level: only this one: 1 is a bug in a short function, 2 in a longer one or a class, 3 is
            two bugs at once.
    """
    tasks: dict[str, Task] = {}
    for problem, bugs in _order(seed, level):
        if len(tasks) >= count:
            break
        random = Random(f"{seed}/{len(tasks)}/{problem.module}/{bugs}")  # noqa: S311 - no secret
        task = _task(problem, bugs, random)
        tasks[task.task_id] = task
    return list(tasks.values())


def _order(seed: int, level: Level | None) -> Iterator[tuple[Problem, tuple[int, ...]]]:
    """Every way to break a module, shuffled, again and again."""
    ways = [(p, bugs) for p, bugs in _ways() if level is None or _level(p, bugs) == level]
    for again in count():
        shuffled = list(ways)
        Random(f"{seed}/{again}").shuffle(shuffled)  # noqa: S311 - no secret
        yield from shuffled


@cache
def _ways() -> Sequence[tuple[Problem, tuple[int, ...]]]:
    """Every single bug, and every two that change different places and both show."""
    found: list[tuple[Problem, tuple[int, ...]]] = []
    for problem in PROBLEMS:
        every = range(len(problem.bugs))
        found += [(problem, (number,)) for number in every]
        found += [(problem, two) for two in combinations(every, 2) if _apart(problem, two)]
    return found


def _apart(problem: Problem, two: tuple[int, ...]) -> bool:
    """Whether two bugs leave each other alone, so that to mend both is to mend each."""
    spans = []
    for right, _ in (problem.bugs[n] for n in two):
        start = problem.source.index(right)
        spans.append((start, start + len(right)))
    (_, first_end), (second_start, _) = sorted(spans)
    return first_end <= second_start


def _level(problem: Problem, bugs: tuple[int, ...]) -> Level:
    return problem.level if len(bugs) == 1 else 3


def _task(problem: Problem, bugs: tuple[int, ...], random: Random) -> Task:
    broken = problem.broken(bugs)
    drawn = _draw(problem, broken, random)
    visible = _some(drawn, _VISIBLE, _VISIBLE_FAILING)
    hidden = _some(drawn, _HIDDEN, _HIDDEN_FAILING)
    exercise = Exercise(
        module=problem.module,
        files={f"{problem.module}.py": broken},
        visible=tuple(visible),
        hidden=tuple(hidden),
    )
    text = exercise.to_text()
    what = "a bug" if len(bugs) == 1 else "two bugs"
    goal = (
        f"{problem.module}.py has {what}. Mend it, so that it does what its docstrings say. "
        f"{exercise.test_path} shows what is wrong; hidden tests check more than that."
    )
    level = _level(problem, bugs)
    return Task(
        task_id=f"code-fixing/{level}/{problem.module}/{digest(text)[:12]}",
        goal=goal,
        answer=text,
        metadata={"level": level, "module": problem.module, "bugs": list(bugs)},
    )


def _some(drawn: _Drawn, total: int, failing: int) -> list[Case]:
    """Take cases out: some that fail, and others; those that fail do not all come first."""
    shown = [drawn.failing.pop() for _ in range(min(failing, len(drawn.failing)))]
    for pool in (drawn.passing, drawn.failing):
        shown += [pool.pop() for _ in range(min(total - len(shown), len(pool)))]
    return sorted(shown, key=lambda case: digest(canonical_json(_plain(case))))


def _draw(problem: Problem, broken: str, random: Random) -> _Drawn:
    """Cases of which some return and none is there twice, enough of both kinds where there are."""
    right, wrong = _compiled(problem.source), _compiled(broken)
    drawn, seen = _Drawn(), set[str]()
    raising = 0
    for _ in range(_DRAWS):
        questions = problem.draw(random)
        key = canonical_json(questions)
        if key in seen:
            continue
        seen.add(key)
        case = _answered(right, questions)
        raising += case[-1].raises is not None
        if case[-1].raises is not None and raising > _VISIBLE_FAILING:
            continue
        fails = _answered(wrong, questions) != case
        (drawn.failing if fails else drawn.passing).append(case)
        enough = len(drawn.failing) >= _VISIBLE_FAILING + _HIDDEN_FAILING
        if enough and len(drawn.passing) >= _VISIBLE + _HIDDEN:
            break
    return drawn


def _answered(code: Any, questions: Sequence[Question]) -> Case:
    """The questions with what a module of ours answers, in a namespace of their own."""
    namespace: dict[str, Any] = {}
    exec(code, namespace)  # noqa: S102 - a module of this package, broken or not
    made: Any = None
    calls: list[Call] = []
    for name, arguments in questions:
        call = Call(name=name, arguments=arguments)
        try:
            target = getattr(made, name[1:]) if name.startswith(".") else namespace[name]
            value = target(*copy.deepcopy(arguments))
        except Exception as error:  # noqa: BLE001 - what it raises is the answer
            calls.append(Call(name=name, arguments=arguments, raises=type(error).__name__))
            continue
        if isinstance(target, type):
            made = value
            calls.append(call)
        else:
            calls.append(Call(name=name, arguments=arguments, expected=copy.deepcopy(value)))
    return tuple(calls)


@cache
def _compiled(source: str) -> Any:
    return compile(source, "<exercise>", "exec")


def _plain(case: Case) -> list[Any]:
    return [[c.name, list(c.arguments)] for c in case]
