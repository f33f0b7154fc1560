"""The one function that scores, for every level and mode."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from trajstore.errors import RetrievalError
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.hits import Weights

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Doubles

PARTS = ("similarity", "success", "recency", "efficiency", "utility")
"""Parts of a score, each from 0 to 1."""

_DAY_S = 86_400.0


def recency(at: Doubles, now: datetime, half_life_days: float) -> Doubles:
    """0.5 to the power of age by half-life; 1 for the future, 0 where the time is unknown.

    Args:
        at: seconds since 1970.
        now: the time that ages are counted to.
        half_life_days: above 0.
    """
    np = numpy()
    if not half_life_days > 0:
        raise RetrievalError(f"half_life_days is above 0, not {half_life_days}.")
    age = np.maximum(0.0, now.timestamp() - at) / _DAY_S
    found: Doubles = np.nan_to_num(0.5 ** (age / half_life_days), nan=0.0)
    return found


def scores(parts: Mapping[str, Doubles], weights: Weights) -> Doubles:
    """The weighted sum of the parts.

    Args:
        parts: one array for each of :data:`PARTS`.
        weights: what each is worth.
    """
    total = sum(getattr(weights, name) * parts[name] for name in PARTS)
    found: Doubles = numpy().asarray(total, dtype=float)
    return found
