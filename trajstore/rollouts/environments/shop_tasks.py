"""Seeded wishes for the web shop, and what a purchase is worth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from trajstore.rollouts.environment import Task
from trajstore.rollouts.environments.shop_catalogue import Product, catalogue
from trajstore.schema import canonical_json, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a customer wants."""

    catalogue_seed: int
    """The shop to buy in."""
    product_id: str
    """A product that has all of it."""
    kind: str
    """What it is."""
    category: str
    """Part of the shop."""
    attributes: tuple[str, ...]
    """What must be said of it."""
    options: Mapping[str, str]
    """What must be chosen, by name of the option."""
    price_upper: float
    """US dollars that it may cost at most."""

    def to_text(self) -> str:
        """The wish as JSON, for the answer of a task."""
        return canonical_json(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Wish:
        """The wish back from :meth:`to_text`.

        Raises:
            ValueError: the text is something else.
        """
        try:
            value = json.loads(text)
            return cls(**{**value, "attributes": tuple(value["attributes"])})
        except (ValueError, KeyError, TypeError) as error:
            message = f"the answer is no wish ({error!r}); see Wish.to_text"
            raise ValueError(message) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a purchase is worth, in parts. All are shares from 0 to 1."""

    reward: float
    """``type * (attributes + options + price, counted) / (their number)``."""
    type_match: float
    """1, 0.5, 0.1 or 0: whether it is the right sort of thing."""
    attribute_match: float
    """Share of the wanted attributes."""
    option_match: float
    """Share of the wanted options that were chosen; 1 where none is wanted."""
    price_match: float
    """1 where the price is not above the limit."""


def shop_tasks(count: int = 60, *, seed: int = 0, catalogue_seed: int = 0) -> list[Task]:
    """Distinct wishes that some product fulfils, the same for the same seed on every machine.

    A longer list starts with the shorter one. Equal wishes have equal ids under any seed.

    Args:
        count: how many.
        seed: which ones.
        catalogue_seed: the shop that they are made for.
    """
    random = Random(f"wishes/{catalogue_seed}/{seed}")  # noqa: S311 - no secret
    products = catalogue(catalogue_seed).products
    tasks: dict[str, Task] = {}
    while len(tasks) < count:
        task = _task(random.choice(products), random, catalogue_seed)
        tasks[task.task_id] = task
    return list(tasks.values())


def _task(product: Product, random: Random, catalogue_seed: int) -> Task:
    attributes = tuple(random.sample(product.attributes, random.randint(1, 3)))
    options = {name: random.choice(values) for name, values in product.options.items()}
    limit = float(10 * (int(product.price) // 10 + random.randint(1, 2)))
    wish = Wish(
        catalogue_seed=catalogue_seed,
        product_id=product.product_id,
        kind=product.kind,
        category=product.category,
        attributes=attributes,
        options=options,
        price_upper=limit,
    )
    chosen = " and ".join(f"{name} {value}" for name, value in options.items())
    goal = (
        f"I am looking for: {product.kind}, {', '.join(attributes)}, with {chosen}, "
        f"for less than {limit:.2f} dollars."
    )
    return Task(
        task_id=f"web-shop/{len(attributes)}/{digest(catalogue_seed, goal)[:12]}",
        goal=goal,
        answer=wish.to_text(),
        metadata={"kind": product.kind, "attributes": len(attributes)},
    )


def worth(wish: Wish, product: Product, chosen: Mapping[str, str]) -> Worth:
    """What a product with these options is worth to the customer.

    The reward of WebShop (Yao et al. 2022, section 3.1 and ``engine/goal.py``):
    ``r = r_type * (|attributes| + |options| + [price <= limit], those that match) / (|attributes
    wanted| + |options wanted| + 1)``. ``r_type`` is 0 where the names share no word, 0.1 where they
    share less than a tenth of the wanted one, 0.5 where they share no more than a fifth and neither
    kind nor category is the same, else 1. We differ in that names are the names of kinds, compared
    word by word, and attributes and options are equal or not; WebShop compares nouns of titles, and
    attributes and options by edit distance.
    """
    type_match = _type_match(wish, product)
    attributes = len(set(wish.attributes) & set(product.attributes))
    options = sum(chosen.get(name) == value for name, value in wish.options.items())
    price = product.price <= wish.price_upper
    total = len(wish.attributes) + len(wish.options) + 1
    return Worth(
        reward=type_match * (attributes + options + price) / total,
        type_match=type_match,
        attribute_match=attributes / len(wish.attributes) if wish.attributes else 1.0,
        option_match=options / len(wish.options) if wish.options else 1.0,
        price_match=float(price),
    )


def _type_match(wish: Wish, product: Product) -> float:
    wanted, bought = set(wish.kind.split()), set(product.kind.split())
    share = len(wanted & bought) / len(wanted)
    if share == 0:
        return 0.0
    if share < 0.1:
        return 0.1
    same: Any = wish.kind == product.kind or wish.category == product.category
    return 1.0 if same or share > 0.2 else 0.5
