"""k-centre: the items farthest from each other, so that no item is far from a pick.

Gonzalez 1985: start anywhere, then take again and again the item that is farthest from all picks.
The largest distance that is left is at most twice the smallest possible. The farthest item is often
an outlier, so this is for runs that are known to be good.
"""

from __future__ import annotations

from trajstore.errors import SelectionError
from trajstore.filters.kernels import Kernel
from trajstore.filters.picks import Picks, check_size
from trajstore.filters.shingles import arrays

_TIE = 1e-9


def k_center(kernel: Kernel, k: int, *, start: int = 0) -> Picks:
    """Pick ``k`` items; of equally far ones (within 1e-9) the lower number wins.

    Args:
        kernel: similarities; the farthest item is the one least like any pick.
        k: items to pick; all where there are fewer.
        start: the first pick.

    Returns:
        The picks; a score is how like the item farthest from all picks is to the nearest of them,
        once this one is picked: minus the radius with
        :class:`~trajstore.filters.kernels.Euclidean`, 1 minus the radius with cosines.

    Raises:
        SelectionError: ``k`` is below 0, or there is no item ``start``.
    """
    np = arrays()
    check_size(k)
    if not k or not kernel.size:
        return Picks((), ())
    if not 0 <= start < kernel.size:
        raise SelectionError(f"There is no item {start} to start from among {kernel.size}.")
    places, scores = [start], []
    nearest = np.full(kernel.size, -np.inf)
    free = np.ones(kernel.size, bool)
    for _ in range(min(k, kernel.size)):
        place = places[-1]
        free[place] = False
        np.maximum(nearest, kernel.block(slice(place, place + 1))[0], out=nearest)
        scores.append(float(nearest.min()))
        far = np.where(free, nearest, np.inf)
        places.append(int(np.flatnonzero(far <= far.min() + _TIE)[0]))
    return Picks(tuple(places[:-1]), tuple(scores))
