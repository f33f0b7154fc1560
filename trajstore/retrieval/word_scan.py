"""BM25 over words in memory: each distinct text once, as many times as rows have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.stemming import plain_form

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Doubles, Ints

_K1, _B = 1.2, 0.75


class WordScan:
    """Texts cut into words, ready to score (Robertson and Zaragoza 2009; k1 1.2, b 0.75).

    Twelve bytes for each distinct word of a text; a score costs a few additions for each text that
    holds the word, where a search through files takes tens of milliseconds.
    """

    def __init__(self, words: pa.Array, rows: Ints | None = None) -> None:
        """Count the words of each text.

        Args:
            words: texts from :func:`trajstore.retrieval.words.segmented`.
            rows: how many rows have each text; one where None.
        """
        np = numpy()
        lists = pc.utf8_split_whitespace(words)
        real = pc.not_equal(lists.flatten(), "")  # a text without words splits into one of nothing
        texts = pc.list_parent_indices(lists).filter(real).to_numpy()
        coded = pc.dictionary_encode(lists.flatten().filter(real))
        self._vocabulary, forms = _forms(coded.dictionary)
        codes = forms[coded.indices.to_numpy()]
        self._size = size = max(1, len(words))
        pairs, counts = np.unique(codes * size + texts, return_counts=True)
        self._texts = (pairs % size).astype(np.int32)
        self._starts = np.searchsorted(pairs // size, np.arange(len(self._vocabulary) + 1))
        self._rows = np.ones(len(words)) if rows is None else np.asarray(rows, np.float64)
        self._total = float(self._rows.sum())
        lengths = np.bincount(texts, minlength=len(words)).astype(np.float64)
        mean = max(1.0, float((lengths * self._rows).sum()) / max(1.0, self._total))
        long = _K1 * (1 - _B + _B * lengths / mean)
        self._worth = counts * (_K1 + 1) / (counts + long[self._texts])

    def scores(self, words: list[str]) -> Doubles:
        """BM25 of every text for the words, forms of one word counting once."""
        np = numpy()
        scores: Doubles = np.zeros(len(self._rows))
        asked = pa.array(list(dict.fromkeys(plain_form(w) for w in words)), pa.string())
        places = pc.index_in(asked, value_set=self._vocabulary).drop_null()
        for code in places.to_numpy():
            part = slice(int(self._starts[code]), int(self._starts[code + 1]))
            texts = self._texts[part]
            holding = float(self._rows[texts].sum())
            rarity = np.log1p((self._total - holding + 0.5) / (holding + 0.5))
            scores[texts] += rarity * self._worth[part]
        return scores


def _forms(vocabulary: pa.Array) -> tuple[pa.Array, Ints]:
    """The distinct plain forms of some words, and the number of the form of each word."""
    np = numpy()
    listed = [plain_form(w) for w in _strings(vocabulary)]
    coded = pa.array(listed, pa.string()).dictionary_encode()
    numbers: Ints = coded.indices.to_numpy().astype(np.int64)
    return coded.dictionary, numbers


def _strings(vocabulary: pa.Array) -> list[str]:
    """The words of a vocabulary, each once."""
    words: list[str] = vocabulary.to_pylist()
    return words
