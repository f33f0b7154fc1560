"""Kernels over sequences of words: how like each strategy is to each other one. Needs NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trajstore.filters.kernels import EVERY
from trajstore.filters.shingles import ShingleSets, arrays, mixed, shingle_sets

if TYPE_CHECKING:
    from trajstore.filters.kernels import Floats, Places
    from trajstore.filters.shingles import Hashes, Ints

_DENSE = 1024
"""Up to this many distinct bigrams a matrix product counts the shared ones faster than lists."""

_MOST_COLUMNS = 4096


def _codes(words: pa.Array) -> pa.Array:
    """Words as numbers from 1 on: lists of ``uint64``."""
    numbers = words.flatten().dictionary_encode().indices.cast(pa.uint64())
    values = arrays().asarray(numbers) + arrays().uint64(1)
    lengths = words.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = arrays().concatenate(([0], arrays().cumsum(lengths)))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, pa.uint64()))


class Bigrams:
    """Jaccard similarity of the padded bigrams of sequences, 0 to 1; of two empty ones it is 1."""

    def __init__(self, words: pa.Array) -> None:
        """Take the bigrams of each sequence.

        Args:
            words: a list of strings an item; null counts as empty.
        """
        self._set_up(shingle_sets(_codes(words), 2))

    def _set_up(self, sets: ShingleSets) -> None:
        self._sets, self.size = sets, len(sets)
        self._counts = sets.sizes.astype(arrays().float32)
        self._index: _Dense | _Lists | None = None

    def block(self, rows: Places, columns: slice = EVERY) -> Floats:
        """Shared bigrams over all bigrams of the two."""
        np = arrays()
        shared = self._shared(rows, columns)
        union = self._counts[rows][:, None] + self._counts[columns]
        union -= shared
        both_empty = union == 0
        np.divide(shared, union, out=shared, where=~both_empty)
        shared[both_empty] = 1.0
        similarities: Floats = shared
        return similarities

    def _shared(self, rows: Places, columns: slice) -> Any:
        if self._index is None:
            known = len(arrays().unique(self._sets.codes))
            self._index = _Dense(self._sets) if known <= _DENSE else _Lists(self._sets)
        return self._index.shared(rows, columns)

    def vectors(self) -> Floats:
        """A profile of each sequence, of length 1: which of the bigrams it has.

        One column a bigram, the most frequent first, up to 4096 of them.
        """
        np = arrays()
        table = _table(self._sets, _MOST_COLUMNS)
        norms = np.linalg.norm(table, axis=1, keepdims=True)
        profiles: Floats = table / np.maximum(norms, 1.0)
        return profiles

    def keys(self) -> Hashes:
        """A number for each sequence; two are equal just where the bigrams are (similarity 1)."""
        np = arrays()
        running = np.zeros(len(self._sets.codes) + 1, np.uint64)
        np.cumsum(mixed(self._sets.hashes)[self._sets.codes], out=running[1:])
        keys: Hashes = running[self._sets.offsets[1:]] - running[self._sets.offsets[:-1]]
        return keys

    def take(self, places: Ints) -> Bigrams:
        """The bigrams of some sequences."""
        np = arrays()
        sets = self._sets
        parts = [sets.elements[sets.offsets[p] : sets.offsets[p + 1]] for p in places]
        sizes = [len(p) for p in parts]
        owners = np.repeat(np.arange(len(parts)), sizes) << sets.bits
        elements = np.concatenate([sets.elements[:0], *parts]) & ((1 << sets.bits) - 1)
        offsets = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        part = object.__new__(Bigrams)
        part._set_up(ShingleSets(offsets, elements | owners, sets.hashes, sets.bits))
        return part


class _Dense:
    """Which sequence has which bigram, as a matrix of 0 and 1."""

    def __init__(self, sets: ShingleSets) -> None:
        self._has = _table(sets)

    def shared(self, rows: Places, columns: slice) -> Any:
        return self._has[rows] @ self._has[columns].T


class _Lists:
    """For each bigram the sequences that have it."""

    def __init__(self, sets: ShingleSets) -> None:
        np = arrays()
        known, codes = np.unique(sets.codes, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        self._offsets, self._codes = sets.offsets, codes
        self._owners = (sets.elements >> sets.bits)[order]
        self._starts = np.searchsorted(codes[order], np.arange(len(known) + 1))
        self._all = np.arange(len(sets))

    def shared(self, rows: Places, columns: slice) -> Any:
        np = arrays()
        found = np.zeros((len(self._all[rows]), len(self._all)), np.float32)
        for row, place in zip(found, self._all[rows], strict=True):
            for code in self._codes[self._offsets[place] : self._offsets[place + 1]]:
                row[self._owners[self._starts[code] : self._starts[code + 1]]] += 1.0
        return found[:, columns]


def _table(sets: ShingleSets, most: int | None = None) -> Any:
    """1 where a sequence has a bigram; only the ``most`` bigrams that occur most often."""
    np = arrays()
    known, codes, counts = np.unique(sets.codes, return_inverse=True, return_counts=True)
    rank = np.empty(len(known), np.int64)
    rank[np.lexsort((sets.hashes[known], -counts))] = np.arange(len(known))
    size = len(known) if most is None else min(most, len(known))
    table = np.zeros((len(sets), size), np.float32)
    common = rank[codes] < size
    table[(sets.elements >> sets.bits)[common], rank[codes][common]] = 1.0
    return table


class Edits:
    """1 minus the Levenshtein distance over the longer length, 0 to 1; of two empty ones it is 1.

    A row takes time in proportion to the length of its sequence and to all lengths together.
    """

    def __init__(self, words: pa.Array) -> None:
        """Keep the sequences as numbers.

        Args:
            words: a list of strings an item; null counts as empty.
        """
        np = arrays()
        codes = _codes(words)
        lengths = np.diff(codes.offsets.to_numpy())
        table = np.zeros((len(lengths), int(lengths.max(initial=0))), np.int32)
        table[np.arange(table.shape[1]) < lengths[:, None]] = codes.values.to_numpy()
        self._set_up(table, lengths)

    def _set_up(self, table: Ints, lengths: Ints) -> None:
        self._table, self._lengths = table, lengths
        self.size: int = len(lengths)

    def block(self, rows: Places, columns: slice = EVERY) -> Floats:
        """Similarities by dynamic programming, one row to all columns at once."""
        np = arrays()
        lengths = self._lengths[columns]
        found = np.empty((len(self._lengths[rows]), len(lengths)))
        for row, place in zip(found, np.arange(self.size)[rows], strict=True):
            own = self._table[place, : self._lengths[place]]
            longer = np.maximum(len(own), lengths)
            row[:] = 1.0 - self._distances(own, columns) / np.maximum(longer, 1)
        similarities: Floats = found
        return similarities

    def _distances(self, own: Ints, columns: slice) -> Any:
        np = arrays()
        others = self._table[columns]
        ramp = np.arange(others.shape[1] + 1, dtype=np.int32)
        before = np.broadcast_to(ramp, (len(others), len(ramp)))
        for at, code in enumerate(own, 1):
            row = np.empty_like(before)
            row[:, 0] = at
            np.minimum(before[:, 1:] + 1, before[:, :-1] + (others != code), out=row[:, 1:])
            # An insertion costs 1 a place, so the best one is a running minimum along the row.
            row -= ramp
            np.minimum.accumulate(row, axis=1, out=row)
            row += ramp
            before = row
        return before[np.arange(len(others)), self._lengths[columns]]

    def take(self, places: Ints) -> Edits:
        """The distances of some sequences."""
        part = object.__new__(Edits)
        lengths = self._lengths[places]
        part._set_up(self._table[places, : int(lengths.max(initial=0))], lengths)
        return part
