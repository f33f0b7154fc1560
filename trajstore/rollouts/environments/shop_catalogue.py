"""The web shop's goods: made up, seeded, and searchable."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

PER_KIND = 20
"""Products of each kind."""

_WORD = re.compile(r"[a-z0-9]+")
_TITLE_WEIGHT = 1.25
_BRANDS = ("Alder", "Brio", "Cano", "Dune", "Ember", "Fjord", "Gale", "Halo", "Iris", "Juno")
_COLORS = ("black", "white", "navy", "red", "green", "grey", "beige", "purple")
_CLOTHES = ("waterproof", "breathable", "lightweight", "quick drying", "recycled", "insulated")
_DEVICES = (
    "wireless",
    "rechargeable",
    "noise cancelling",
    "foldable",
    "water resistant",
    "compact",
)
_FURNITURE = (
    "solid wood",
    "stackable",
    "easy to clean",
    "height adjustable",
    "hand made",
    "padded",
)
_KITCHEN = (
    "dishwasher safe",
    "non stick",
    "stainless steel",
    "double walled",
    "leak proof",
    "glass",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of product: what its products may be like."""

    name: str
    """What a customer calls it; its last word is what it is."""
    category: str
    """Part of the shop."""
    attributes: tuple[str, ...]
    """What may be said of it."""
    options: Mapping[str, tuple[str, ...]]
    """What may be chosen, by name."""
    prices: range
    """Whole dollars."""


def _kind(
    name: str, category: str, attributes: tuple[str, ...], prices: range, **options: Sequence[str]
) -> Kind:
    every = {"color": _COLORS, **{n: tuple(v) for n, v in options.items()}}
    return Kind(name=name, category=category, attributes=attributes, options=every, prices=prices)


_CLOTHING = {"size": ("small", "medium", "large", "x-large")}
_SHOES = {"size": tuple(str(n) for n in range(6, 13))}
KINDS: tuple[Kind, ...] = (
    _kind("rain jacket", "clothing", _CLOTHES, range(30, 180), **_CLOTHING),
    _kind("fleece jacket", "clothing", _CLOTHES, range(25, 120), **_CLOTHING),
    _kind("sports shirt", "clothing", _CLOTHES, range(10, 60), **_CLOTHING),
    _kind("hiking trousers", "clothing", _CLOTHES, range(25, 130), **_CLOTHING),
    _kind("running shoes", "shoes", _CLOTHES, range(40, 190), **_SHOES),
    _kind("hiking boots", "shoes", _CLOTHES, range(60, 260), **_SHOES),
    _kind("over-ear headphones", "electronics", _DEVICES, range(30, 320)),
    _kind("portable speaker", "electronics", _DEVICES, range(20, 220), size=("mini", "standard")),
    _kind("desk lamp", "electronics", _DEVICES, range(15, 110), plug=("eu", "uk", "us")),
    _kind("travel mouse", "electronics", _DEVICES, range(10, 80)),
    _kind("office chair", "furniture", _FURNITURE, range(70, 420)),
    _kind("bar stool", "furniture", _FURNITURE, range(35, 200), size=("65 cm", "75 cm")),
    _kind("coffee table", "furniture", _FURNITURE, range(50, 380), size=("round", "square")),
    _kind("frying pan", "kitchen", _KITCHEN, range(15, 120), size=("20 cm", "24 cm", "28 cm")),
    _kind("travel mug", "kitchen", _KITCHEN, range(8, 45), size=("300 ml", "450 ml")),
    _kind("storage jar", "kitchen", _KITCHEN, range(5, 35), size=("500 ml", "1 l", "2 l")),
)
"""Every kind that is sold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One thing that can be bought."""

    product_id: str
    """Its number in the shop, such as ``P0042``."""
    title: str
    """What a list of results shows; it names one of the attributes."""
    kind: str
    """Name of its kind."""
    category: str
    """Part of the shop."""
    attributes: tuple[str, ...]
    """What is said of it, in the title and the description."""
    options: Mapping[str, tuple[str, ...]]
    """What can be chosen, by name."""
    price: float
    """US dollars."""

    @property
    def description(self) -> str:
        """What its page of details says."""
        return f"This {self.kind} by {self.title.split()[0]} is {', '.join(self.attributes)}."


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that is sold, and the search over it."""

    products: tuple[Product, ...]
    by_id: Mapping[str, Product] = field(repr=False)
    weights: Sequence[Mapping[str, float]] = field(repr=False)

    def search(self, query: str, *, limit: int = 50) -> list[Product]:
        """Products that share words with the query, best first.

        A shared word counts by its rarity, and a quarter more where it is in the title. Ties keep
        the order of the catalogue.

        Args:
            query: words to look for; case does not matter.
            limit: how many products come back at most.
        """
        wanted = set(_WORD.findall(query.lower()))
        scores = [
            (sum(weights[w] for w in wanted & weights.keys()), product)
            for product, weights in zip(self.products, self.weights, strict=True)
        ]
        found = sorted((s for s in scores if s[0] > 0), key=lambda s: -s[0])
        return [product for _, product in found[:limit]]


@cache
def catalogue(seed: int = 0) -> Catalogue:
    """The goods of a seed: 16 kinds, 20 products of each, the same on every machine."""
    random = Random(f"shop/{seed}")  # noqa: S311 - a seeded choice of goods, no secret
    made = [_product(kind, random) for kind in KINDS for _ in range(PER_KIND)]
    random.shuffle(made)
    products = tuple(
        Product(product_id=f"P{number:04}", **parts) for number, parts in enumerate(made, 1)
    )
    titles = [set(_WORD.findall(p.title.lower())) for p in products]
    bodies = [
        t | set(_WORD.findall(p.description.lower())) for t, p in zip(titles, products, strict=True)
    ]
    spread = Counter(word for body in bodies for word in body)
    weights = [
        {
            word: math.log(1 + len(products) / spread[word])
            * (_TITLE_WEIGHT if word in title else 1)
            for word in sorted(body)
        }
        for title, body in zip(titles, bodies, strict=True)
    ]
    return Catalogue(products, {p.product_id: p for p in products}, weights)


def _product(kind: Kind, random: Random) -> dict[str, Any]:
    attributes = tuple(random.sample(kind.attributes, 3))
    options = {
        name: tuple(sorted(random.sample(values, max(2, len(values) - 1)), key=values.index))
        for name, values in kind.options.items()
    }
    return {
        "title": f"{random.choice(_BRANDS)} {attributes[0]} {kind.name} {random.randint(100, 999)}",
        "kind": kind.name,
        "category": kind.category,
        "attributes": attributes,
        "options": options,
        "price": random.choice(kind.prices) + 0.99,
    }
