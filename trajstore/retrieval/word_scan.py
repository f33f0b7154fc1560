"""BM25 over words in memory: full text where there is no index to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.retrieval.arrays import numpy

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Doubles

_K1, _B = 1.2, 0.75


class WordScan:
    """Texts cut into words, ready to score (Robertson and Zaragoza 2009; k1 1.2, b 0.75)."""

    def __init__(self, words: pa.Array) -> None:
        """Count the words of each text.

        Args:
            words: texts from :func:`trajstore.retrieval.words.segmented`.
        """
        np = numpy()
        lists = pc.utf8_split_whitespace(words)
        real = pc.not_equal(lists.flatten(), "")  # a text without words splits into one of nothing
        texts = pc.list_parent_indices(lists).filter(real).to_numpy()
        coded = pc.dictionary_encode(lists.flatten().filter(real))
        codes = coded.indices.to_numpy()
        self._size = len(words)
        self._vocabulary = coded.dictionary
        self._lengths = np.bincount(texts, minlength=self._size).astype(np.float64)
        pairs, self._counts = np.unique(
            codes.astype(np.int64) * self._size + texts, return_counts=True
        )
        self._texts = pairs % max(1, self._size)
        self._starts = np.searchsorted(
            pairs // max(1, self._size), np.arange(len(coded.dictionary) + 1)
        )

    def scores(self, words: list[str]) -> Doubles:
        """BM25 of every text for the words; 0 where it holds none of them."""
        np = numpy()
        scores: Doubles = np.zeros(self._size)
        mean = max(1.0, float(self._lengths.mean())) if self._size else 1.0
        places = pc.index_in(pa.array(words, pa.string()), value_set=self._vocabulary).drop_null()
        for code in places.to_numpy():
            part = slice(int(self._starts[code]), int(self._starts[code + 1]))
            texts, counts = self._texts[part], self._counts[part]
            rarity = np.log1p((self._size - len(texts) + 0.5) / (len(texts) + 0.5))
            long = _K1 * (1 - _B + _B * self._lengths[texts] / mean)
            scores[texts] += rarity * counts * (_K1 + 1) / (counts + long)
        return scores
