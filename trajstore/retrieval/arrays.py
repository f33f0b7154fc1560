"""NumPy, which is loaded when a search or an embedder needs it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from trajstore._optional import require

if TYPE_CHECKING:
    from numpy import bool_, float32, float64, int64
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[float32]
    Doubles: TypeAlias = NDArray[float64]
    Ints: TypeAlias = NDArray[int64]
    Bools: TypeAlias = NDArray[bool_]


@lru_cache(maxsize=1)
def numpy() -> Any:
    """NumPy, or the error that says how to get it."""
    return require("numpy", extra="retrieval", purpose="Retrieval")
