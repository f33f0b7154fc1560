"""Share a budget among strata: in proportion, by square roots, evenly, or by given parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from trajstore.errors import SelectionError

Share = Literal["sqrt", "proportional", "equal"]
"""How much of a budget a stratum of ``n`` rows gets: ``sqrt(n)``, ``n`` or 1 parts."""

_PARTS: dict[str, Callable[[int], float]] = {
    "sqrt": math.sqrt,
    "proportional": float,
    "equal": lambda _: 1.0,
}


def quotas(counts: Sequence[int], budget: int, share: Share = "sqrt") -> list[int]:
    """How many rows to take of each stratum, by largest remainder.

    Each gets the whole part of its share; the rows that are left go to the largest remainders, then
    to the larger strata, then to the earlier ones. A stratum that holds less than its share is
    taken whole, and what it leaves is shared among the others.

    >>> quotas([100, 25, 4], 20)
    [12, 6, 2]
    >>> quotas([100, 25, 4], 20, "proportional")
    [15, 4, 1]

    Args:
        counts: rows in each stratum.
        budget: rows to take, 0 or more; all rows where there are fewer.
        share: how the budget is shared.

    Raises:
        SelectionError: the budget is below 0.
    """
    return apportioned(counts, [_PARTS[share](n) for n in counts], budget)


def apportioned(counts: Sequence[int], parts: Sequence[float], budget: int) -> list[int]:
    """As :func:`quotas`, with parts that are given.

    >>> apportioned([10, 10, 1], [0.4, 0.4, 0.2], 10)
    [5, 4, 1]

    Args:
        counts: rows in each stratum.
        parts: what each stratum is to get, in proportion, 0 or more; 0 gets nothing.
        budget: rows to take, 0 or more.

    Raises:
        SelectionError: the budget or a part is below 0.
    """
    if budget < 0 or any(p < 0 for p in parts):
        raise SelectionError(f"A budget and its parts are 0 or more, not {budget}, {list(parts)}.")
    taken = [0] * len(counts)
    open_ = [i for i, n in enumerate(counts) if n > 0 and parts[i] > 0]
    left = min(budget, sum(counts[i] for i in open_))
    while open_:
        whole = math.fsum(parts[i] for i in open_)
        shares = [left * parts[i] / whole for i in open_]
        full = [i for i, s in zip(open_, shares, strict=True) if s >= counts[i]]
        if not full:
            for i, quota in zip(open_, _rounded(shares, left, counts, open_), strict=True):
                taken[i] = quota
            return taken
        for i in full:
            taken[i] = counts[i]
        left -= sum(counts[i] for i in full)
        open_ = [i for i in open_ if taken[i] == 0]
    return taken


def _rounded(
    shares: Sequence[float], budget: int, counts: Sequence[int], places: Sequence[int]
) -> list[int]:
    # A share that misses a whole number by rounding alone counts as that number.
    floors = [math.floor(s + 1e-9) for s in shares]
    order = sorted(
        range(len(shares)),
        key=lambda i: (-round(shares[i] - floors[i], 9), -counts[places[i]], places[i]),
    )
    for i in order[: budget - sum(floors)]:
        floors[i] += 1
    return floors
