"""Bins and ticks with round numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trajstore.pipeline.report.text import compact

_MOST_BINS = 16
_LOG_FROM = 100.0
_SLACK = 1e-9


def round_step(raw: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is not below ``raw`` (above 0).

    >>> [round_step(x) for x in (0.3, 1, 1.2, 40, 5001)]
    [0.5, 1.0, 2.0, 50.0, 10000.0]
    """
    power = 10.0 ** math.floor(math.log10(raw))
    found = next((m * power for m in (1, 2, 5) if m * power >= raw * (1 - _SLACK)), 10 * power)
    return float(f"{found:.6g}")


def ticks(highest: float, most: int = 4) -> list[float]:
    """Round numbers from 0 up to the first one that is not below ``highest``.

    >>> ticks(84), ticks(3), ticks(0)
    ([0.0, 50.0, 100.0], [0.0, 1.0, 2.0, 3.0], [0.0, 1.0])
    """
    step = max(round_step(max(highest, 1) / most), 1.0)
    return [i * step for i in range(max(math.ceil(highest / step - _SLACK), 1) + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Ranges of equal width, or of equal ratio, next to each other."""

    low: float
    """Where the first one begins; its decimal logarithm where ``log``."""
    width: float
    """Of each one; in decimal logarithms where ``log``."""
    count: int
    """How many."""
    whole: bool
    """The values are whole numbers."""
    log: bool = False
    """Of equal ratio."""
    below: bool = False
    """The first one also takes what is less."""
    above: bool = False
    """The last one also takes what is more."""

    def sql(self, value: str) -> str:
        """SQL for the number of the bin, from 0, of an expression that is not null."""
        if self.log:
            logs = f"log10(greatest({value}, 1e-300)::DOUBLE)"
            place = f"floor(({logs} - {self.low!r}) / {self.width!r} + {_SLACK})"
        else:
            place = f"floor(({value}::DOUBLE - {self.low!r}) / {self.width!r} + {_SLACK})"
        return f"CAST(greatest(least({place}, {self.count - 1}), 0) AS INTEGER)"

    def place(self, value: float) -> float:
        """Where a value lies on an axis from 0 to ``count``, not outside of it."""
        at = math.log10(max(value, 1e-300)) if self.log else value
        middle = 0.5 if self.whole and not self.log and self.width == 1 else 0.0
        return min(max((at - self.low) / self.width + middle, 0.0), float(self.count))

    def edge(self, place: int) -> float:
        """Where a bin begins; ``count`` gives where the last one ends."""
        at = self.low + place * self.width
        return float(f"{10.0**at if self.log else at:.6g}")

    def label(self, place: int) -> str:
        """What a bin holds, in words."""
        start, end = self.edge(place), self.edge(place + 1)
        if self.below and place == 0:
            return f"below {compact(end)}"
        if self.above and place == self.count - 1:
            return f"{compact(start)} or more"
        if self.whole:
            start, last = math.ceil(start), math.ceil(end) - 1
            return compact(start) if last <= start else f"{compact(start)} to {compact(last)}"
        return f"{compact(start)} to {compact(end)}"

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Places on an axis from 0 to ``count`` with what stands there: round numbers.

        An open end is marked in the middle of its bin, such as ``≥50``.
        """
        single = self.whole and not self.log and self.width == 1
        found = self._decades(most) if self.log else self._multiples(most)
        marks = [(at + 0.5 * single, compact(v)) for at, v in found if at + single <= self.count]
        near = self.count * 0.1
        if self.below:
            marks = [m for m in marks if m[0] > 0.5 + near]
            marks.insert(0, (0.5, f"<{compact(self.edge(1))}"))
        if self.above:
            marks = [m for m in marks if m[0] < self.count - 0.5 - near]
            marks.append((self.count - 0.5, f"≥{compact(self.edge(self.count - 1))}"))
        return marks

    def _decades(self, most: int) -> list[tuple[float, float]]:
        last = math.floor(self.low + self.count * self.width + _SLACK)
        powers = range(math.ceil(self.low - _SLACK), last + 1)
        step = -(-len(powers) // most) or 1
        return [((p - self.low) / self.width, 10.0**p) for p in powers[::step]]

    def _multiples(self, most: int) -> list[tuple[float, float]]:
        step = round_step(self.width * max(self.count / most, 1))
        first = math.ceil(self.low / step - _SLACK)
        last = math.floor((self.low + self.count * self.width) / step + _SLACK)
        values = (float(f"{k * step:.6g}") for k in range(first, last + 1))
        return [((v - self.low) / self.width, v) for v in values]


def bins(
    *, low: float, high: float, smallest: float, largest: float, whole: bool, most: int = _MOST_BINS
) -> Bins:
    """Bins for values of which most lie between ``low`` and ``high``.

    The outermost bins are open where values lie farther out, so that one strange run does not press
    all others into one bin. Where ``high`` is 100 times ``low`` or more, bins have equal ratio.

    Args:
        low: 1 % of the values are below, or fewer.
        high: 1 % of the values are above, or fewer.
        smallest: the least value.
        largest: the greatest value.
        whole: the values are whole numbers.
        most: bins at most.
    """
    if low > 0 and high / low >= _LOG_FROM:
        return _of_equal_ratio(low, high, smallest, largest, whole=whole, most=most)
    if 0 <= smallest <= high / 2:
        low = smallest
    span = (high - low + whole) or max(abs(low) / 10, 1.0)
    width = round_step(max(span / most, abs(high) * 1e-9, abs(low) * 1e-9))
    width = max(width, 1.0) if whole else width
    start = math.floor(low / width + _SLACK) * width
    number = max(1, min(math.floor((high - start) / width + _SLACK) + 1, 2 * most))
    return Bins(
        low=float(f"{start:.12g}"),
        width=width,
        count=number,
        whole=whole,
        below=smallest < start,
        above=largest >= start + number * width,
    )


def _of_equal_ratio(
    low: float, high: float, smallest: float, largest: float, *, whole: bool, most: int
) -> Bins:
    decades = math.log10(high / low)
    parts = next((p for p in (4, 3, 2, 1) if decades * p <= most - 1), 1)
    width = 1 / parts if decades <= most - 1 else math.ceil(decades / (most - 1))
    start = math.floor(math.log10(low) / width + _SLACK) * width
    number = math.floor((math.log10(high) - start) / width + _SLACK) + 1
    return Bins(
        low=start,
        width=width,
        count=number,
        whole=whole,
        log=True,
        below=smallest < 10**start,
        above=largest >= 10 ** (start + number * width),
    )
