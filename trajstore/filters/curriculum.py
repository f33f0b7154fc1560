"""Curriculum: which tasks to train on now, by how often they are passed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from trajstore.errors import SelectionError

LEVELS = (1, 2, 3, 4, 5)
"""L1 is the easiest."""

LEVEL_RATES: dict[int, float] = {1: 0.8, 2: 0.6, 3: 0.4, 4: 0.2, 5: 0.0}
"""Level -> smallest pass rate of its tasks (ours: fifths)."""

LEVEL_MIXES: dict[int, tuple[float, ...]] = {
    2: (0.4, 0.4, 0.2, 0.0, 0.0),
    3: (0.05, 0.15, 0.6, 0.2, 0.0),
    4: (0.03, 0.05, 0.12, 0.6, 0.2),
    5: (0.1, 0.15, 0.25, 0.3, 0.2),
}
"""Level that is being learned -> shares of L1 to L5. The first and the last are as published: 80 %
L1 and L2 with 20 % L3 to start, 10/15/25/30/20 % in the end. The two between are ours: 20 % easier
tasks, 60 % of the level, 20 % of the next."""

ADVANCE_ABOVE = 0.7
"""Success rate on the level above which the next one is begun."""


def level_of(rate: float) -> int:
    """The level of a task by its pass rate, 1 (easiest) to 5.

    >>> [level_of(rate) for rate in (1.0, 0.8, 0.5, 0.2, 0.1)]
    [1, 1, 3, 4, 5]
    """
    return next((level for level, least in LEVEL_RATES.items() if rate >= least), LEVELS[-1])


def advance(level: int, rates: Mapping[int, float | None]) -> int:
    """The level to learn next: one more once the success rate on this one is above 70 %.

    >>> advance(2, {1: 0.9, 2: 0.71}), advance(2, {1: 0.9, 2: 0.7})
    (3, 2)

    Args:
        level: the level that is being learned, 2 to 5.
        rates: level -> success rate of the current policy, 0 to 1; None or no entry is unknown.

    Raises:
        SelectionError: there is no such level.
    """
    mix_of(level)
    rate = rates.get(level)
    return level + 1 if rate is not None and rate > ADVANCE_ABOVE and level < LEVELS[-1] else level


def mix_of(level: int) -> tuple[float, ...]:
    """Shares of L1 to L5 while a level is being learned; they sum to 1.

    Raises:
        SelectionError: there is no such level.
    """
    if level not in LEVEL_MIXES:
        raise SelectionError(f"A level to learn is 2 to 5, not {level}; learning starts at 2.")
    return LEVEL_MIXES[level]


def variance_weights(rates: Sequence[float]) -> list[float]:
    """Weights in proportion to ``p * (1 - p)``, which sum to 1; a rate of one half weighs most.

    >>> [round(w, 4) for w in variance_weights([0, 0.125, 0.5, 0.875, 1])]
    [0.0, 0.2333, 0.5333, 0.2333, 0.0]

    Args:
        rates: pass rates, 0 to 1; all weights are 0 where each is 0 or 1.
    """
    return _normalised([p * (1.0 - p) for p in rates])


def target_weights(rates: Sequence[float], target: float, width: float = 0.15) -> list[float]:
    """Weights by a Gaussian around a pass rate, which sum to 1.

    Args:
        rates: pass rates, 0 to 1.
        target: the rate to train at now; see :func:`target_at`.
        width: standard deviation of the Gaussian (0.15 is ours).

    Raises:
        SelectionError: ``width`` is not above 0.
    """
    if not width > 0:
        raise SelectionError(f"A width is above 0, not {width}.")
    return _normalised([math.exp(-0.5 * ((p - target) / width) ** 2) for p in rates])


def target_at(progress: float, start: float = 0.8, end: float = 0.2) -> float:
    """The pass rate to train at, falling in a straight line as training goes on.

    >>> target_at(0.0), target_at(0.5), target_at(1.0)
    (0.8, 0.5, 0.2)

    Args:
        progress: how much of the training is done, 0 to 1.
        start: rate to begin with (ours).
        end: rate to end with (ours).

    Raises:
        SelectionError: ``progress`` is not from 0 to 1.
    """
    if not 0 <= progress <= 1:
        raise SelectionError(f"Progress is from 0 to 1, not {progress}.")
    return start * (1.0 - progress) + end * progress


def mixed_outcomes(rate: float) -> bool:
    """Whether a task is passed sometimes and not always, so that its group has a signal (DAPO).

    >>> [mixed_outcomes(rate) for rate in (0.0, 0.25, 1.0)]
    [False, True, False]
    """
    return 0.0 < rate < 1.0


def _normalised(weights: list[float]) -> list[float]:
    whole = math.fsum(weights)
    return [w / whole if whole else 0.0 for w in weights]
