"""Facility location: the items that best stand for all items.

``f(S) = sum over i of max over j in S of max(0, s_ij)``: how like every item is to the pick nearest
to it. ``f`` is monotone and submodular, so greedy picks reach at least ``1 - 1/e`` of the best
(Nemhauser, Wolsey and Fisher 1978).

*Lazy greedy* (Minoux 1978) gives the picks of plain greedy and asks far fewer gains: what an item
would have added earlier bounds what it adds now. The first picks shrink nearly all gains at once;
then it is cheaper to take from every bound what the items that found a nearer pick have taken, one
row each, and both ways are weighed in every round. *Stochastic greedy* (Mirzasoleiman et al. 2015,
arXiv 1409.7938) looks at ``ceil(n / k * ln(1 / epsilon))`` random items a round and reaches
``1 - 1/e - epsilon`` in expectation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trajstore.errors import SelectionError
from trajstore.filters.kernels import Kernel, Similarities
from trajstore.filters.picks import Picks, check_size
from trajstore.filters.shingles import arrays

if TYPE_CHECKING:
    from trajstore.filters.kernels import Floats
    from trajstore.filters.shingles import Bools, Doubles, Ints

_TIE = 1e-6
"""Gains nearer than this, as a share, are equal, so that rounding never decides."""

_ROWS = 64
_FIRST = 16
_DIFFERENCE = 2.0**-22
"""A difference of similarities in single precision is off by less than this times the largest."""

_SUM = 2.0**-17
"""A sum of 64 rows in single precision is off by less than this times itself."""


def facility_location(
    kernel: Kernel,
    k: int,
    *,
    epsilon: float | None = None,
    seed: int = 0,
    memory_bytes: int = 2 * 2**30,
) -> Picks:
    """Pick ``k`` items that stand for all; of equal gains (within 1e-6) the lower number wins.

    Args:
        kernel: similarities; those below 0 count as 0.
        k: items to pick; all where there are fewer.
        epsilon: None for lazy greedy; above 0 and below 1 for stochastic greedy.
        seed: of stochastic greedy.
        memory_bytes: similarities are kept as one matrix where it fits, and else computed anew in
            blocks of 64 rows whenever they are needed.

    Returns:
        The picks; a score is what the pick added to ``f``, so their sum is ``f``.

    Raises:
        SelectionError: ``k`` or ``epsilon`` is out of range.
    """
    np = arrays()
    check_size(k)
    if epsilon is not None and not 0 < epsilon < 1:
        raise SelectionError(f"epsilon is above 0 and below 1, not {epsilon}.")
    k = min(k, kernel.size)
    cover = _Cover(_kept(kernel, memory_bytes))
    lazy = _Lazy(cover) if epsilon is None and k else None
    draw = random.Random(seed)  # noqa: S311  a sample, not a secret
    free = np.arange(kernel.size)
    places, scores = [], []
    for _ in range(k):
        if lazy is not None:
            place, gain = lazy.best()
        else:
            place, gain = _sampled(cover, free, stochastic_size(kernel.size, k, epsilon or 1), draw)
            free = free[free != place]
        places.append(place)
        scores.append(gain)
        cover.add(place)
    return Picks(tuple(places), tuple(scores))


def stochastic_size(n: int, k: int, epsilon: float) -> int:
    """Items that stochastic greedy looks at in a round.

    >>> stochastic_size(50_000, 500, 0.01), stochastic_size(50_000, 500, 0.1)
    (461, 231)
    """
    return max(1, math.ceil(n / k * math.log(1 / epsilon)))


def _sampled(cover: _Cover, free: Ints, size: int, draw: random.Random) -> tuple[int, float]:
    np = arrays()
    if size < len(free):
        free = free[np.sort(draw.sample(range(len(free)), size))]
    gains = cover.gains(free)
    at = int(np.flatnonzero(gains >= gains.max() * (1.0 - _TIE))[0])
    return int(free[at]), float(gains[at])


def _kept(kernel: Kernel, memory_bytes: int) -> Kernel:
    """The kernel as a matrix, if there is room; each block off the diagonal is computed once."""
    np = arrays()
    n = kernel.size
    corner = kernel.block(slice(0, 1), slice(0, 1))
    if isinstance(kernel, Similarities) or n * n * corner.itemsize > memory_bytes:
        return kernel
    matrix = np.empty((n, n), corner.dtype)
    side = 1024
    for row in range(0, n, side):
        for column in range(row, n, side):
            rows, columns = slice(row, row + side), slice(column, column + side)
            block = kernel.block(rows, columns)
            matrix[rows, columns] = block
            matrix[columns, rows] = block.T
    return Similarities.made(matrix)


class _Cover:
    """How well the picks stand for each item so far, and what one more pick would add."""

    def __init__(self, kernel: Kernel) -> None:
        np = arrays()
        self.kernel, self.size = kernel, kernel.size
        # Rows of a matrix are there without a copy; rows to compute come cheaper by the block.
        self._rows = 1 if isinstance(kernel, Similarities) else _ROWS
        type_ = kernel.block(slice(0, 1), slice(0, 1)).dtype
        self._best = np.zeros(self.size, type_)
        self._seen = self._best.copy()
        self._buffers = np.empty((2, self.size), type_)
        # NumPy compares with an array of zeros four times as fast as with the number 0.
        self._zeros = np.zeros(self.size, type_)
        self._largest = 0.0

    def _each(self, places: Ints) -> Iterator[Floats]:
        """The row of similarities of each item."""
        if self._rows == 1:
            for place in places.tolist():
                yield self.kernel.block(slice(place, place + 1))[0]
            return
        for start in range(0, len(places), self._rows):
            yield from self.kernel.block(places[start : start + self._rows])

    def first_gains(self) -> Doubles:
        """What each item would add to no pick at all."""
        np = arrays()
        parts = range(0, self.size, _ROWS)
        blocks = (self.kernel.block(slice(start, start + _ROWS)) for start in parts)
        sums = []
        for block in blocks:
            positive = np.maximum(block, self._zeros)
            sums.append(positive.sum(axis=1))
            self._largest = max(self._largest, float(positive.max()))
        gains: Doubles = np.concatenate(sums).astype(np.float64)
        return gains

    def gains(self, places: Ints) -> Doubles:
        """What each of some items would add to the picks."""
        np = arrays()
        best, more, zeros = self._best, self._buffers[0], self._zeros
        gains: Doubles = np.empty(len(places))
        for at, row in enumerate(self._each(places)):
            np.subtract(row, best, out=more)
            np.maximum(more, zeros, out=more)
            gains[at] = np.add.reduce(more)
        return gains

    def add(self, place: int) -> None:
        """Pick an item."""
        np = arrays()
        np.maximum(self._best, self.kernel.block(slice(place, place + 1))[0], out=self._best)

    def changed(self) -> Ints:
        """The items that found a nearer pick since :meth:`taken` was asked last."""
        changed: Ints = arrays().flatnonzero(self._best > self._seen)
        return changed

    def taken(self, changed: Ints) -> Doubles:
        """At least how much less each item would add than when this was asked last."""
        np = arrays()
        whole, part, zeros = np.zeros(self.size), np.zeros_like(self._best), self._zeros
        less, more = self._buffers
        bounds = zip(self._seen[changed], self._best[changed], strict=True)
        for at, (row, (low, high)) in enumerate(zip(self._each(changed), bounds, strict=True), 1):
            np.subtract(row, low, out=less)
            np.maximum(less, zeros, out=less)
            np.subtract(row, high, out=more)
            np.maximum(more, zeros, out=more)
            np.subtract(less, more, out=less)
            np.add(part, less, out=part)
            if at % _ROWS == 0 or at == len(changed):
                whole += part
                part[:] = 0
        self._seen[:] = self._best
        least: Doubles = whole * (1.0 - _SUM) - len(changed) * self._largest * _DIFFERENCE
        return least


class _Lazy:
    """Bounds on what each item would add, and which of them are exact."""

    def __init__(self, cover: _Cover) -> None:
        np = arrays()
        self._cover = cover
        self._bounds = cover.first_gains()
        self._refreshed = self._bounds.copy()
        self._exact = np.ones(cover.size, bool)
        self._top = float(self._bounds.max())

    def best(self) -> tuple[int, float]:
        """The item that adds most, and how much; it is not given again."""
        np = arrays()
        size = _FIRST
        while len(unsure := np.flatnonzero(self._near_top() & ~self._exact)):
            changed = self._cover.changed() if size > _FIRST else unsure[:0]
            if 0 < len(changed) < len(unsure):
                self._refresh(changed)
                continue
            if len(unsure) > size:
                unsure = unsure[np.argpartition(self._bounds[unsure], -size)[-size:]]
            gains = self._cover.gains(unsure)
            self._bounds[unsure], self._exact[unsure] = gains, True
            self._top = max(self._top, float(gains.max()))
            size *= 2
        place = int(np.flatnonzero(self._near_top())[0])
        gain = float(self._bounds[place])
        self._bounds[place] = self._refreshed[place] = -1.0
        # Nothing adds less than 0, so a bound of 0 stays exact.
        self._exact, self._top = self._bounds <= 0, 0.0
        return place, gain

    def _near_top(self) -> Bools:
        """Which items may add as much as the best of those that are known exactly."""
        near: Bools = self._bounds >= self._top * (1.0 - _TIE)
        return near

    def _refresh(self, changed: Ints) -> None:
        np = arrays()
        self._refreshed -= self._cover.taken(changed)
        lower = np.maximum(np.minimum(self._bounds, self._refreshed), 0.0)
        self._bounds = np.where(self._exact, self._bounds, lower)
