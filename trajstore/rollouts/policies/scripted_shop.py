"""A scripted customer of the web shop: reads the pages, and is as careful as its profile."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

from trajstore.rollouts.policies.scripted_play import Profile, Script, ScriptPlayer, Turn

ShopFault = Literal[
    "first-result", "ignores-price", "skips-options", "half-the-options", "vague-query", "leaves"
]
"""What may go wrong:

- ``first-result``: the first result is bought, whatever its description says.
- ``ignores-price``: the price is not looked at.
- ``skips-options``: nothing is chosen.
- ``half-the-options``: only the first option is chosen.
- ``vague-query``: only the kind of thing is searched for, and few products are looked at.
- ``leaves``: nothing is bought.
"""

SHOP_PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(name="oracle"),
        Profile(name="careful", faults={"half-the-options": 0.15, "vague-query": 0.1}),
        Profile(
            name="hasty",
            faults={"first-result": 0.4, "half-the-options": 0.3, "ignores-price": 0.3},
        ),
        Profile(
            name="careless",
            faults={
                "first-result": 0.4,
                "vague-query": 0.3,
                "skips-options": 0.3,
                "ignores-price": 0.4,
                "leaves": 0.05,
            },
        ),
    )
}
"""Profiles by name: one that is always right, others that are less often."""

_GOAL = re.compile(
    r"looking for: (?P<kind>[^,]+), (?P<attributes>.+), with (?P<options>.+), "
    r"for less than (?P<price>[\d.]+) dollars"
)
_RESULT = re.compile(r"^\[(P\d+)\] .*\$([\d.]+)$", re.MULTILINE)
_CLICK = re.compile(r"\[([^\]]+: [^\]]+)\]")
_MOST_LOOKED_AT = 7
_VAGUE_LOOKED_AT = 2


@dataclass(frozen=True, slots=True)
class _Wanted:
    kind: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    price: float


class ScriptedShopper(ScriptPlayer):
    """The scripted customer at the wishes of :func:`shop_tasks`, by default the oracle.

    It knows of the shop what the pages say.
    """

    profiles = SHOP_PROFILES

    def script(self, goal: str, faults: frozenset[str], random: Random) -> Script:
        """Search, open, check, choose, buy; or what the faults say."""
        del random
        return _script(goal, faults)


def _read(goal: str) -> _Wanted | None:
    found = _GOAL.search(goal)
    if found is None:
        return None
    options = tuple(
        f"{name}: {value}"
        for name, _, value in (part.partition(" ") for part in found["options"].split(" and "))
    )
    attributes = tuple(found["attributes"].split(", "))
    return _Wanted(found["kind"], attributes, options, float(found["price"]))


def _script(goal: str, faults: frozenset[str]) -> Script:
    wanted = _read(goal)
    if wanted is None:
        yield Turn("I do not understand what is wanted.")
        return
    vague = "vague-query" in faults
    query = wanted.kind if vague else f"{wanted.kind} {' '.join(wanted.attributes)}"
    results = yield Turn(
        f"I search for {query}.",
        "search",
        {"query": query},
        "vague-query" if vague else None,
        reasoning=f"At most {wanted.price} dollars; to choose: {', '.join(wanted.options)}.",
    )
    if "leaves" in faults:
        while True:
            results = yield Turn("Let me look again.", "search", {"query": query}, "leaves")
    page = yield from _look(results, wanted, faults)
    yield from _choose(page, wanted, faults)
    yield Turn("I buy it.", "buy")


def _look(results: str, wanted: _Wanted, faults: frozenset[str]) -> Generator[Turn, str, str]:
    """Open products until one fits; the page of the one to buy."""
    found = _RESULT.findall(results)
    affordable = [i for i, price in found if float(price) <= wanted.price]
    ids = [i for i, _ in found] if "ignores-price" in faults else affordable
    ids = ids or [i for i, _ in found]
    most = _VAGUE_LOOKED_AT if "vague-query" in faults else _MOST_LOOKED_AT
    page = ""
    for place, product_id in enumerate(ids[:most]):
        price_fault = "ignores-price" if product_id not in affordable else None
        page = yield Turn(f"I open {product_id}.", "click", {"target": product_id}, price_fault)
        if "first-result" in faults:
            break
        if not all(option in _CLICK.findall(page) for option in wanted.options):
            fits = False
        else:
            details = yield Turn("What does it say?", "click", {"target": "description"})
            fits = all(attribute in details for attribute in wanted.attributes)
            page = yield Turn("Back to the product.", "click", {"target": "back"})
        if fits or place + 1 == len(ids[:most]):
            break
        yield Turn("It does not fit.", "click", {"target": "back"})
    return page


def _choose(page: str, wanted: _Wanted, faults: frozenset[str]) -> Script:
    options = wanted.options
    fault = None
    if "skips-options" in faults:
        return
    if "half-the-options" in faults and len(options) > 1:
        options, fault = options[:1], "half-the-options"
    for option in options:
        if option in _CLICK.findall(page):
            page = yield Turn(f"I choose {option}.", "click", {"target": option}, fault)
