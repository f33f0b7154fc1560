"""The arithmetic of skill banks: D2Skill's score and eviction, MemRL's ranking. Pure functions."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

WEIGHT = 0.1
"""What similarity is worth beside utility (D2Skill's a, as its released runs set it)."""

EXPLORATION = 0.05
"""What it is worth that an item was rarely tried (D2Skill's c, as its released runs set it)."""

CAPACITY = 300
"""Items of one level (D2Skill)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An item of a bank, as far as its score goes."""

    item_id: str
    """Its id."""
    similarity: float = 0.0
    """Cosine with what is asked, -1 to 1."""
    utility: float = 0.0
    """What it was worth so far, -1 to 1."""
    uses: int = 0
    """Runs that were given it."""


def bonus(uses: int, total: int, *, exploration: float = EXPLORATION) -> float:
    """What is added for being rarely tried: ``c * sqrt(ln(1 + N) / (1 + n))``.

    Args:
        uses: of the item (n).
        total: of all items of the pool (N).
        exploration: c.
    """
    return exploration * math.sqrt(math.log(1 + total) / (1 + uses))


def score(
    item: Candidate, total: int, *, weight: float = WEIGHT, exploration: float = EXPLORATION
) -> float:
    """D2Skill's score: ``a * (sim + 1) / 2 + (1 - a) * (u + bonus)``.

    Args:
        item: the item.
        total: uses of all items of the pool (N).
        weight: a.
        exploration: c.
    """
    worth = item.utility + bonus(item.uses, total, exploration=exploration)
    return weight * (item.similarity + 1) / 2 + (1 - weight) * worth


def moved(utility: float, gap: float, *, rate: float = 0.5) -> float:
    """D2Skill's update: ``(1 - b) * u + b * gap``."""
    return (1 - rate) * utility + rate * gap


def task_gap(given: Sequence[bool | float], without: Sequence[bool | float]) -> float:
    """Mean success with an item less mean success without it, at one task.

    Raises:
        ValueError: one side has no run.
    """
    if not given or not without:
        message = f"A gap needs runs on both sides, not {len(given)} and {len(without)}."
        raise ValueError(message)
    return fmean(map(float, given)) - fmean(map(float, without))


def eviction_order(
    items: Sequence[Candidate],
    total: int,
    *,
    protected: Collection[str] = (),
    exploration: float = EXPLORATION,
) -> list[str]:
    """Ids in the order in which they go: by utility and bonus, the least first; ties by id.

    Args:
        items: the pool.
        total: uses of all its items (N).
        protected: ids that may not go.
        exploration: c.
    """
    values = [
        (item.utility + bonus(item.uses, total, exploration=exploration), item.item_id)
        for item in items
        if item.item_id not in protected
    ]
    return [item_id for _, item_id in sorted(values)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemRLOptions:
    """How MemRL ranks what was recalled."""

    threshold: float = 0.5
    """Least cosine."""
    weight: float = 0.5
    """What similarity is worth; Q is worth the rest."""
    clip: float = 3.0
    """Bound on a standardised Q."""
    least_q: float = -0.8
    """Items below are dropped."""
    epsilon: float = 0.1
    """Probability of a random order."""
    similarity: tuple[float, float] | None = None
    """Mean and standard deviation of cosines, worked out before; those of the candidates where
    None."""


def memrl_scores(
    similarities: Sequence[float],
    values: Sequence[float],
    options: MemRLOptions = MemRLOptions(),
) -> list[float]:
    """``w * z(similarity) + (1 - w) * z(Q)`` of each candidate.

    Args:
        similarities: cosines.
        values: Q values, in the same order.
        options: weight, bounds and statistics.
    """
    alike = _standard(similarities, options.similarity)
    worth = [max(-options.clip, min(options.clip, z)) for z in _standard(values, None)]
    return [
        options.weight * s + (1 - options.weight) * q for s, q in zip(alike, worth, strict=True)
    ]


def memrl_rank(
    items: Sequence[Candidate], *, k: int, seed: int, options: MemRLOptions = MemRLOptions()
) -> list[str]:
    """The ids that MemRL gives, the best first; ``utility`` of an item is its Q.

    What is not similar enough, or whose Q is too low, is left out. With probability epsilon the
    order is random.

    Args:
        items: candidates.
        k: ids at most.
        seed: of the random order.
        options: bounds.
    """
    recalled = [i for i in items if i.similarity >= options.threshold]
    values = memrl_scores([i.similarity for i in recalled], [i.utility for i in recalled], options)
    ranked = sorted(zip(values, recalled, strict=True), key=lambda e: (-e[0], e[1].item_id))
    kept = [i.item_id for _, i in ranked if i.utility >= options.least_q]
    draw = random.Random(seed)  # noqa: S311  a seeded choice, no secret
    if draw.random() < options.epsilon:
        draw.shuffle(kept)
    return kept[:k]


_SMALLEST_SPREAD = 1e-9


def _standard(values: Sequence[float], known: tuple[float, float] | None) -> list[float]:
    if not values:
        return []
    mean, spread = known or (fmean(values), pstdev(values))
    spread = 1.0 if spread < _SMALLEST_SPREAD else spread
    return [(v - mean) / spread for v in values]
