"""Above the size for exact search: the vector index proposes, and nothing is missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.retrieval.conftest import Fill, run
from trajstore import Pool
from trajstore import open as open_store
from trajstore.retrieval import Weights, embedder
from trajstore.retrieval.view import searcher

ONLY = Weights(similarity=1, success=0, recency=0, efficiency=0)
SIZE = 600
WORDS = ["fix", "cancel", "craft", "book", "date", "flight", "table", "room", "test", "plan"]


def goal(n: int) -> str:
    return f"{WORDS[n % 10]} {WORDS[n // 10 % 10]} the {WORDS[n // 100]} of order {n}"


@pytest.fixture
def large(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> Pool:
    """A store that is large for a bound of 200 texts."""
    for module in ("index_table", "rows"):
        monkeypatch.setattr(f"trajstore.retrieval.{module}.EXACT_ROWS", 200)
    monkeypatch.setattr("trajstore.retrieval.index_table._SCALAR_ROWS", 200)
    monkeypatch.setattr("trajstore.retrieval.rows._WORD_BYTES", 0)
    monkeypatch.setattr("trajstore.retrieval.candidates._NAMED", 4)
    monkeypatch.setattr(sys.modules["trajstore.retrieval.search"], "_READ", 10)
    runs = [run(f"r{n:03}", goal(n), environment=f"e{n % 8}") for n in range(SIZE)]
    return fill(*runs, levels=["trajectory"])


def test_vectors_and_words_stay_on_disk_behind_indexes(large: Pool) -> None:
    rows = searcher(large).view(large.reader(), "trajectory", need_index=True).rows
    assert rows.matrix is None
    assert rows.word_scan is None
    assert rows.index is not None
    found = {i.columns[0]: i.index_type for i in rows.index._table.list_indices()}
    assert found == {"words": "FTS", "vector": "IvfSq", "revision": "BTree", "text_key": "BTree"}


def test_words_on_disk_and_in_memory_find_the_same(
    large: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        (h.item_id, h.parts["bm25"]) for h in large.search("flights booked", mode="text", k=50)
    ]
    monkeypatch.setattr("trajstore.retrieval.rows._WORD_BYTES", 1 << 20)
    again = open_store(large.root.uri).search("flights booked", mode="text", k=50)
    assert [i for i, _ in asked] == [h.item_id for h in again]
    assert [s for _, s in asked] == pytest.approx([h.parts["bm25"] for h in again], abs=1e-5)


@pytest.mark.parametrize("environment", [None, "e3"])
def test_the_nearest_are_found(large: Pool, environment: str | None) -> None:
    model = embedder("hashing")
    matrix = model.embed([goal(n) for n in range(SIZE)])
    places = [n for n in range(SIZE) if environment in {None, f"e{n % 8}"}]
    found = expected = 0
    for n in range(0, SIZE, 60):
        best = np.sort(matrix[places] @ model.embed([f"{goal(n)} now"])[0])[::-1][:5]
        hits = large.search(f"{goal(n)} now", mode="vector", environment=environment, weights=ONLY)
        found += sum(h.score >= best[-1] - 1e-5 for h in hits)
        expected += len(best)
    assert found / expected >= 0.95


@pytest.mark.parametrize("where", ["true", "trajectory_id < 'r030'", "trajectory_id = 'r599'"])
@pytest.mark.parametrize("k", [5, 599, 700])
def test_k_come_back_whenever_k_fit(large: Pool, where: str, k: int) -> None:
    fits = {"true": SIZE, "trajectory_id < 'r030'": 30}.get(where, 1)
    for mode in ("vector", "hybrid"):
        assert len(large.search("fix the flight", mode=mode, k=k, where=where)) == min(k, fits)


def test_hits_have_their_texts_and_mmr_its_vectors(large: Pool) -> None:
    hits = large.search(goal(77), k=4, mmr=0.5)
    assert hits[0].text == goal(77)
    assert len({h.text for h in hits}) == 4


def test_what_is_deleted_and_added_since_is_seen(large: Pool) -> None:
    large.delete("trajectory_id = 'r077'")
    assert "r077" not in {h.item_id for h in large.search(goal(77), mode="vector")}
    large.append(run("new", goal(77)))
    large.index(levels=["trajectory"])
    assert large.search(goal(77), mode="vector")[0].item_id == "new"


def test_texts_too_many_to_hold_are_read_from_disk(
    large: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trajstore.retrieval.rows._TEXT_BYTES", 1)
    assert large.search(goal(5))[0].text == goal(5)
