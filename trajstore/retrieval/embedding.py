"""Embed texts and refuse vectors that cannot be trusted."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trajstore.errors import RetrievalError
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.embedder import Embedder, Kind

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Vectors

_HEAD = 200
_FEW = 3
_SHARE = 0.05
_LENGTH_ERROR = 0.02


def embedded(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    kind: Kind = "document",
    names: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Vectors:
    """A unit vector for each text.

    Args:
        embedder: makes them.
        texts: each once.
        kind: documents or queries.
        names: of the records that the texts come from, for the message.
        progress: called with texts done and texts in all.

    Raises:
        RetrievalError: a vector is not finite, is zero or not of length 1; their number or length
            is not what it should be; or many different texts have one vector.
    """
    np = numpy()
    vectors = np.asarray(embedder.embed(texts, kind=kind, progress=progress), dtype=np.float32)
    model, width = embedder.fingerprint.model, embedder.fingerprint.dimension
    if vectors.shape != (len(texts), width):
        raise RetrievalError(
            f"The embedder '{model}' gave a matrix of {'x'.join(map(str, vectors.shape))} for "
            f"{len(texts)} texts; one of {len(texts)}x{width} was expected."
        )
    shown = list(texts if names is None else names)
    norms = np.linalg.norm(vectors, axis=1)
    for fault, bad in (
        ("numbers that are not finite", ~np.isfinite(vectors).all(axis=1)),
        ("zeros only", norms == 0),
        (f"a length other than 1 ({float(norms.max()) if len(norms) else 1:.3f})",
         np.abs(norms - 1) > _LENGTH_ERROR),
    ):  # fmt: skip
        if bad.any():
            raise RetrievalError(
                _complaint(model, f"vectors of {fault}", np.flatnonzero(bad), shown)
            )
    _refuse_alike(model, vectors, list(texts), shown)
    return vectors  # type: ignore[no-any-return]


def _refuse_alike(model: str, vectors: Vectors, texts: list[str], shown: list[str]) -> None:
    """Refuse where many texts that differ have the same vector: the model cannot read them."""
    np = numpy()
    if len(texts) < _FEW:
        return
    _, group, sizes = np.unique(vectors, axis=0, return_inverse=True, return_counts=True)
    largest = int(sizes.argmax())
    if sizes[largest] < max(_FEW, _SHARE * len(texts)):
        return
    places = np.flatnonzero(group == largest)
    heads: dict[str, int] = {}
    for place in places.tolist():
        heads.setdefault(_head(texts[place]), place)
    if len(heads) >= max(_FEW, _SHARE * len(texts)):
        what = f"one and the same vector for {len(heads)} different texts"
        hint = " It cannot read their script, or it is broken; use another model, or 'hashing'."
        raise RetrievalError(_complaint(model, what, list(heads.values()), shown) + hint)


def _head(text: str) -> str:
    """What a model without case and accents sees first; texts that differ later may be cut."""
    plain = unicodedata.normalize("NFKD", text[: 4 * _HEAD]).casefold()
    return "".join(c for c in plain if not unicodedata.combining(c) and not c.isspace())[:_HEAD]


def _complaint(model: str, what: str, places: Sequence[int], shown: list[str]) -> str:
    some = ", ".join(repr(shown[int(i)][:80]) for i in places[:3])
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return f"The embedder '{model}' gave {what}, for {some}{more}. Nothing of this batch was kept."
