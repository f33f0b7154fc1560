"""Sets of shingles: n-grams over sequences of hashed tokens, and their exact Jaccard similarity.

A sequence is padded with a start and an end mark, so that a sequence of one token has shingles too.
A token is a 64-bit hash of its text (see :mod:`.sequences`), a shingle a 64-bit hash of its tokens;
two different ones are taken for equal with a chance of about ``n * n / 2**65`` for ``n`` of them.
Everything is NumPy over flat arrays: 20 000 sequences of 20 tokens take about 50 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore._optional import require

if TYPE_CHECKING:
    from numpy import bool_, float64, int64, uint64
    from numpy.typing import NDArray

    Bools = NDArray[bool_]
    Doubles = NDArray[float64]
    Ints = NDArray[int64]
    Hashes = NDArray[uint64]

_FACTOR = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MASK = 2**64 - 1
_START, _END = 0x2545F4914F6CDD1D, 0xD6E8FEB86659FD93


def arrays() -> Any:
    """NumPy, or the error that says how to get it."""
    return require("numpy", extra="select", purpose="comparing trajectories with each other")


def mixed(values: Hashes) -> Hashes:
    """Spread 64-bit values over the whole range, one to one (the finaliser of SplitMix64)."""
    np = arrays()
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_MIX[0])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_MIX[1])
    result: Hashes = values ^ (values >> np.uint64(31))
    return result


@dataclass(frozen=True, slots=True)
class ShingleSets:
    """A set of shingles for each of ``n`` sequences; the set of an empty sequence is empty."""

    offsets: Ints
    """Where each set starts in ``elements``; ``n + 1`` numbers."""
    elements: Ints
    """Every element of every set, in ascending order: the number of its set, shifted left by
    ``bits``, and the place of its shingle in ``hashes``."""
    hashes: Hashes
    """The hash of every shingle there is."""
    bits: int
    """Bits that a place in ``hashes`` takes."""

    @property
    def sizes(self) -> Ints:
        """Shingles in each set."""
        sizes: Ints = self.offsets[1:] - self.offsets[:-1]
        return sizes

    @property
    def codes(self) -> Ints:
        """The shingle of each element, as its place in ``hashes``."""
        codes: Ints = self.elements & ((1 << self.bits) - 1)
        return codes

    def __len__(self) -> int:
        """Number of sets."""
        return len(self.offsets) - 1

    def take(self, places: Ints) -> ShingleSets:
        """The sets at ``places``, in that order; it costs what they hold, not what all hold."""
        np = arrays()
        places = np.asarray(places)
        starts = self.offsets[places]
        sizes = self.offsets[places + 1] - starts
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        taken = self.elements[_runs(starts, sizes)] & ((1 << self.bits) - 1)
        owner = np.repeat(np.arange(len(places)), sizes)
        return ShingleSets(offsets, (owner << self.bits) | taken, self.hashes, self.bits)


def shingle_sets(
    tokens: pa.Array | pa.ChunkedArray, size: int, *, padded: bool = True
) -> ShingleSets:
    """The set of shingles of each sequence.

    Args:
        tokens: a list of ``uint64`` hashes for each sequence; null counts as empty.
        size: tokens in a shingle, at least 1.
        padded: put ``size - 1`` marks before and behind each sequence, as one does for short runs.
            Without them a sequence shorter than ``size`` has no shingle.
    """
    np = arrays()
    lists = pc.fill_null(_one_chunk(tokens), pa.scalar([], pa.list_(pa.uint64())))
    values = lists.flatten().to_numpy(zero_copy_only=False)
    lengths = np.diff(lists.offsets.to_numpy())
    marks = size - 1 if padded else 0
    longer = np.where(lengths > 0, lengths + 2 * marks, 0)
    starts = np.cumsum(longer) - longer
    text = np.full(int(longer.sum()), _START, np.uint64)
    owner = np.repeat(np.arange(len(lengths)), longer)
    within = np.arange(len(text)) - starts[owner]
    behind = within - marks >= lengths[owner]
    text[behind] = _END
    text[(within >= marks) & ~behind] = values
    first = within <= longer[owner] - size
    return _distinct(_rolled(text, size)[first], owner[first], len(lengths))


def _one_chunk(tokens: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = tokens.combine_chunks() if isinstance(tokens, pa.ChunkedArray) else tokens
    return whole.cast(pa.list_(pa.uint64()))


def _rolled(text: Hashes, size: int) -> Hashes:
    """A hash of the ``size`` tokens from each place on; the last places are of no use."""
    np = arrays()
    rolled = np.zeros(len(text), np.uint64)
    for at in range(min(size, len(text))):
        factor = np.uint64((_FACTOR * (2 * at + 1)) & _MASK)
        rolled[: len(text) - at] += mixed(text[at:] * factor)
    return mixed(rolled)


def _distinct(shingles: Hashes, owner: Ints, sets: int) -> ShingleSets:
    np = arrays()
    order = np.argsort(shingles)
    ranked = shingles[order]
    new = np.concatenate(([True], ranked[1:] != ranked[:-1])) if len(ranked) else np.zeros(0, bool)
    codes = np.empty(len(shingles), np.int64)
    codes[order] = np.cumsum(new) - 1
    hashes = ranked[new]
    bits = max(1, len(hashes) - 1).bit_length()
    elements = np.sort((owner << bits) | codes)
    if len(elements):
        elements = elements[np.concatenate(([True], elements[1:] != elements[:-1]))]
    sizes = np.bincount(elements >> bits, minlength=sets)
    return ShingleSets(np.concatenate(([0], np.cumsum(sizes))), elements, hashes, bits)


def _runs(starts: Ints, lengths: Ints) -> Ints:
    """The numbers ``start, start + 1, ...`` of each run, one run behind the other."""
    np = arrays()
    ends = np.cumsum(lengths)
    runs: Ints = np.repeat(starts - ends + lengths, lengths)
    runs += np.arange(len(runs))
    return runs


def jaccard(sets: ShingleSets, left: Ints, right: Ints) -> Doubles:
    """The exact similarity of pairs of sets: what they share over what they have together.

    Two empty sets have similarity 0: where nothing was done there is nothing to compare.

    Args:
        sets: the sets.
        left: the first set of each pair.
        right: the second set of each pair.
    """
    np = arrays()
    sizes = sets.sizes
    small = np.where(sizes[left] <= sizes[right], left, right)
    large = left + right - small
    shared = _shared(sets, small, large)
    together = sizes[left] + sizes[right] - shared
    result: Doubles = np.where(together > 0, shared / np.maximum(together, 1), 0.0)
    return result


def _shared(sets: ShingleSets, small: Ints, large: Ints) -> Ints:
    """How many shingles of ``small`` are in ``large``, by binary search in one sorted list."""
    np = arrays()
    counts = sets.sizes[small]
    codes = sets.elements[_runs(sets.offsets[small], counts)] & ((1 << sets.bits) - 1)
    wanted = (np.repeat(large, counts) << sets.bits) | codes
    places = np.searchsorted(sets.elements, wanted)
    found = sets.elements[np.minimum(places, len(sets.elements) - 1)] == wanted
    running = np.concatenate(([0], np.cumsum(found)))
    ends = np.cumsum(counts)
    shared: Ints = running[ends] - running[ends - counts]
    return shared
