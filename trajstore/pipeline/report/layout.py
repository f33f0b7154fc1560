"""Points in the plane that are as far apart as runs are different. Needs NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trajstore.filters.shingles import arrays

if TYPE_CHECKING:
    from trajstore.filters.shingles import Doubles


def classical_layout(similarities: Any) -> tuple[Doubles, float | None]:
    """Classical multidimensional scaling (Torgerson 1952; Gower 1966, principal coordinates).

    The squared distance of two items is 1 minus their similarity. With Jaccard similarities such
    distances are Euclidean (Gower and Legendre 1986), so no axis has a negative weight.

    Args:
        similarities: symmetric, from 0 to 1, ``n`` by ``n``.

    Returns:
        Two coordinates an item, to 4 decimals, and the share of all squared distance to the centre
        that they show, None where all items are alike. The sign of an axis is free: its farthest
        item (the first of equal ones) is at the positive end.
    """
    np = arrays()
    squared = 1.0 - np.asarray(similarities, np.float64)
    size = len(squared)
    if size < 2:
        return np.zeros((size, 2)), None
    means = squared.mean(axis=0)
    products = (means[:, None] + means - squared - means.mean()) / 2
    weights, axes = np.linalg.eigh(products)
    weights, axes = weights[::-1][:2], axes[:, ::-1][:, :2]
    whole = float(np.trace(products))
    if whole < 1e-9:
        return np.zeros((size, 2)), None
    points = axes * np.sqrt(np.maximum(weights, 0.0))
    sizes = np.abs(points)
    farthest = (sizes >= sizes.max(axis=0) - 1e-6).argmax(axis=0)
    signs = np.where(points[farthest, [0, 1]] < 0, -1.0, 1.0)
    shown = float(np.maximum(weights, 0.0).sum()) / whole
    return np.round(points * signs, 4) + 0.0, round(min(shown, 1.0), 4)
