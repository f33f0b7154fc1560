"""Which of many sets are alike: all pairs above a threshold, and one representative for each set.

MinHash proposes (:mod:`.minhash`), exact Jaccard similarity decides (:mod:`.shingles`). So nothing
unlike is ever reported; what is alike is missed with the small chance that
:class:`~trajstore.filters.minhash.Bands` names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trajstore.filters.minhash import Bands, Buckets, buckets, choose_bands
from trajstore.filters.shingles import ShingleSets, arrays, jaccard

if TYPE_CHECKING:
    from trajstore.filters.shingles import Bools, Doubles, Hashes, Ints

_PAIRS_AT_ONCE = 2**18
_TOLERANCE = 1e-12


def similar_pairs(
    sets: ShingleSets,
    threshold: float,
    *,
    bands: Bands | None = None,
    scope: Ints | None = None,
    apart: Ints | None = None,
    seed: int = 0,
) -> tuple[Ints, Ints, Doubles]:
    """All pairs of sets at or above a Jaccard similarity.

    Every pair is held in memory, so this is for listing and checking; to keep one of each, ask for
    :func:`representatives`, which needs memory for the sets only.

    Args:
        sets: the sets; empty ones are like nothing.
        threshold: least similarity, above 0 and up to 1, the threshold itself included.
        bands: how to propose pairs; chosen for the threshold where None.
        scope: a number for each set; only sets of one scope are compared.
        apart: a number for each set; only pairs whose numbers differ are looked for.
        seed: of the hash functions.

    Returns:
        Three columns ordered by the first two: the smaller number of the pair, the larger, their
        similarity.
    """
    np = arrays()
    proposed = buckets(sets, bands or choose_bands(threshold), scope=scope, seed=seed)
    fits = _Fits(sets, threshold)
    found: list[Ints] = [np.zeros(0, np.int64)]
    for left, right in proposed.pairs():
        if apart is not None:
            asked = apart[left] != apart[right]
            left, right = left[asked], right[asked]  # noqa: PLW2901
        for start in range(0, len(left), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            can = fits(left[part], right[part])
            found.append(left[part][can] * len(sets) + right[part][can])
    codes = np.unique(np.concatenate(found))
    left, right = codes // max(1, len(sets)), codes % max(1, len(sets))
    similarity = jaccard(sets, left, right)
    alike = similarity >= threshold - _TOLERANCE
    return left[alike], right[alike], similarity[alike]


class _Fits:
    """Says fast which pairs cannot reach a threshold; it is never wrong about a pair that does.

    A set of sizes ``a`` can share at most the smaller size. A short bitmap of each set bounds it
    further: what two sets share falls on bits that both have, and elements that fall on a bit which
    an earlier one of their set has taken are counted as shared.
    """

    def __init__(self, sets: ShingleSets, threshold: float) -> None:
        np = arrays()
        self._sizes = sets.sizes
        self._least = threshold / (1.0 + threshold)
        mean = len(sets.elements) / max(1, len(sets))
        words = int(min(16, max(1, 2 ** np.ceil(np.log2(max(1.0, mean) / 8)))))
        bit = sets.hashes[sets.codes] >> np.uint64(32)
        owner = sets.elements >> sets.bits
        self._maps = np.zeros((len(sets), words), np.uint64)
        place = (owner, ((bit >> np.uint64(6)) % np.uint64(words)).astype(np.int64))
        np.bitwise_or.at(self._maps, place, np.uint64(1) << (bit & np.uint64(63)))
        taken = np.bitwise_count(self._maps).sum(axis=1, dtype=np.int64)
        self._doubled = self._sizes - taken

    def __call__(self, left: Ints, right: Ints) -> Bools:
        """Whether each pair may reach the threshold."""
        np = arrays()
        common = self._maps[left] & self._maps[right]
        bits = np.bitwise_count(common).sum(axis=1, dtype=np.int64)
        shared = bits + np.minimum(self._doubled[left], self._doubled[right])
        np.minimum(shared, np.minimum(self._sizes[left], self._sizes[right]), out=shared)
        may: Bools = shared >= self._least * (self._sizes[left] + self._sizes[right]) - _TOLERANCE
        return may


def representatives(
    sets: ShingleSets,
    threshold: float,
    *,
    bands: Bands | None = None,
    scope: Ints | None = None,
    seed: int = 0,
) -> tuple[Ints, Doubles]:
    """One representative for each set; the sets come in order of preference, the best first.

    A set is kept unless a kept set before it is like it. So every set that is not kept has a
    representative that is, at or above the threshold; nothing goes because of a chain of
    likenesses. The answer depends on the sets and their order of preference alone.

    Args:
        sets: the best first; empty ones are like nothing and are kept.
        threshold: least Jaccard similarity, above 0 and up to 1, the threshold itself included.
        bands: how to propose pairs; chosen for the threshold where None.
        scope: a number for each set; only sets of one scope are compared.
        seed: of the hash functions.

    Returns:
        For each set the number of its representative, its own where it is kept; and the similarity
        of the two, 1 where it is kept.
    """
    np = arrays()
    chosen = np.arange(len(sets))
    similarity = np.ones(len(sets))
    first = _equal(sets, scope)
    twins = first != chosen
    open_ = buckets(sets, bands or choose_bands(threshold), scope=scope, seed=seed).without(twins)
    fits = _Fits(sets, threshold)
    while len(open_.member):
        kept, left, right = _next(open_, len(sets))
        decided = kept.copy()
        for start in range(0, len(left), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            can = fits(left[part], right[part])
            ours, theirs = left[part][can], right[part][can]
            like = jaccard(sets, ours, theirs)
            alike = like >= threshold - _TOLERANCE
            ours, theirs, like = ours[alike][::-1], theirs[alike][::-1], like[alike][::-1]
            better = ~decided[theirs]
            chosen[theirs[better]], similarity[theirs[better]] = ours[better], like[better]
            decided[theirs] = True
        open_ = open_.without(decided)
    chosen[twins], similarity[twins] = chosen[first[twins]], similarity[first[twins]]
    return chosen, similarity


def _next(open_: Buckets, sets: int) -> tuple[Bools, Ints, Ints]:
    """The sets that are certain to be kept, and whom to compare each of them with.

    A set is certain once it is the best of every bucket that it is in: nobody is left who could be
    its representative.

    Returns:
        A mask of those sets; pairs of one of them and a set that shares a bucket with it, each pair
        once, in order of the first, then the second.
    """
    np = arrays()
    new = np.concatenate(([True], open_.bucket[1:] != open_.bucket[:-1]))
    best = open_.member[np.flatnonzero(new)][np.cumsum(new) - 1]
    certain = np.zeros(sets, bool)
    certain[open_.member] = True
    certain[open_.member[~new]] = False
    behind = certain[best] & ~new
    codes = np.unique(best[behind] * sets + open_.member[behind])
    return certain, codes // max(1, sets), codes % max(1, sets)


def _equal(sets: ShingleSets, scope: Ints | None) -> Ints:
    """For each set the first one of its scope that is equal to it; empty sets equal nothing."""
    np = arrays()
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(sets.hashes[sets.codes])))
    keys: Hashes = sums[sets.offsets[1:]] - sums[sets.offsets[:-1]]
    own = np.arange(len(sets))
    group = np.zeros(len(sets), np.int64) if scope is None else scope
    order = np.lexsort((own, keys, sets.sizes, group))
    same = np.ones(len(sets), bool)
    for column in (keys, sets.sizes, group):
        same[1:] &= column[order][1:] == column[order][:-1]
    same[:1] = False
    start = np.flatnonzero(~same)[np.cumsum(~same) - 1]
    first: Ints = np.empty(len(sets), np.int64)
    first[order] = order[start]
    first = np.where(sets.sizes > 0, first, own)
    others = np.flatnonzero(first != own)
    wrong = others[jaccard(sets, first[others], others) < 1.0]
    first[wrong] = wrong
    return first
