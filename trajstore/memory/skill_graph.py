"""Which skill needs which: closures in order, whatever depends on one, cycles."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping

from trajstore.errors import SkillError

Needs = Mapping[str, Collection[str]]
"""Skill -> the skills that its code calls."""


def closure(roots: Iterable[str], needs: Needs) -> list[str]:
    """The roots and everything below them, what is called before what calls it.

    >>> closure(["A"], {"A": ["B", "C"], "B": ["D"], "C": ["D"], "D": []})
    ['D', 'B', 'C', 'A']

    Args:
        roots: where to start.
        needs: of every skill that is reached.

    Returns:
        Each skill once; of skills that could stand next, the one whose id comes first.

    Raises:
        SkillError: skills call each other in a circle, or one calls a skill that is not there.
    """
    found: set[str] = set()
    todo = list(roots)
    while todo:
        one = todo.pop()
        if one in found:
            continue
        if one not in needs:
            raise SkillError(f"A skill calls {one!r}, which is not in the library.")
        found.add(one)
        todo += needs[one]
    return _in_order({one: set(needs[one]) for one in found})


def dependents(root: str, needs: Needs) -> list[str]:
    """Everything that calls a skill, directly or through others, callees first.

    >>> dependents("D", {"A": ["B", "C"], "B": ["D"], "C": ["D"], "D": []})
    ['B', 'C', 'A']
    """
    callers: dict[str, set[str]] = {}
    for one, called in needs.items():
        for each in called:
            callers.setdefault(each, set()).add(one)
    found: set[str] = set()
    todo = [root]
    while todo:
        new = callers.get(todo.pop(), set()) - found
        found |= new
        todo += new
    found.discard(root)
    return _in_order({one: set(needs[one]) & found for one in found})


def _in_order(left: dict[str, set[str]]) -> list[str]:
    callers: dict[str, list[str]] = {}
    for one, called in left.items():
        for each in called:
            callers.setdefault(each, []).append(one)
    ready = [one for one, called in left.items() if not called]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        one = heapq.heappop(ready)
        order.append(one)
        for caller in callers.get(one, ()):
            left[caller].discard(one)
            if not left[caller]:
                heapq.heappush(ready, caller)
    if len(order) < len(left):
        circle = " -> ".join(_a_circle({k: v for k, v in left.items() if v}))
        raise SkillError(f"Skills call each other in a circle: {circle}")
    return order


def _a_circle(left: dict[str, set[str]]) -> list[str]:
    path = [min(left)]
    while True:
        following = min(n for n in left[path[-1]] if n in left)
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)
