"""Reciprocal rank fusion: one order from several, whatever their scores measure.

Cormack, Clarke and Buettcher 2009: an item's score is the sum over the lists of
``1 / (60 + rank)``, ranks from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trajstore.retrieval.arrays import numpy

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Doubles, Ints

RRF_K = 60
"""The constant of the paper: how little the first places stand out."""


def rrf(
    ranks: Sequence[Ints], *, weights: Sequence[float] | None = None, k: int = RRF_K
) -> Doubles:
    """The fused score of each item.

    Args:
        ranks: for each list the rank of every item, from 1; 0 where it is not in the list.
        weights: what a list counts; 1 each where None.
        k: the constant.
    """
    np = numpy()
    worth = [1.0] * len(ranks) if weights is None else list(weights)
    scores: Doubles = np.zeros(len(ranks[0]) if ranks else 0)
    for places, weight in zip(ranks, worth, strict=True):
        scores += np.where(places > 0, weight / (k + np.maximum(places, 1)), 0.0)
    return scores


def dense_ranks(values: Doubles) -> Ints:
    """Ranks from 1, the highest value first; equal values share a rank.

    Attempts at one task have one goal, so they are equally like any query. If each had a rank of
    its own, fusion would favour those with the smaller ids.
    """
    np = numpy()
    _, places = np.unique(-values, return_inverse=True)
    found: Ints = places + 1
    return found


def best_first(scores: Doubles, *ties: Ints | Doubles) -> Ints:
    """Places in order of score, the highest first; then by each of ``ties``, the lowest first.

    Scores are compared to 12 digits, so that the order of a sum's terms does not decide; items that
    are equal in everything keep their order, which is that of their ids.
    """
    np = numpy()
    keys = [*reversed(ties), -np.round(scores, 12)]
    found: Ints = np.lexsort(keys)
    return found


def top(values: Doubles, count: int) -> Ints:
    """Places of the ``count`` highest values, the highest first; equal ones by place."""
    np = numpy()
    low = -values
    if count >= len(low):
        found: Ints = np.argsort(low, kind="stable")
        return found
    if count <= 0:
        return np.zeros(0, np.int64)  # type: ignore[no-any-return]
    bound = np.partition(low, count - 1)[count - 1]
    above = np.flatnonzero(low < bound)
    level = np.flatnonzero(low == bound)[: count - len(above)]
    places = np.sort(np.concatenate((above, level)))
    return places[np.argsort(low[places], kind="stable")]  # type: ignore[no-any-return]
