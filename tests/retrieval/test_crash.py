"""Builders that are killed at any moment, and builders that meet."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

import trajstore
from tests.retrieval import workers
from tests.retrieval.conftest import run
from trajstore import Pool


def check(store: Pool, *, complete: bool) -> None:
    """What is found is there; and all of it is found, in every mode, once the build is done."""
    alive = {i for listed in store.reader().ids() for i in listed}
    for mode in ("text", "vector", "hybrid"):
        ids = [h.item_id for h in store.search("sort parcel", mode=mode, k=10_000)]
        assert len(set(ids)) == len(ids)
        assert set(ids) <= alive
        if complete:
            assert set(ids) == alive


@pytest.mark.slow
def test_kills_at_any_moment_leave_an_index_that_is_right(tmp_path: Path) -> None:
    """Four of five are killed after their first append, however slow the machine starts them."""
    chance = random.Random(20261130)
    uri = str(tmp_path / "pool")
    trajstore.open(uri).index(embedder="hashing", levels=["trajectory"])
    commits = tmp_path / "pool/trajectories/_delta_log"
    for kill in range(25):
        before = len(list(commits.glob("*.json")))
        process = workers.start(workers.append_and_index_for_ever, uri, f"k{kill}")
        ends = time.monotonic() + 60
        while kill % 5 and len(list(commits.glob("*.json"))) == before and time.monotonic() < ends:
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 1.5))
        process.kill()
        process.join()
        check(trajstore.open(uri), complete=False)
        if kill % 5 == 4:
            store = trajstore.open(uri)
            store.index(levels=["trajectory"])
            check(store, complete=True)
            assert store.index(levels=["trajectory"]).encoded == 0
    assert trajstore.open(uri).sql("SELECT count(*) FROM trajectories").fetchall()[0][0] > 25


def test_a_kill_between_store_write_and_index_write_is_mended_by_the_next_build(
    tmp_path: Path,
) -> None:
    """The index's rows are written, and the file that says so is not."""
    store = trajstore.open(tmp_path / "pool")
    store.append(run("a", "sort parcel a"))
    store.index(embedder="hashing", levels=["trajectory"])
    pointer = tmp_path / "pool" / "index" / "trajectory.json"
    before = pointer.read_text()
    store.append(run("b", "sort parcel b"))
    store.index(levels=["trajectory"])
    pointer.write_text(before)
    store = trajstore.open(tmp_path / "pool")
    assert {h.item_id for h in store.search("parcel")} == {"a"}
    assert "1 items are not indexed yet" in store.search("parcel").notes[0]
    assert store.index(levels=["trajectory"]).encoded == 0
    assert {h.item_id for h in store.search("parcel")} == {"a", "b"}
    assert json.loads(pointer.read_text())["snapshot"] == store.snapshot()


@pytest.mark.slow
def test_builders_that_meet_index_each_item_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "pool")
    store = trajstore.open(uri)
    store.append([run(f"r{n}", f"sort parcel {n}") for n in range(40)])
    builders = [workers.start(workers.index_once, uri) for _ in range(3)]
    for builder in builders:
        builder.join()
        assert builder.exitcode == 0
    check(store, complete=True)
    report = store.index().levels["trajectory"]
    assert (report.items, report.added, report.encoded) == (40, 0, 0)


def test_a_search_goes_on_while_another_process_builds(tmp_path: Path) -> None:
    uri = str(tmp_path / "pool")
    store = trajstore.open(uri)
    store.append([run(f"r{n}", f"sort parcel {n}") for n in range(20)])
    store.index(embedder="hashing", levels=["trajectory"])
    builder = workers.start(workers.append_and_index_for_ever, uri, "b")
    end = time.monotonic() + 2
    try:
        while time.monotonic() < end:
            check(store, complete=False)
    finally:
        builder.kill()
        builder.join()
