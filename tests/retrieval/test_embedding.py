"""Vectors that cannot be trusted are refused, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from trajstore.errors import RetrievalError
from trajstore.retrieval import Embedder, Fingerprint, embedder
from trajstore.retrieval.embedding import embedded

TEXTS = [f"text number {n} about {w}" for n, w in enumerate(["cats", "dogs", "cows", "hens"] * 3)]


class Fixed:
    """Gives the vectors that it was made with."""

    def __init__(self, vectors: Any) -> None:
        self._vectors = np.array(vectors, np.float32)
        self.fingerprint = Fingerprint(
            model="broken-model", weights="0", dimension=3, normalised=True
        )

    def embed(self, texts: Sequence[str], **_: object) -> Any:
        return self._vectors[: len(texts)]


def rows(*odd: Sequence[float]) -> list[Sequence[float]]:
    angles = [n / 10 for n in range(len(TEXTS))]
    return [*odd, *([np.cos(a), np.sin(a), 0.0] for a in angles)]


FAULTS = {
    "nan": ([np.nan, 0, 1], "numbers that are not finite"),
    "infinite": ([np.inf, 0, 1], "numbers that are not finite"),
    "zero": ([0, 0, 0], "zeros only"),
    "long": ([2, 0, 0], "a length other than 1"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_vector_is_refused_with_model_and_record(name: str) -> None:
    vector, complaint = FAULTS[name]
    with pytest.raises(RetrievalError, match="broken-model") as caught:
        embedded(Fixed(rows(vector)), TEXTS, names=[f"r{n}" for n in range(len(TEXTS))])
    assert complaint in str(caught.value)
    assert "'r0'" in str(caught.value)
    assert "'r1'" not in str(caught.value)


def test_one_vector_for_many_different_texts_is_refused() -> None:
    same = [[1.0, 0.0, 0.0]] * len(TEXTS)
    with pytest.raises(RetrievalError, match="one and the same vector for 12 different texts"):
        embedded(Fixed(same), TEXTS)


def test_texts_that_a_model_cannot_tell_apart_may_share_a_vector() -> None:
    cased = ["Fix it", "fix it", "FIX IT", "fíx it", *TEXTS[:4]]
    vectors = [[0.0, 0.0, 1.0]] * 4 + rows()[:4]
    assert len(embedded(Fixed(vectors), cased)) == 8


def test_a_wrong_number_of_vectors_is_refused() -> None:
    with pytest.raises(RetrievalError, match="matrix of 3x3 for 12 texts"):
        embedded(Fixed(np.eye(3)), TEXTS)


@pytest.mark.parametrize("text", ["", "!!!", "字", "🚀", "\x00", "a" * 100_000], ids=range(6))
def test_hashing_gives_a_unit_vector_for_any_text(text: str) -> None:
    vector = embedder("hashing").embed([text])[0]
    assert abs(float(np.linalg.norm(vector)) - 1.0) < 1e-5


def test_hashing_finds_shared_words_more_alike_than_others() -> None:
    query, near, far = embedder("hashing").embed(["fix tests", "fixing a test", "bake bread"])
    assert query @ near > 0.3 > abs(query @ far)


def test_hashing_is_the_same_everywhere() -> None:
    vector = embedder("hashing").embed(["stable"])[0]
    assert np.flatnonzero(vector).tolist() == [112, 151, 184, 328, 406, 483]


def test_every_embedder_keeps_the_protocol() -> None:
    for name in ("hashing", "none", "minilm", "openai:m@http://localhost:1/v1"):
        assert hasattr(embedder(name), "embed"), name
    assert isinstance(embedder("hashing"), Embedder)


def test_a_name_of_nothing_is_refused() -> None:
    with pytest.raises(RetrievalError, match="needs a name: minilm, hashing"):
        embedder(" ")


def test_none_refuses_to_embed() -> None:
    with pytest.raises(RetrievalError, match="searched by words alone"):
        embedder("none").embed(["x"])


def test_progress_counts_up_to_all() -> None:
    seen: list[tuple[int, int]] = []
    embedder("hashing").embed(["x"] * 1500, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1024, 1500), (1500, 1500)]
