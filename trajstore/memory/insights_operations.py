"""ExpeL's operations on a list of rules (Zhao et al. 2023), as a function of the list alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

MOST_RULES = 20
"""Rules to work with (ExpeL)."""

FULL = 5
"""So many rules above :data:`MOST_RULES` make the list full: a REMOVE then weighs three times."""

START_VOTES = 2
"""Votes of a new rule (ExpeL)."""

Name = Literal["ADD", "AGREE", "EDIT", "REMOVE"]
"""What is done."""

NAMES: tuple[Name, ...] = ("ADD", "AGREE", "EDIT", "REMOVE")
"""Every operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation on the list."""

    name: Name
    """ADD a text; AGREE with a rule; EDIT its text; REMOVE it by a vote against it."""
    insight_id: str | None = None
    """The rule, except for ADD."""
    text: str | None = None
    """The text of ADD and EDIT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of the list."""

    insight_id: str | None
    """Its id; None where it is new."""
    text: str
    """What it says."""
    votes: int
    """Its importance, above 0."""
    edited: bool = False
    """Whether its text was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The list after some operations."""

    rules: tuple[Rule, ...]
    """The rules that are left, most votes first, then in the order in which they came."""
    touched: frozenset[str] = frozenset()
    """Ids of rules that an operation was on."""
    removed: tuple[str, ...] = ()
    """Ids of rules that have no votes left."""
    ignored: tuple[str, ...] = ()
    """Operations that could not be carried out, and why."""


def apply_operations(
    rules: Sequence[Rule], operations: Sequence[Operation], *, most: int = MOST_RULES
) -> Applied:
    """Carry operations out in order.

    ADD starts with 2 votes; AGREE and EDIT add one; REMOVE takes one, or three where the list was
    full; a rule without votes is gone. A text that another rule has is not added; an EDIT to it is
    an AGREE with that rule.

    Args:
        rules: the list.
        operations: what to do.
        most: rules to work with; full is five more.
    """
    against = 3 if len(rules) >= most + FULL else 1
    found = list(rules)
    touched: set[str] = set()
    ignored: list[str] = []
    for operation in operations:
        why = _carry_out(found, operation, against, touched)
        if why is not None:
            shown = f"{operation.name} {operation.insight_id or (operation.text or '')[:60]!r}"
            ignored.append(f"{shown}: {why}")
    left = sorted((r for r in found if r.votes > 0), key=lambda r: -r.votes)
    return Applied(
        rules=tuple(left),
        touched=frozenset(touched),
        removed=tuple(r.insight_id for r in found if r.votes <= 0 and r.insight_id is not None),
        ignored=tuple(ignored),
    )


def _carry_out(
    rules: list[Rule], operation: Operation, against: int, touched: set[str]
) -> str | None:
    """Change the list; the reason where that cannot be."""
    text = (operation.text or "").strip()
    alive = [n for n, r in enumerate(rules) if r.votes > 0]
    same = next((n for n in alive if rules[n].text == text), None)
    if operation.name in {"ADD", "EDIT"} and not text:
        return "it has no text"
    if operation.name == "ADD":
        if same is not None:
            return "the rule is there"
        rules.append(Rule(insight_id=None, text=text, votes=START_VOTES))
        return None
    at = next((n for n in alive if rules[n].insight_id == operation.insight_id), None)
    if at is None or operation.insight_id is None:
        return "there is no such rule"
    if operation.name == "EDIT" and same is not None and same != at:
        at, operation = same, replace(operation, name="AGREE")
    rule = rules[at]
    if operation.name == "REMOVE":
        rules[at] = replace(rule, votes=rule.votes - against)
    elif operation.name == "EDIT" and text != rule.text:
        rules[at] = replace(rule, text=text, votes=rule.votes + 1, edited=True)
    else:
        rules[at] = replace(rule, votes=rule.votes + 1)
    if rule.insight_id is not None:
        touched.add(rule.insight_id)
    return None
