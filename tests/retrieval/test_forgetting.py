"""Vacuum after a delete: nothing of the run is left in the index, the rest is found."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.retrieval.conftest import Fill, run
from trajstore.retrieval import forget_deleted

STONE = "zanzibarite"


def holding(folder: Path, text: str) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


def test_vacuum_after_a_delete_leaves_no_byte_of_the_run_in_the_index(fill: Fill) -> None:
    store = fill(run("a", f"polish the {STONE}"), run("b", "sweep the floor"))
    index = Path(store.root.uri) / "index"
    assert holding(index, STONE)
    store.delete("goal LIKE '%zanzibarite%'")
    store.vacuum(retention=timedelta(hours=999))
    assert not holding(index, STONE)
    assert not holding(Path(store.root.uri), STONE)


def test_the_others_keep_their_vectors_and_are_found_by_every_mode(fill: Fill) -> None:
    store = fill(run("a", "polish the brass"), run("b", "sweep the floor"), run("c", "wash up"))
    store.delete("goal = 'polish the brass'")
    store.vacuum()
    for mode in ("text", "vector", "hybrid"):
        assert store.search("sweep the floor", mode=mode).hits[0].task_id == "task/b"
    assert len(store.search("sweep the floor", mode="vector", k=9)) == 2
    assert store.index().encoded == 0


def test_a_store_without_an_index_has_nothing_to_forget(fill: Fill) -> None:
    assert forget_deleted(fill(run("a", "anything"), embedder=None)) == 0


def test_the_number_that_went_is_said(fill: Fill) -> None:
    store = fill(run("a", "polish the brass"), run("b", "sweep the floor"))
    store.delete("goal = 'polish the brass'")
    assert forget_deleted(store) == 3  # the run, and its two turns
    assert forget_deleted(store) == 0
