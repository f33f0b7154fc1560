"""Determinantal point process: the set with the largest determinant, that is good and unlike.

Greedy MAP inference of Chen, Zhang and Zhou 2018 (arXiv 1709.05135, algorithm 1), with ``L =
diag(q) S diag(q)``. Each pick multiplies ``det L`` of the picks by its ``d2``: what of it the
earlier picks do not explain. Takes ``O(n * k**2)`` time and ``O(n * k)`` memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trajstore.errors import SelectionError
from trajstore.filters.kernels import Kernel
from trajstore.filters.picks import Picks, check_size
from trajstore.filters.shingles import arrays

if TYPE_CHECKING:
    from trajstore.filters.kernels import Floats
    from trajstore.filters.shingles import Doubles

_STOP = 1e-10
_TIE = 1e-9


def dpp(kernel: Kernel, quality: Floats, k: int, *, ridge: float = 0.0) -> Picks:
    """Pick up to ``k`` items; of equal ones (within a share of 1e-9) the lower number wins.

    Args:
        kernel: similarities ``S``, positive semidefinite, such as cosines.
        quality: ``q``, a number above 0 for each item; see :func:`quality_of`.
        k: items to pick at most.
        ridge: added to the diagonal of ``S``. Without it no more picks come than ``S`` has rank (at
            most the length of the vectors); 1e-3 lets ``k`` go beyond.

    Returns:
        The picks, fewer than ``k`` where nothing new is left (``d2`` below 1e-10); a score is
        ``d2``, so the sum of their logarithms is ``log det L``.

    Raises:
        SelectionError: ``k`` or ``ridge`` is below 0, or a quality is not above 0.
    """
    np = arrays()
    check_size(k)
    q = np.asarray(quality, dtype=np.float64)
    if q.shape != (kernel.size,) or not (np.isfinite(q) & (q > 0)).all():
        raise SelectionError(f"{kernel.size} items need as many finite qualities above 0.")
    if ridge < 0:
        raise SelectionError(f"A ridge is 0 or more, not {ridge}.")
    d2 = q * q * (_diagonal(kernel) + ridge)
    free = np.ones(kernel.size, bool)
    factors = np.zeros((min(k, kernel.size), kernel.size))
    places, scores = [], []
    for number in range(len(factors)):
        worth = np.where(free, d2, -np.inf)
        place = int(np.flatnonzero(worth >= worth.max() * (1.0 - _TIE))[0])
        if d2[place] < _STOP:
            break
        free[place] = False
        places.append(place)
        scores.append(float(d2[place]))
        row = kernel.block(slice(place, place + 1))[0] * q[place] * q
        row[place] += ridge * q[place] ** 2
        explained = factors[:number, place] @ factors[:number]
        factors[number] = (row - explained) / np.sqrt(d2[place])
        d2 = d2 - factors[number] ** 2
    return Picks(tuple(places), tuple(scores))


def _diagonal(kernel: Kernel) -> Doubles:
    np = arrays()
    each = (kernel.block(slice(i, i + 1), slice(i, i + 1))[0, 0] for i in range(kernel.size))
    diagonal: Doubles = np.fromiter(each, np.float64, kernel.size)
    return diagonal


def quality_of(rewards: Floats, trade: float = 0.7) -> Doubles:
    """Qualities from rewards: ``exp(a * r)`` with ``a = trade / (2 * (1 - trade))``.

    Args:
        rewards: finite numbers, best scaled to 0 to 1.
        trade: 0 up to but not 1: 0 asks for unlikeness alone. 0.7 is ours.

    Raises:
        SelectionError: ``trade`` is out of range.
    """
    if not 0 <= trade < 1:
        raise SelectionError(f"trade is from 0 up to but not 1, not {trade}.")
    np = arrays()
    quality: Doubles = np.exp(trade / (2.0 * (1.0 - trade)) * np.asarray(rewards, np.float64))
    return quality
