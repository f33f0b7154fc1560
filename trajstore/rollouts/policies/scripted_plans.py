"""How the scripted agent understands a question: which facts to look up, and what to work out.

The patterns are written against the wording of the questions and documents, as a reader would see
them; nothing here knows the answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One fact to find by search. ``{...}`` in its texts stands for what was found before."""

    name: str
    """What the value is called in the plan."""
    about: str
    """Title of the document that says it."""
    query: str
    """What to search for."""
    pattern: str
    """Where the value stands in that document; group 1 is the value."""

    def read(self, results: str, known: Mapping[str, str]) -> str | None:
        """The value, from the text of search results, or None where it is not there."""
        title = self.about.format(**known).casefold()
        for line in results.splitlines():
            if line.casefold().startswith(f"[{title}] "):
                match = re.search(self.pattern, line)
                return match[1] if match else None
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Facts to look up, then an expression over them."""

    lookups: tuple[Lookup, ...] = ()
    """In order; later ones may use what earlier ones found."""
    expression: str
    """What to work out; ``{...}`` stands for what was found."""


_NUMBER = r"(\d+)"
_HEIGHT = r"(\d+) metres"
_WORD_PROBLEMS: tuple[tuple[str, str], ...] = (
    (
        r"buys {n} boxes with {n} pencils each, gives {n} pencils away .* among {n} friends",
        "({0} * {1} - {2}) / {3}",
    ),
    (r"goes {n} km/h for {n} hours and then {n} km/h for {n} hours", "{0} * {1} + {2} * {3}"),
    (r"sells {n} red and {n} blue shirts at {n} euros each", "({0} + {1}) * {2}"),
    (
        r"holds {n} litres and loses {n} litres an hour\. After {n} hours, {n} litres",
        "{0} - {1} * {2} + {3}",
    ),
    (r"is {n} metres long and {n} metres wide\. A fence costs {n} euros", "2 * ({0} + {1}) * {2}"),
    (
        r"scores {n}, {n} and {n} points .* average above {n} points",
        "({0} + {1} + {2}) / 3 - {3}",
    ),
    (r"saves {n} euros a week for {n} weeks, gets {n} euros as a gift", "({0} * {1} + {2}) / 2"),
    (
        r"costs {n} euros\. It is reduced by {n} percent, .* another {n} euros",
        "{0} * (100 - {1}) / 100 - {2}",
    ),
)


def read_goal(goal: str) -> Plan | None:
    """What to do about a question, or None where it is not understood."""
    for pattern, expression in _WORD_PROBLEMS:
        match = re.search(pattern.replace("{n}", _NUMBER), goal)
        if match:
            return Plan(expression=expression.format(*match.groups()))
    for question, plan in _QUESTIONS:
        match = re.search(question, goal)
        if match:
            return _filled(plan, match.groupdict())
    return None


def _filled(plan: Plan, words: Mapping[str, str]) -> Plan:
    """The plan with the words of the question in it; what is still to be found stays open."""

    def fill(text: str) -> str:
        for name, word in words.items():
            text = text.replace(f"<{name}>", word)
        return text

    return Plan(
        lookups=tuple(
            Lookup(name=k.name, about=fill(k.about), query=fill(k.query), pattern=k.pattern)
            for k in plan.lookups
        ),
        expression=fill(plan.expression),
    )


def _height(name: str, thing: str) -> Lookup:
    return Lookup(name=name, about=thing, query=f"height of {thing}", pattern=_HEIGHT)


def _person(name: str, pattern: str, query: str) -> Lookup:
    return Lookup(name=name, about="<person>", query=query, pattern=pattern)


_QUESTIONS: tuple[tuple[str, Plan], ...] = (
    (
        r"What is (?P<times>\d+) times the atomic number of the element that (?P<person>.+) disc",
        Plan(
            lookups=(
                _person("element", r"the element (\w+)", "element discovered by <person>"),
                Lookup(
                    name="number",
                    about="{element}",
                    query="atomic number of {element}",
                    pattern=r"atomic number (\d+)",
                ),
            ),
            expression="<times> * {number}",
        ),
    ),
    (
        r"years after the birth of (?P<person>.+) was the building completed",
        Plan(
            lookups=(
                _person("born", r"born in (\d+)", "<person> born"),
                _person(
                    "building",
                    r"(?:built|architect of) (?:the )?(.+?)\.$",
                    "building by architect <person>",
                ),
                Lookup(
                    name="year",
                    about="{building}",
                    query="when was {building} completed",
                    pattern=r"completed in (\d+)",
                ),
            ),
            expression="{year} - {born}",
        ),
    ),
    (
        r"years after the birth of (?P<person>.+) was the mountain first climbed",
        Plan(
            lookups=(
                _person("born", r"born in (\d+)", "<person> born"),
                _person("mountain", r"first climbed (.+?)\.$", "mountain climbed by <person>"),
                Lookup(
                    name="year",
                    about="{mountain}",
                    query="when was {mountain} first climbed",
                    pattern=r"first climbed in (\d+)",
                ),
            ),
            expression="{year} - {born}",
        ),
    ),
    (
        r"How many metres higher is (?P<high>.+) than (?P<low>.+)\?",
        Plan(
            lookups=(_height("high", "<high>"), _height("low", "<low>")),
            expression="{high} - {low}",
        ),
    ),
    (
        r"metre is (?P<feet>[\d.]+) feet.* summit of (?P<high>.+) than the summit of (?P<low>.+)\?",
        Plan(
            lookups=(_height("high", "<high>"), _height("low", "<low>")),
            expression="({high} - {low}) * <feet>",
        ),
    ),
    (
        r"average height of (?P<one>.+) and (?P<other>.+) in metres",
        Plan(
            lookups=(_height("one", "<one>"), _height("other", "<other>")),
            expression="({one} + {other}) / 2",
        ),
    ),
    (
        r"do (?P<times>\d+) orbits of (?P<slow>\w+) around the Sun .* orbits of (?P<quick>\w+)\?",
        Plan(
            lookups=tuple(
                Lookup(
                    name=name,
                    about=f"<{name}>",
                    query=f"days for <{name}> to go around the Sun",
                    pattern=r"about (\d+) days",
                )
                for name in ("slow", "quick")
            ),
            expression="<times> * ({slow} - {quick})",
        ),
    ),
)
