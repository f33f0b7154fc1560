"""Representatives by cosine similarity: exact up to 50 000 vectors, by clusters above.

SemDeDup (Abbas et al. 2023, arXiv 2303.09540) drops an item whose cosine to an *earlier* one of its
k-means cluster is above ``1 - eps``. Here an item goes only if it is like one that is *kept*, so
what goes always has a representative, and up to 50 000 vectors no clusters are needed, so no pair
is missed at a border.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.shingles import arrays

if TYPE_CHECKING:
    from trajstore.filters.shingles import Bools, Doubles, Ints

_BLOCK = 1024
_EXACT = 50_000
_A_CELL = 500
_SAMPLE = 50_000
_ROUNDS = 8
_TOLERANCE = 1e-6


def unit_vectors(column: pa.Array | pa.ChunkedArray, name: str) -> tuple[Any, Bools]:
    """Vectors of length 1 as one float32 matrix.

    Args:
        column: lists of numbers, all of one length; a null and a vector of zeros are no vector.
        name: of the column, for the message.

    Returns:
        The matrix, zeros where there is no vector; and which rows have one.

    Raises:
        SelectionError: it holds something else, or vectors of several lengths.
    """
    np = arrays()
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    type_ = whole.type
    if not (pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_)) or not (
        pa.types.is_floating(type_.value_type) or pa.types.is_integer(type_.value_type)
    ):
        raise SelectionError(f"The column '{name}' should hold lists of numbers, not {type_}.")
    lists = whole.cast(pa.list_(pa.float32()))
    known = pc.is_valid(lists).to_numpy(zero_copy_only=False)
    lengths = pc.unique(pc.list_value_length(lists).drop_null())
    if len(lengths) > 1:
        message = (
            f"The column '{name}' holds vectors of several lengths, such as {lengths[0]} and "
            f"{lengths[1]}: they come from different models. Embed all rows with one."
        )
        raise SelectionError(message)
    width = lengths[0].as_py() if len(lengths) else 0
    matrix = np.zeros((len(lists), width), np.float32)
    matrix[known] = lists.drop_null().flatten().to_numpy().reshape(int(known.sum()), width)
    if not np.isfinite(matrix).all():
        raise SelectionError(f"The column '{name}' holds numbers that are not finite.")
    norms = np.linalg.norm(matrix, axis=1)
    matrix /= np.where(norms > 0, norms, 1.0)[:, None]
    return matrix, norms > 0


def cosine_representatives(
    vectors: Any,
    threshold: float,
    *,
    has_vector: Bools,
    scope: Ints | None = None,
    far_first: bool = False,
) -> tuple[Ints, Doubles]:
    """One representative for each vector; the vectors come in order of preference, the best first.

    A vector is kept unless a kept one before it has a cosine of ``threshold`` or more with it. A
    scope of more than 50 000 vectors is cut into k-means cells of about 500, and a vector is
    compared with its own cell and with the next nearest. There a representative may itself have
    gone because of a vector in that other cell; then that one stands for both.

    Args:
        vectors: unit vectors, one a row.
        threshold: least cosine, above 0 and up to 1, itself included.
        has_vector: rows without one are kept, and stand for nobody.
        scope: a number for each row; only rows of one scope are compared.
        far_first: SemDeDup's order instead: the farthest from the centre of its scope (or cell)
            comes first, which keeps the unusual ones; then the order of the rows.

    Returns:
        For each row the number of its representative, its own where it is kept; and the cosine of
        the two, 1 where it is kept.
    """
    np = arrays()
    chosen, similarity = np.arange(len(vectors)), np.ones(len(vectors))
    for rows in _scopes(scope, has_vector):
        if len(rows) <= _EXACT:
            ordered = _far_first(vectors, rows) if far_first else rows
            _lead(vectors, ordered, threshold, chosen, similarity)
        else:
            _by_cells(vectors, rows, threshold, chosen, similarity, far_first=far_first)
    return chosen, similarity


def _scopes(scope: Ints | None, has_vector: Bools) -> Iterator[Ints]:
    """The rows of each scope that has two or more, in ascending order."""
    np = arrays()
    rows = np.flatnonzero(has_vector)
    if not len(rows):
        return
    numbers = np.zeros(len(rows), np.int64) if scope is None else scope[rows]
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        if end - start > 1:
            yield rows[order[start:end]]


def _far_first(vectors: Any, rows: Ints) -> Ints:
    np = arrays()
    centre = vectors[rows].mean(axis=0, dtype=np.float64)
    closeness = vectors[rows] @ (centre / max(float(np.linalg.norm(centre)), 1e-12))
    ordered: Ints = rows[np.argsort(np.round(closeness, 6), kind="stable")]
    return ordered


def _lead(vectors: Any, rows: Ints, threshold: float, chosen: Ints, similarity: Doubles) -> None:
    """Go through ``rows`` in order; each is kept unless a kept one before it is alike."""
    np = arrays()
    kept = np.empty((0, vectors.shape[1]), np.float32)
    kept_rows = np.empty(0, np.int64)
    least = threshold - _TOLERANCE
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        block = vectors[part]
        free = _cover(block @ kept.T, part, kept_rows, least, chosen, similarity)
        among = block[free] @ block[free].T
        leaders: list[int] = []
        for at in range(len(free)):
            alike = among[at, leaders] >= least
            if alike.any():
                first = leaders[int(alike.argmax())]
                chosen[part[free[at]]] = part[free[first]]
                similarity[part[free[at]]] = min(1.0, float(among[at, first]))
            else:
                leaders.append(at)
        kept = np.concatenate((kept, block[free[leaders]]))
        kept_rows = np.concatenate((kept_rows, part[free[leaders]]))


def _cover(
    cosines: Any, part: Ints, kept_rows: Ints, least: float, chosen: Ints, similarity: Doubles
) -> Ints:
    """Give what is like a kept vector the first such as its representative; the rest is free."""
    np = arrays()
    if not cosines.shape[1]:
        return np.arange(len(part))  # type: ignore[no-any-return]
    first = (cosines >= least).argmax(axis=1)
    cosine = cosines[np.arange(len(part)), first]
    covered = cosine >= least
    chosen[part[covered]] = kept_rows[first[covered]]
    similarity[part[covered]] = np.minimum(1.0, cosine[covered])
    free: Ints = np.flatnonzero(~covered)
    return free


def _by_cells(
    vectors: Any,
    rows: Ints,
    threshold: float,
    chosen: Ints,
    similarity: Doubles,
    *,
    far_first: bool,
) -> None:
    np = arrays()
    nearest, next_ = _cells(vectors, rows)
    rank = np.empty(len(vectors), np.int64)
    rank[rows] = np.arange(len(rows))
    for cell in range(int(nearest.max()) + 1):
        members = rows[nearest == cell]
        if far_first and len(members):
            members = _far_first(vectors, members)
        _lead(vectors, members, threshold, chosen, similarity)
    alone = chosen[rows] == rows
    pairs: list[tuple[int, int, int]] = []
    for cell in range(int(nearest.max()) + 1):
        ours, theirs = rows[alone & (next_ == cell)], rows[alone & (nearest == cell)]
        left, right = np.nonzero(vectors[ours] @ vectors[theirs].T >= threshold - _TOLERANCE)
        for a, b in zip(ours[left], theirs[right], strict=True):
            better, worse = (a, b) if rank[a] < rank[b] else (b, a)
            pairs.append((int(rank[worse]), int(rank[better]), int(worse)))
    for _, better_rank, worse in sorted(pairs):
        better = rows[better_rank]
        if chosen[better] == better and chosen[worse] == worse:
            chosen[worse] = better
    moved = rows[chosen[chosen[rows]] != chosen[rows]]
    chosen[moved] = chosen[chosen[moved]]
    changed = rows[~alone | (chosen[rows] != rows)]
    cosine = np.einsum("ij,ij->i", vectors[changed], vectors[chosen[changed]])
    similarity[changed] = np.minimum(1.0, cosine)


def _cells(vectors: Any, rows: Ints) -> tuple[Ints, Ints]:
    """The nearest and the next nearest of about ``n / 500`` k-means centres for each row.

    Every n-th row is a first centre, so nothing is drawn and the cells depend on the rows alone.
    """
    np = arrays()
    cells = max(2, len(rows) // _A_CELL)
    sample = vectors[rows[:: max(1, len(rows) // _SAMPLE)]]
    centres = sample[np.linspace(0, len(sample) - 1, cells).astype(np.int64)].copy()
    for _ in range(_ROUNDS):
        own, _ = _two_nearest(sample, centres)
        order = np.argsort(own, kind="stable")
        filled, starts = np.unique(own[order], return_index=True)
        sums = np.add.reduceat(sample[order], starts, axis=0)
        lengths = np.linalg.norm(sums, axis=1)
        centres[filled] = sums / np.where(lengths > 0, lengths, 1.0)[:, None]
    return _two_nearest(vectors[rows], centres)


def _two_nearest(points: Any, centres: Any) -> tuple[Ints, Ints]:
    np = arrays()
    first, second = np.empty(len(points), np.int64), np.empty(len(points), np.int64)
    for start in range(0, len(points), 4 * _BLOCK):
        part = slice(start, start + 4 * _BLOCK)
        cosines = points[part] @ centres.T
        first[part] = cosines.argmax(axis=1)
        cosines[np.arange(len(cosines)), first[part]] = -2.0
        second[part] = cosines.argmax(axis=1)
    return first, second
