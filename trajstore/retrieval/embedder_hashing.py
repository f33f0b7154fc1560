"""Vectors without a model: words and parts of words, hashed (Weinberger et al. 2009)."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.fingerprint import Fingerprint, hash_text
from trajstore.retrieval.words import segmented

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Vectors

_DIMENSION = 512
_PART = 4
_PART_WORTH = 0.5
_VERSION = "hashing-1"
_AT_ONCE = 1024


class HashingEmbedder:
    """Texts that share words, or beginnings and endings of words, get like vectors.

    It needs no model, no torch and no network, is the same on every machine, and knows no meaning:
    "car" and "automobile" are as unlike as any two words.
    """

    fingerprint = Fingerprint(
        model="hashing", weights=hash_text(_VERSION), dimension=_DIMENSION, normalised=True
    )

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Literal["document", "query"] = "document",
        progress: Callable[[int, int], None] | None = None,
    ) -> Vectors:
        """One unit vector of 512 numbers a text; see :class:`Embedder`."""
        del kind
        np = numpy()
        matrix: Vectors = np.zeros((len(texts), _DIMENSION), np.float32)
        for start in range(0, len(texts), _AT_ONCE):
            part = list(texts[start : start + _AT_ONCE])
            for row, words in enumerate(segmented(pa.array(part, pa.string()))):
                _fill(matrix[start + row], str(words) or part[row])
            if progress is not None:
                progress(min(start + _AT_ONCE, len(texts)), len(texts))
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        matrix /= np.where(norms > 0, norms, 1.0)
        return matrix


def _fill(vector: Vectors, words: str) -> None:
    """Add up the features: the square root of a count, with a sign so that collisions cancel."""
    for (feature, worth), count in Counter(_features(words)).items():
        code = zlib.crc32(feature.encode())
        sign = 1.0 if code >> 31 else -1.0
        vector[code % _DIMENSION] += sign * worth * count**0.5


def _features(words: str) -> Iterator[tuple[str, float]]:
    for word in words.split(" "):
        yield word, 1.0
        padded = f"^{word}$"
        for at in range(len(padded) - _PART + 1):
            yield padded[at : at + _PART], _PART_WORTH
