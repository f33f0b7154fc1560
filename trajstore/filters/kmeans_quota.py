"""k-means quotas: some items of each cluster, so that no crowd takes all the places."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from trajstore.errors import SelectionError
from trajstore.filters.kernels import matrix_of
from trajstore.filters.picks import Picks, check_size
from trajstore.filters.quotas import quotas
from trajstore.filters.shingles import arrays

if TYPE_CHECKING:
    from trajstore.filters.kernels import Floats
    from trajstore.filters.shingles import Doubles, Ints

_ROUNDS = 50
_BLOCK = 4096


def kmeans(points: Floats, clusters: int, *, seed: int = 0) -> tuple[Ints, Doubles]:
    """Lloyd's algorithm from k-means++ starts (Arthur and Vassilvitskii 2007), up to 50 rounds.

    Args:
        points: a row each; scale them to length 1 where only the direction counts.
        clusters: at least 1; fewer come out where there are fewer distinct points.
        seed: of the starts.

    Returns:
        The cluster of each point, and the centres.

    Raises:
        SelectionError: ``clusters`` is below 1.
    """
    np = arrays()
    if clusters < 1:
        raise SelectionError(f"k-means needs at least 1 cluster, not {clusters}.")
    data = matrix_of(points)
    if not len(data):
        return np.zeros(0, np.int64), np.zeros((0, data.shape[1]))
    centres = data[_starts(data, clusters, seed)].astype(np.float64)
    own = np.full(len(data), -1)
    for _ in range(_ROUNDS):
        nearest = _nearest(data, centres)
        if (nearest == own).all():
            break
        own = nearest
        order = np.argsort(own, kind="stable")
        filled, first, counts = np.unique(own[order], return_index=True, return_counts=True)
        sums = np.add.reduceat(data[order], first, axis=0, dtype=np.float64)
        centres[filled] = sums / counts[:, None]
    return own, centres


def _starts(data: Floats, clusters: int, seed: int) -> list[int]:
    """k-means++: each start is drawn in proportion to its squared distance to the earlier ones."""
    np = arrays()
    draw = random.Random(seed)  # noqa: S311  a sample, not a secret
    starts = [draw.randrange(len(data))]
    far = ((data - data[starts[0]]) ** 2).sum(axis=1, dtype=np.float64)
    while len(starts) < clusters and far.max() > 0:
        at = np.searchsorted(np.cumsum(far), draw.random() * far.sum(), side="right")
        starts.append(int(min(at, len(data) - 1)))
        far = np.minimum(far, ((data - data[starts[-1]]) ** 2).sum(axis=1, dtype=np.float64))
    return starts


def _nearest(data: Floats, centres: Doubles) -> Ints:
    np = arrays()
    norms = (centres**2).sum(axis=1)
    own = np.empty(len(data), np.int64)
    for start in range(0, len(data), _BLOCK):
        part = data[start : start + _BLOCK]
        own[start : start + _BLOCK] = (norms - 2.0 * (part @ centres.T)).argmin(axis=1)
    nearest: Ints = own
    return nearest


def kmeans_quota(
    points: Floats,
    k: int,
    *,
    clusters: int | None = None,
    quality: Floats | None = None,
    seed: int = 0,
) -> Picks:
    """Pick ``k`` items, shared evenly among k-means clusters.

    A cluster that holds fewer than its quota passes the rest on to the others.

    Args:
        points: a row each.
        k: items to pick; all where there are fewer.
        clusters: as many as ``k`` where None, so one of each.
        quality: takes the highest of each cluster; None takes those nearest to the centre. Of equal
            ones the lower number wins.
        seed: of the starts of k-means.

    Returns:
        The picks, the first of every cluster before the second of any; a score is the quality, or
        minus the distance to the centre.

    Raises:
        SelectionError: ``k`` is below 0, or ``clusters`` below 1.
    """
    np = arrays()
    check_size(k)
    if not k or not len(points):
        return Picks((), ())
    own, centres = kmeans(points, min(clusters or k, len(points)), seed=seed)
    gaps = np.linalg.norm(matrix_of(points) - centres[own], axis=1)
    worth = -np.round(gaps, 9) if quality is None else np.asarray(quality, np.float64)
    order = np.lexsort((np.arange(len(own)), -worth, own))
    counts = np.bincount(own, minlength=len(centres))
    first = np.cumsum(counts) - counts
    within = np.empty(len(own), np.int64)
    within[order] = np.arange(len(own)) - first[own[order]]
    sizes = np.array(quotas([int(c) for c in counts], k, "equal"))
    picked = np.flatnonzero(within < sizes[own])
    picked = picked[np.lexsort((picked, -worth[picked], within[picked]))]
    return Picks(tuple(map(int, picked)), tuple(map(float, worth[picked])))
