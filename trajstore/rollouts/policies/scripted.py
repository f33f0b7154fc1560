"""A scripted agent: solves the calculator's tasks with its tools, and fails as agents do.

It reads the question, calls tools, reads their answers and goes on from there, so every number it
gives comes from the environment. Named faults make it fail in the ways that stores of real runs are
full of. No model is involved.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from random import Random
from typing import Literal

from trajstore.rollouts.environments.arithmetic import evaluate, format_number
from trajstore.rollouts.policies.scripted_plans import Lookup, Plan, read_goal
from trajstore.rollouts.policies.scripted_play import Profile, Script, ScriptPlayer, Turn
from trajstore.schema import json_text

Fault = Literal[
    "wrong-precedence",
    "malformed-arguments",
    "repeated-call",
    "gives-up",
    "no-tools",
    "unknown-tool",
    "mental-arithmetic",
    "redundant-calls",
]
"""What may go wrong:

- ``wrong-precedence``: the brackets are left out of the expression.
- ``malformed-arguments``: the arguments of the first calculation are no JSON; the next ones are.
- ``repeated-call``: the first call is made again and again until a limit ends it.
- ``gives-up``: after one call the agent says that it does not know.
- ``no-tools``: the answer is guessed, in plain text first.
- ``unknown-tool``: the first call goes to a tool that does not exist.
- ``mental-arithmetic``: the result is worked out without a tool and is off by one.
- ``redundant-calls``: every call is made twice; the answer is right.
"""


PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(name="careful", faults={"redundant-calls": 0.1}),
        Profile(
            name="hasty",
            faults={
                "mental-arithmetic": 0.35,
                "wrong-precedence": 0.25,
                "no-tools": 0.15,
                "gives-up": 0.05,
            },
        ),
        Profile(
            name="clumsy",
            faults={
                "malformed-arguments": 0.5,
                "unknown-tool": 0.4,
                "wrong-precedence": 0.25,
                "mental-arithmetic": 0.1,
            },
        ),
        Profile(
            name="stubborn",
            faults={"repeated-call": 0.3, "redundant-calls": 0.6, "gives-up": 0.05},
        ),
        Profile(name="thorough", faults={"redundant-calls": 1.0}),
    )
}
"""Profiles by name, from the most to the least able, and one that is right but slow."""


class ScriptedPolicy(ScriptPlayer):
    """The scripted agent with one profile, by default ``careful``."""

    profiles = PROFILES

    def script(self, goal: str, faults: frozenset[str], random: Random) -> Script:
        """Search, calculate, answer; or what the faults say."""
        return _script(goal, faults, random)


def _script(goal: str, faults: frozenset[str], random: Random) -> Script:
    plan = read_goal(goal)
    if plan is None:
        yield from _finish("I do not understand the question.", "I do not know")
        return
    if "no-tools" in faults:
        guess = str(random.randrange(2, 5000))
        yield Turn(f"I think the answer is {guess}.", fault="no-tools")
        yield Turn("I stay with my guess.", "finish", {"answer": guess}, "no-tools")
        return
    if "unknown-tool" in faults:
        yield Turn("Let me look it up.", "web_search", {"query": goal}, "unknown-tool")
    known: dict[str, str] = {}
    for lookup in plan.lookups:
        value = yield from _look_up(lookup, known, faults)
        if value is None or "gives-up" in faults:
            fault: Fault | None = None if value is None else "gives-up"
            yield from _finish("This leads nowhere, I give up.", "I do not know", fault)
            return
        known[lookup.name] = value
    yield from _work_out(plan, known, faults, random)


def _look_up(
    lookup: Lookup, known: Mapping[str, str], faults: frozenset[str]
) -> Generator[Turn, str, str | None]:
    """Search for a fact, a second time in other words where it was not found."""
    query, thing = lookup.query.format(**known), lookup.about.format(**known)
    turn = Turn(
        f"I need one more fact, so I search for '{query}'.",
        "search",
        {"query": query},
        reasoning=f"Still to find: {query}. To go by: {_listed(known)}.",
    )
    results = yield turn
    while "repeated-call" in faults:
        results = yield Turn("Let me try that again.", "search", {"query": query}, "repeated-call")
    if "redundant-calls" in faults:
        results = yield Turn(
            "Let me check that once more.", "search", {"query": query}, "redundant-calls"
        )
    value = lookup.read(results, known)
    if value is None:
        results = yield Turn(f"Not there. I search for '{thing}'.", "search", {"query": thing})
        value = lookup.read(results, known)
    return value


def _work_out(
    plan: Plan, known: Mapping[str, str], faults: frozenset[str], random: Random
) -> Script:
    """Calculate, and hand in what the calculator says."""
    expression, fault = plan.expression.format(**known), None
    if "wrong-precedence" in faults and "(" in expression:
        expression, fault = expression.replace("(", "").replace(")", ""), "wrong-precedence"
    if "mental-arithmetic" in faults:
        wrong = _in_the_head(expression, random)
        yield from _finish(f"That makes {wrong}.", wrong, "mental-arithmetic")
        return
    arguments = {"expression": expression}
    if "malformed-arguments" in faults:
        broken = json_text(arguments)[:-1]
        yield Turn(f"I work out {expression}.", "calculate", broken, "malformed-arguments")
    result = yield Turn(
        f"I work out {expression}.",
        "calculate",
        arguments,
        "wrong-precedence" if fault else None,
        reasoning=f"All that is needed: {_listed(known)}. Only the calculation is left.",
    )
    while "repeated-call" in faults:
        result = yield Turn("Let me try that again.", "calculate", arguments, "repeated-call")
    if "gives-up" in faults:
        yield from _finish("I am not sure about that, I give up.", "I do not know", "gives-up")
        return
    if "redundant-calls" in faults:
        result = yield Turn(
            "Let me check that once more.", "calculate", arguments, "redundant-calls"
        )
    yield from _finish(f"The result is {result}.", result)


def _finish(text: str, answer: str, fault: Fault | None = None) -> Script:
    yield Turn(text, "finish", {"answer": answer}, fault)


def _in_the_head(expression: str, random: Random) -> str:
    """The value, off by one in either direction."""
    return format_number(evaluate(expression) + random.choice((-1, 1)))


def _listed(known: Mapping[str, str]) -> str:
    return ", ".join(f"{name} is {value}" for name, value in known.items()) or "the question"
