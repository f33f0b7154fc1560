"""How good a ranking is: recall at k, reciprocal rank, discounted gain."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence


def recall_at_k(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Share of what could be found in ``k`` places that was found, 0 to 1.

    The bound is ``min(k, relevant)``, so that a query with more relevant items than places can
    reach 1; where nothing is relevant there is no recall, and this is an error of the caller.

    >>> recall_at_k(["a", "b", "c"], {"a", "c", "d"}, 2)
    0.5
    """
    _check(relevant, k)
    return sum(item in relevant for item in ranked[:k]) / min(k, len(relevant))


def mrr(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int | None = None) -> float:
    """One by the rank of the first relevant item, 0 where there is none among the first ``k``.

    >>> mrr(["a", "b"], {"b"})
    0.5
    """
    places = ranked if k is None else ranked[:k]
    return next((1 / rank for rank, item in enumerate(places, 1) if item in relevant), 0.0)


def ndcg(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Discounted gain by the gain of the best order, 0 to 1; relevance is yes or no.

    Järvelin and Kekäläinen 2002, with the discount ``1 / log2(rank + 1)``.

    >>> ndcg(["x", "a"], {"a"}, 2).__round__(4)
    0.6309
    """
    _check(relevant, k)
    gains = (1 / math.log2(r + 1) for r, item in enumerate(ranked[:k], 1) if item in relevant)
    best = sum(1 / math.log2(r + 1) for r in range(1, min(k, len(relevant)) + 1))
    return sum(gains) / best


def _check(relevant: Collection[Hashable], k: int) -> None:
    if k < 1 or not relevant:
        message = f"A ranking is measured over k >= 1 places and relevant items, not k={k} and "
        raise ValueError(f"{message}{len(relevant)} items.")
