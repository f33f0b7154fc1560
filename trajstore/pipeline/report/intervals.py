"""How sure a success rate is."""

from __future__ import annotations

import math

_Z = 1.959963984540054


def wilson(successes: int, known: int) -> tuple[float, float]:
    """The 95 % interval of a rate (Wilson 1927, as in Brown, Cai and DasGupta 2001, section 3.1.1).

    Args:
        successes: from 0 to ``known``.
        known: attempts with a known outcome; without any the rate may be anything.

    >>> [round(x, 4) for x in wilson(84, 200)], wilson(0, 0)
    ([0.3537, 0.4893], (0.0, 1.0))
    """
    if not known:
        return 0.0, 1.0
    rate, z2 = successes / known, _Z * _Z
    centre = (rate + z2 / (2 * known)) / (1 + z2 / known)
    half = _Z / (1 + z2 / known) * math.sqrt(rate * (1 - rate) / known + z2 / (4 * known * known))
    low = 0.0 if not successes else max(0.0, centre - half)
    high = 1.0 if successes == known else min(1.0, centre + half)
    return low, high


def rate_of(successes: int, known: int) -> float | None:
    """Successes over attempts with a known outcome; None without any."""
    return successes / known if known else None
