"""MinHash with banding: which of many sets can be alike, without looking at every pair.

Broder 1997 (MinHash); Leskovec, Rajaraman and Ullman, *Mining of Massive Datasets*, section 3.4
(banding). Two sets of Jaccard similarity ``s`` agree in one hash with chance ``s``, in all ``r``
hashes of a band with ``s ** r``, and in at least one of ``b`` bands with ``1 - (1 - s ** r) ** b``.
Sets that agree in a band share a bucket. A bucket is a guess: whoever uses it checks each pair
with :func:`trajstore.filters.shingles.jaccard`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trajstore.errors import SelectionError
from trajstore.filters.shingles import ShingleSets, arrays, mixed

if TYPE_CHECKING:
    from trajstore.filters.shingles import Hashes, Ints

_SETS_AT_ONCE = 512
_BYTES_OF_KEYS = 2**28
_MOST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Bands:
    """How many bands there are, and how many hashes each has."""

    bands: int
    """``b``: more bands find more pairs."""
    rows: int
    """``r``: more rows let fewer unlike pairs through."""

    def __post_init__(self) -> None:
        """Check both."""
        if self.bands < 1 or self.rows < 1:
            message = f"MinHash needs at least 1 band and 1 row, not {self.bands} and {self.rows}."
            raise SelectionError(message)

    def chance(self, similarity: float) -> float:
        """Chance that two sets of that Jaccard similarity are compared.

        >>> round(Bands(14, 9).chance(0.7), 4)
        0.4382
        """
        return 1.0 - (1.0 - similarity**self.rows) ** self.bands

    def curve(self, similarities: Sequence[float] = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)) -> str:
        """The chances at some similarities, as text to show before one trusts the result.

        >>> Bands(32, 4).curve((0.5, 0.7))
        'bands 32, rows 4: 0.5 -> 0.8732, 0.7 -> 0.9998'
        """
        listed = ", ".join(f"{s:g} -> {self.chance(s):.4f}" for s in similarities)
        return f"bands {self.bands}, rows {self.rows}: {listed}"


def choose_bands(threshold: float, *, recall: float = 0.9999, hashes: int = 160) -> Bands:
    """The bands that find a pair *at* the threshold with the chance asked for.

    Of all that do so with the hashes allowed, the one with the most rows is taken, as it lets the
    fewest unlike pairs through. A pair above the threshold is found with a higher chance.

    >>> choose_bands(0.7)
    Bands(bands=34, rows=4)

    Args:
        threshold: Jaccard similarity, above 0 and up to 1.
        recall: chance of finding a pair at the threshold, between 0 and 1.
        hashes: most hashes a set, ``bands * rows``.

    Raises:
        SelectionError: no bands reach it with so few hashes.
    """
    if not 0.0 < threshold <= 1.0 or not 0.0 < recall < 1.0:
        message = f"A threshold in (0, 1] and a recall in (0, 1) are needed: {threshold}, {recall}."
        raise SelectionError(message)
    for rows in range(min(hashes, _MOST_ROWS), 0, -1):
        agree = threshold**rows
        bands = 1 if agree >= recall else math.ceil(math.log1p(-recall) / math.log1p(-agree))
        if 0 < bands * rows <= hashes:
            return Bands(bands, rows)
    message = (
        f"No bands find pairs at similarity {threshold} with chance {recall} with {hashes} hashes; "
        "raise the threshold, allow more hashes, or ask for less recall."
    )
    raise SelectionError(message)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Sets that agree in a band, as two columns of equal length; buckets of one are left out."""

    bucket: Ints
    """Number of the bucket, ascending."""
    member: Ints
    """Number of a set in it, ascending inside a bucket; a set is there once a band at most."""

    def without(self, sets: Any) -> Buckets:
        """What is left when the sets where the mask is true are taken out."""
        return _crowded(self.bucket[~sets[self.member]], self.member[~sets[self.member]])

    def pairs(self) -> Iterator[tuple[Ints, Ints]]:
        """All pairs of members of a bucket in portions, the smaller number on the left.

        A pair comes once for each bucket that it shares.
        """
        bucket, member = self.bucket, self.member
        ahead = 1
        while len(member) > ahead:
            same = bucket[ahead:] == bucket[:-ahead]
            yield member[:-ahead][same], member[ahead:][same]
            if not same.any():
                return
            ahead += 1


def _crowded(bucket: Ints, member: Ints) -> Buckets:
    """Only buckets with two members or more."""
    np = arrays()
    if not len(bucket):
        return Buckets(bucket, member)
    as_before = np.concatenate(([False], bucket[1:] == bucket[:-1]))
    shared = as_before | np.concatenate((as_before[1:], [False]))
    return Buckets(bucket[shared], member[shared])


def buckets(
    sets: ShingleSets, bands: Bands, *, scope: Ints | None = None, seed: int = 0
) -> Buckets:
    """Put sets that agree in a band into one bucket; an empty set is in none.

    What shares a bucket depends on the two sets and the seed, never on the other sets or on the
    order they come in.

    Args:
        sets: the sets.
        bands: how many bands of how many hashes.
        scope: a number for each set; only sets of one scope share a bucket.
        seed: another seed draws other hashes.
    """
    np = arrays()
    places = np.flatnonzero(sets.sizes > 0)
    salt = mixed(np.asarray(np.zeros(len(sets)) if scope is None else scope).astype(np.uint64))
    found: list[Buckets] = []
    number = 0
    width = max(1, min(bands.bands, _BYTES_OF_KEYS // (8 * max(1, len(sets)))))
    for first in range(0, bands.bands, width):
        numbers = range(first, min(first + width, bands.bands))
        keys = _band_keys(sets, places, [f"{seed}/{n}" for n in numbers], bands.rows)
        for column in range(len(numbers)):
            found.append(_grouped(keys[:, column] ^ salt[places], places, number))
            number += len(places)
    return Buckets(
        np.concatenate([f.bucket for f in found]), np.concatenate([f.member for f in found])
    )


def _grouped(keys: Hashes, places: Ints, number: int) -> Buckets:
    """Buckets of one band, numbered from ``number`` on."""
    np = arrays()
    order = np.argsort(keys)
    ranked = keys[order]
    new = np.concatenate(([True], ranked[1:] != ranked[:-1]))[: len(ranked)]
    shared = _crowded(np.cumsum(new), places[order])
    size = int(places[-1]) + 1 if len(places) else 1
    codes = np.sort(shared.bucket * size + shared.member)
    return Buckets(codes // size + number, codes % size)


def _band_keys(sets: ShingleSets, places: Ints, seeds: Sequence[str], rows: int) -> Hashes:
    """One 64-bit hash a set and band of the smallest hash values in it."""
    np = arrays()
    draws = [random.Random(s) for s in seeds]  # noqa: S311 - hash functions, no secret
    factor = np.array([d.getrandbits(32) | 1 for d in draws for _ in range(rows)], np.uint32)
    shift = np.array([d.getrandbits(32) for d in draws for _ in range(rows)], np.uint32)
    values = (sets.hashes >> np.uint64(32)).astype(np.uint32)[sets.codes]
    by_size = places[np.argsort(-sets.sizes[places], kind="stable")]
    keys = np.empty((len(sets), len(seeds)), np.uint64)
    for start in range(0, len(by_size), _SETS_AT_ONCE):
        part = by_size[start : start + _SETS_AT_ONCE]
        smallest = _smallest(values, sets.offsets[part], sets.sizes[part], factor, shift)
        keys[part] = _folded(smallest.reshape(len(part), len(seeds), rows))
    chosen: Hashes = keys[places]
    return chosen


def _smallest(values: Any, starts: Ints, sizes: Ints, factor: Any, shift: Any) -> Any:
    """The smallest value of each hash function over each set; sets come in order of their size.

    One element of every set at a time, so that all arithmetic runs over whole rows in the cache.
    """
    np = arrays()
    smallest = np.full((len(starts), len(factor)), 2**32 - 1, np.uint32)
    work = np.empty_like(smallest)
    for at in range(int(sizes[0])):
        left = int(np.searchsorted(-sizes, -at, side="left"))
        here = work[:left]
        np.multiply(values[starts[:left] + at, None], factor, out=here)
        np.add(here, shift, out=here)
        np.minimum(smallest[:left], here, out=smallest[:left])
    return smallest


def _folded(smallest: Any) -> Hashes:
    """The hashes of a band in one number."""
    np = arrays()
    folded: Hashes = np.zeros(smallest.shape[:2], np.uint64)
    for row in range(smallest.shape[2]):
        folded = mixed(folded ^ smallest[:, :, row])
    return folded
