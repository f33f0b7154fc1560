"""Maximal marginal relevance: good items that are unlike those picked before.

Carbonell and Goldstein 1998: the next pick is the item with the highest
``trade * relevance - (1 - trade) * (similarity to the pick most like it)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trajstore.errors import SelectionError
from trajstore.filters.kernels import Kernel
from trajstore.filters.picks import Picks, check_size
from trajstore.filters.shingles import arrays

if TYPE_CHECKING:
    from trajstore.filters.kernels import Floats

_TIE = 1e-9


def mmr(
    kernel: Kernel,
    relevance: Floats,
    k: int,
    *,
    trade: float = 0.7,
    candidates: int | None = None,
) -> Picks:
    """Pick ``k`` items; of equal scores (within 1e-9) the lower number wins.

    Args:
        kernel: similarities of the items to each other.
        relevance: how good each item is, on the scale of the similarities.
        k: items to pick; all where there are fewer.
        trade: 0 to 1: 1 asks for relevance alone, 0 for novelty alone. 0.7 is ours.
        candidates: only so many of the most relevant items are looked at; ``4 * k`` where None
            (ours).

    Returns:
        The picks; a score is what the formula gave.

    Raises:
        SelectionError: ``k`` or ``trade`` is out of range, or not every item has a relevance.
    """
    np = arrays()
    check_size(k)
    if not 0 <= trade <= 1:
        raise SelectionError(f"trade is from 0 to 1, not {trade}.")
    worth = np.asarray(relevance, dtype=np.float64)
    if worth.shape != (kernel.size,) or not np.isfinite(worth).all():
        raise SelectionError(f"{kernel.size} items need as many finite numbers of relevance.")
    pool = np.argsort(-worth, kind="stable")[: max(k, 4 * k if candidates is None else candidates)]
    pool.sort()
    nearest = np.full(len(pool), -np.inf)
    free = np.ones(len(pool), bool)
    places, scores = [], []
    for number in range(min(k, kernel.size)):
        penalty = (1.0 - trade) * nearest if number else 0.0
        score = np.where(free, trade * worth[pool] - penalty, -np.inf)
        at = int(np.flatnonzero(score >= score.max() - _TIE)[0])
        free[at] = False
        places.append(int(pool[at]))
        scores.append(float(score[at]))
        row = kernel.block(slice(places[-1], places[-1] + 1))[0]
        np.maximum(nearest, row[pool], out=nearest)
    return Picks(tuple(places), tuple(scores))
