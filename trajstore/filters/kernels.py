"""How like each of ``n`` items is to each other one, asked for in blocks.

The diversity algorithms look at a few rows of an ``n`` by ``n`` matrix at a time. A kernel gives
those rows without ever holding the matrix, so 20 000 items need no 1.6 GB. Needs NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from trajstore.errors import SelectionError
from trajstore.filters.shingles import arrays

if TYPE_CHECKING:
    from numpy import floating
    from numpy.typing import NDArray

    from trajstore.filters.shingles import Ints

    Floats: TypeAlias = NDArray[floating[Any]]
    Places: TypeAlias = "Ints | slice"

EVERY = slice(None)
"""All items."""

_PRECISE = 4096
_LOOKED_AT = 2**14


class Kernel(Protocol):
    """Similarities of ``n`` items; symmetric, the higher the more alike."""

    size: int
    """Number of items."""

    def block(self, rows: Places, columns: slice = EVERY) -> Floats:
        """Similarities of some items to others: one row for each of ``rows``. Not to be changed."""

    def take(self, places: Ints) -> Self:
        """The kernel of some of the items, in that order."""


class Similarities:
    """A matrix that is there already; row ``j`` holds how like item ``j`` is to every item."""

    def __init__(self, matrix: Floats) -> None:
        """Keep the matrix, not a copy of it.

        Raises:
            SelectionError: it is not square, not symmetric, or not all of it is finite. In a large
                matrix symmetry is looked for at 16,384 places.
        """
        np = arrays()
        self._matrix = np.asarray(matrix)
        if self._matrix.ndim != 2 or len(set(self._matrix.shape)) > 1:
            shape = "x".join(map(str, self._matrix.shape))
            raise SelectionError(f"Similarities are a square matrix, not {shape}.")
        self.size: int = len(self._matrix)
        if not np.isfinite(self._matrix.sum(axis=0)).all():
            raise SelectionError("The similarities hold numbers that are not finite.")
        places = np.linspace(0, max(self.size**2 - 1, 0), min(self.size**2, _LOOKED_AT))
        rows, columns = np.divmod(places.astype(np.int64), max(self.size, 1))
        there, back = self._matrix[rows, columns], self._matrix[columns, rows]
        if not np.allclose(there, back, rtol=1e-4, atol=1e-6):
            message = "The similarities are not symmetric: i must be as like j as j is like i."
            raise SelectionError(message)

    @classmethod
    def made(cls, matrix: Floats) -> Similarities:
        """A matrix of our own making, which is not looked at."""
        kernel = object.__new__(cls)
        kernel._matrix, kernel.size = matrix, len(matrix)
        return kernel

    def block(self, rows: Places, columns: slice = EVERY) -> Floats:
        """Rows of the matrix."""
        part: Floats = self._matrix[rows][:, columns]
        return part

    def take(self, places: Ints) -> Similarities:
        """The matrix of some items."""
        return Similarities.made(self._matrix[places][:, places])


class Cosine:
    """Cosines of vectors, -1 to 1; a vector of zeros is like nothing (0).

    Up to 4096 vectors are computed in double, more in single precision.
    """

    def __init__(self, vectors: Floats) -> None:
        """Scale the vectors to length 1.

        Raises:
            SelectionError: they are not one matrix of finite numbers.
        """
        np = arrays()
        points = matrix_of(vectors)
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        self._unit = points / np.where(norms > 0, norms, 1.0)
        self.size: int = len(points)

    def block(self, rows: Places, columns: slice = EVERY) -> Floats:
        """Scalar products of the unit vectors."""
        cosines: Floats = self._unit[rows] @ self._unit[columns].T
        return cosines

    def take(self, places: Ints) -> Cosine:
        """The cosines of some vectors."""
        return Cosine(self._unit[places])


class Euclidean:
    """Minus the Euclidean distance of points, so 0 is the same place and -2 is farther than -1."""

    def __init__(self, points: Floats) -> None:
        """Keep the points.

        Raises:
            SelectionError: they are not one matrix of finite numbers.
        """
        self._points = matrix_of(points)
        self.size: int = len(self._points)

    def block(self, rows: Places, columns: slice = EVERY) -> Floats:
        """Minus the distances, each computed from the difference of its two points."""
        np = arrays()
        others = self._points[columns]
        found = [np.linalg.norm(others - point, axis=1) for point in self._points[rows]]
        distances: Floats = -np.array(found).reshape(-1, len(others))
        return distances

    def take(self, places: Ints) -> Euclidean:
        """The distances of some points."""
        return Euclidean(self._points[places])


def matrix_of(vectors: Floats) -> Floats:
    """Vectors as one matrix, a row each: doubles up to 4096 rows, single precision above.

    Raises:
        SelectionError: they are of several lengths, or not all numbers are finite.
    """
    np = arrays()
    points = np.asarray(vectors)
    if points.ndim != 2 or not np.issubdtype(points.dtype, np.number):
        raise SelectionError("Vectors are one matrix of numbers, a row each, all of one length.")
    points = points.astype(np.float64 if len(points) <= _PRECISE else np.float32, copy=False)
    if not np.isfinite(points).all():
        raise SelectionError("The vectors hold numbers that are not finite.")
    matrix: Floats = points
    return matrix


class Mixed:
    """A weighted mean of two kernels over the same items.

    With the cosine of the goals and the similarity of the strategies, 1 minus it is the distance
    ``w * (1 - cos) + (1 - w) * (1 - seqsim)``.
    """

    def __init__(self, first: Kernel, second: Kernel, weight: float = 0.5) -> None:
        """Join two kernels.

        Args:
            first: has the share ``weight``.
            second: has the rest.
            weight: 0 to 1.

        Raises:
            SelectionError: the kernels are of different sizes, or the weight is none.
        """
        if first.size != second.size:
            message = f"Two kernels join over the same items, not {first.size} and {second.size}."
            raise SelectionError(message)
        if not 0 <= weight <= 1:
            raise SelectionError(f"A weight is from 0 to 1, not {weight}.")
        self.size: int = first.size
        self._first, self._second, self._weight = first, second, weight

    def block(self, rows: Places, columns: slice = EVERY) -> Floats:
        """The weighted mean."""
        found: Floats = self._weight * self._first.block(rows, columns)
        found += (1.0 - self._weight) * self._second.block(rows, columns)
        return found

    def take(self, places: Ints) -> Mixed:
        """The mean over some items."""
        return Mixed(self._first.take(places), self._second.take(places), self._weight)
