"""An index on S3, against a real S3 server on loopback."""

from __future__ import annotations

import pytest

import trajstore
from tests.retrieval.conftest import run
from tests.store.test_s3 import options, server

pytest.importorskip("moto")
pytest.importorskip("s3fs")
__all__ = ["options", "server"]


@pytest.mark.slow
def test_an_index_lies_beside_a_store_on_s3(options: dict[str, str]) -> None:
    uri = "s3://bucket-of-runs/indexed"
    store = trajstore.open(uri, storage_options=options)
    store.append([run("a", "cancel the flight"), run("b", "bake some bread")])
    store.index(embedder="hashing", levels=["trajectory"])
    for mode in ("text", "vector", "hybrid"):
        assert store.search("flight", mode=mode)[0].item_id == "a"
    other = trajstore.open(uri, storage_options=options, create=False)
    other.append(run("c", "water the zinnias"))
    assert other.index(levels=["trajectory"]).encoded == 1
    assert store.search("zinnias")[0].item_id == "c"
    other.delete("trajectory_id = 'a'")
    assert {h.item_id for h in store.search("flight")} == {"b", "c"}
