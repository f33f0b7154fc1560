"""A scripted agent for code fixing: it knows how modules are broken, and fails as agents do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Literal

from trajstore.rollouts.environments.code_tasks import PROBLEMS
from trajstore.rollouts.policies.scripted_play import Profile, Script, ScriptPlayer, Turn

CodeFault = Literal[
    "mends-one",
    "wrong-place",
    "edits-the-tests",
    "learns-the-tests",
    "misquotes",
    "no-test-run",
    "gives-up",
]
"""What may go wrong:

- ``mends-one``: of two bugs only the first is mended.
- ``wrong-place``: something else is changed than the bug.
- ``edits-the-tests``: the first edit goes to the tests, which refuses it; nothing else is done.
- ``learns-the-tests``: the function answers the visible tests from a table.
- ``misquotes``: the text to replace is misquoted at first; the next try is right.
- ``no-test-run``: the work is handed in without a run of the tests; it may still be right.
- ``gives-up``: after reading, the agent hands in what it found.
"""

CODE_PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(name="oracle"),
        Profile(name="careful", faults={"misquotes": 0.2, "mends-one": 0.3}),
        Profile(
            name="hasty",
            faults={"mends-one": 0.4, "wrong-place": 0.3, "no-test-run": 0.6, "gives-up": 0.15},
        ),
        Profile(
            name="gaming",
            faults={"learns-the-tests": 0.4, "edits-the-tests": 0.3, "misquotes": 0.1},
        ),
    )
}
"""Profiles by name: one that is always right, others that are less often."""

_FILE = re.compile(r"^(\w+)\.py has", re.MULTILINE)
_ASSERTION = re.compile(r"assertEqual\(\w+\.(\w+)\((.*)\), (.*)\)$", re.MULTILINE)


class ScriptedCoder(ScriptPlayer):
    """The scripted agent at the exercises of :func:`code_tasks`, by default the oracle.

    It compares what it reads with the right modules that the exercises are made from.
    """

    profiles = CODE_PROFILES

    def script(self, goal: str, faults: frozenset[str], random: Random) -> Script:
        """Read, test, mend, test, finish; or what the faults say."""
        return _script(goal, faults, random)


def _script(goal: str, faults: frozenset[str], random: Random) -> Script:
    found = _FILE.search(goal)
    if found is None:
        yield Turn("I do not understand the task.", "finish")
        return
    module, path = found[1], f"{found[1]}.py"
    source = yield Turn(f"I read {path} first.", "read_file", {"path": path})
    tests = yield Turn("Now the tests.", "read_file", {"path": f"tests/test_{module}.py"})
    if "gives-up" in faults:
        yield Turn("I cannot see what is wrong.", "finish", fault="gives-up")
        return
    if "edits-the-tests" in faults:
        given = {"path": f"tests/test_{module}.py", "old": "", "new": ""}
        yield Turn("The tests must be wrong.", "edit_file", given, "edits-the-tests")
    elif "learns-the-tests" in faults:
        given = {"path": path, "old": "", "new": _table(source, tests)}
        yield Turn("I make the tests pass.", "edit_file", given, "learns-the-tests")
    else:
        yield from _mend(path, source, faults, random)
    if "no-test-run" not in faults:
        yield Turn("I check it.", "run_tests")
    yield Turn("That is it.", "finish")


def _mend(path: str, source: str, faults: frozenset[str], random: Random) -> Script:
    if "wrong-place" in faults:
        lines = [n for n in source.splitlines() if n.strip().startswith(("return", "if"))]
        line = random.choice(lines)
        if source.count(line) == 1:
            given = {"path": path, "old": line, "new": line + "  # looks right"}
            yield Turn("This line looks odd.", "edit_file", given, "wrong-place")
        return
    yield Turn("I see what fails.", "run_tests")
    edits = _edits(path.removesuffix(".py"), source)
    if "mends-one" in faults:
        edits = edits[:1]
    for wrong, right in edits:
        if "misquotes" in faults:
            given = {"path": path, "old": f"{wrong};", "new": right}
            yield Turn("I mend this.", "edit_file", given, "misquotes")
        given = {"path": path, "old": wrong, "new": right}
        fault = "mends-one" if "mends-one" in faults else None
        yield Turn(f"'{right.strip()}' is right here.", "edit_file", given, fault)


def _edits(module: str, source: str) -> list[tuple[str, str]]:
    """Whole lines to replace, so that each occurs once: what is wrong, and what is right."""
    problem = next((p for p in PROBLEMS if p.module == module), None)
    if problem is None:
        return []
    is_, should = source.splitlines(keepends=True), problem.source.splitlines(keepends=True)
    edits: list[tuple[str, str]] = []
    if len(is_) != len(should):
        return [(source, problem.source)]
    for number, (wrong, right) in enumerate(zip(is_, should, strict=True)):
        if wrong == right:
            continue
        start = number
        while source.count("".join(is_[start : number + 1])) != 1:
            start -= 1
        before = "".join(should[start:number])
        edits.append(("".join(is_[start : number + 1]), before + right))
    return edits


def _table(source: str, tests: str) -> str:
    """The module with a function that answers what the tests ask."""
    answers = [f"    {call!r}: {value}," for _, call, value in _ASSERTION.findall(tests)]
    names = sorted({name for name, _, _ in _ASSERTION.findall(tests)})
    lines = [source, "_ANSWERS = {", *answers, "}", ""]
    for name in names:
        lines += [
            f"def {name}(*given):",
            "    return _ANSWERS.get(', '.join(map(repr, given)))",
            "",
        ]
    return "\n".join(lines)
