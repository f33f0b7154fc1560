"""Building: only what is new, in whole commits, and never another embedder's vectors."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.conftest import GOALS, Fill, run
from trajstore import Pool, Skill, Step
from trajstore import open as open_store
from trajstore.errors import RetrievalError, StoreFormatError
from trajstore.retrieval import embedder
from trajstore.retrieval.embedder import name_of

MODES = ["text", "vector", "hybrid"]


def found(store: Pool, text: str, **asked: Any) -> set[str]:
    return {h.item_id for h in store.search(text, k=99, **asked)}


def test_a_second_build_encodes_nothing(small: Pool) -> None:
    report = small.index()
    assert report.encoded == 0
    assert report.levels["trajectory"].unchanged == 5
    assert report.levels["step"].unchanged == 10


def test_equal_texts_are_encoded_once(fill: Fill) -> None:
    store = fill(*(run(f"r{n}", f"goal {n % 3}") for n in range(12)), embedder=None)
    assert store.index(embedder="hashing", levels=["trajectory"]).encoded == 3
    store.append([run(f"s{n}", f"goal {n % 4}") for n in range(4)])
    report = store.index(levels=["trajectory"]).levels["trajectory"]
    assert (report.added, report.encoded) == (4, 1)


@pytest.mark.parametrize("mode", MODES)
def test_rows_added_after_the_index_was_made_are_found(small: Pool, mode: str) -> None:
    small.append(run("new", "water the zinnias"))
    assert "new" not in found(small, "water the zinnias", mode=mode)
    small.index()
    assert small.search("water the zinnias", mode=mode)[0].item_id == "new"


@pytest.mark.parametrize("mode", MODES)
def test_an_index_that_began_empty_finds_what_came_later(fill: Fill, mode: str) -> None:
    store = fill()
    assert found(store, "goal", mode=mode) == set()
    store.append(run("a", "the goal"))
    store.index()
    assert found(store, "goal", mode=mode) == {"a"}


def test_what_is_not_indexed_yet_is_said(small: Pool) -> None:
    small.append([run("n1", "x"), run("n2", "y")])
    (note,) = small.search("flight").notes
    assert note.startswith("2 items are not indexed yet; `trajstore index")
    small.index()
    assert small.search("flight").notes == ()


def test_runs_without_a_text_are_no_items_and_no_note(fill: Fill) -> None:
    silent = run("silent", "")
    silent = replace(silent, goal=None, steps=(Step(actor="agent", text=None),))
    store = fill(silent, run("a", "goal"))
    assert found(store, "goal") == {"a"}
    assert store.search("goal").notes == ()


def test_a_run_without_a_goal_is_known_by_what_was_said_first(fill: Fill) -> None:
    store = fill(replace(run("a", "please sort the inbox"), goal=None))
    assert store.search("inbox")[0].text == "please sort the inbox"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("level", ["trajectory", "step"])
def test_what_is_deleted_is_gone_at_once(small: Pool, mode: str, level: str) -> None:
    small.delete("trajectory_id = 'flights'")
    hits = small.search("cancel the flight", mode=mode, level=level, k=99)
    assert "flights" not in {h.trajectory_id for h in hits}
    assert small.index().levels["trajectory"].removed == 1


def test_a_longer_version_takes_the_place_of_the_shorter(small: Pool) -> None:
    old = small.get("wood")
    assert old is not None
    longer = replace(
        old, goal="craft a stone table", steps=(*old.steps, Step(actor="user", text="ok"))
    )
    small.append(longer)
    assert "wood" not in found(small, "wooden planks")
    report = small.index().levels["trajectory"]
    assert (report.added, report.removed, report.encoded) == (1, 1, 1)
    assert small.search("stone table")[0].text == "craft a stone table"


@pytest.mark.parametrize("embedder_name", ["hashing", "none"])
def test_indexes_survive_many_rounds_of_change(fill: Fill, embedder_name: str) -> None:
    """Full-text and vector indexes of LanceDB failed after deletes and optimise elsewhere."""
    store = fill(embedder=embedder_name)
    there: set[str] = set()
    for n in range(8):
        new = [run(f"r{n}-{k}", f"sort parcel {n} {k}") for k in range(6)]
        store.append(new)
        there |= {r.trajectory_id for r in new}
        store.delete(f"trajectory_id = 'r{n}-3'")
        there -= {f"r{n}-3"}
        store.index()
        for mode in MODES if embedder_name == "hashing" else ["text"]:
            assert found(store, "sort parcel", mode=mode) == there


class Renamed:
    """The hashing embedder under another name."""

    def __init__(self, model: str) -> None:
        self._inner = embedder("hashing")
        self.fingerprint = replace(self._inner.fingerprint, model=model)
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], **how: Any) -> Any:
        self.texts += texts
        return self._inner.embed(texts, **how)


def test_another_embedder_is_an_error_that_names_the_command(small: Pool) -> None:
    other = Renamed("other")
    with pytest.raises(RetrievalError, match=r"was made by hashing.*not by other") as caught:
        small.search("flight", embedder=other)
    assert f"trajstore index {small.root.uri} --level trajectory --embedder other --rebuild" in str(
        caught.value
    )
    with pytest.raises(RetrievalError, match="--rebuild"):
        small.index(embedder=other)


def test_an_embedder_without_a_name_is_refused(fill: Fill) -> None:
    with pytest.raises(RetrievalError, match="An embedder needs a name: minilm"):
        fill(run("a", "fix"), embedder="")


def test_an_index_of_an_embedder_that_no_name_makes_says_to_give_it(fill: Fill) -> None:
    """The model's name would be looked for on the hub, by whoever searches without the object."""
    store = fill(*(run(n, g) for n, g in GOALS.items()), embedder=None)
    store.index(embedder=Renamed("other"), levels=["trajectory"])
    for ask in (lambda: store.search("flight"), lambda: store.index(levels=["trajectory"])):
        with pytest.raises(RetrievalError, match=r"'other'.*search\(text, embedder=it\)"):
            ask()
    assert len(store.search("flight", embedder=Renamed("other"))) == 5
    assert len(store.search("flight", mode="text")) == 1


@pytest.mark.parametrize("name", ["hashing", "none", "openai:m@http://127.0.0.1:9/v1", "a/folder"])
def test_an_embedder_is_found_again_by_what_it_says_of_itself(name: str) -> None:
    assert name_of(embedder(name)) == name


def test_a_rebuild_takes_another_embedder_and_removes_the_old_table(small: Pool) -> None:
    other = Renamed("other")
    small.index(embedder=other, rebuild=True)
    assert small.search("cancel the flight", embedder=other)[0].item_id == "flights"
    folder = Path(small.root.uri) / "index"
    assert len(list(folder.glob("trajectory-*.lance"))) == 1


class Stopped(Renamed):
    """Fails after so many texts."""

    def __init__(self, most: int) -> None:
        super().__init__("other")
        self.most = most

    def embed(self, texts: Sequence[str], **how: Any) -> Any:
        if len(self.texts) + len(texts) > self.most:
            raise KeyboardInterrupt
        return super().embed(texts, **how)


def test_a_stopped_rebuild_goes_on_and_the_old_index_serves(
    small: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trajstore.retrieval.items._RUNS_A_PART", 2)
    with pytest.raises(KeyboardInterrupt):
        small.index(embedder=Stopped(3), rebuild=True, levels=["trajectory"])
    assert len(found(small, "flight")) == 5
    rest = Renamed("other")
    small.index(embedder=rest, rebuild=True, levels=["trajectory"])
    assert len(rest.texts) == 3
    assert len(found(small, "flight", embedder=rest)) == 5


def test_a_stopped_first_build_keeps_what_it_did(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trajstore.retrieval.items._RUNS_A_PART", 2)
    store = fill(*(run(n, g) for n, g in GOALS.items()), embedder=None)
    with pytest.raises(KeyboardInterrupt):
        store.index(embedder=Stopped(4), levels=["trajectory"])
    assert store.index(embedder=Renamed("other"), levels=["trajectory"]).encoded == 1


def test_no_index_is_a_scan_with_a_note_and_no_vectors(fill: Fill) -> None:
    store = fill(*(run(n, g) for n, g in GOALS.items()), embedder=None)
    hits = store.search("flight to Boston")
    assert (hits.mode, hits[0].item_id) == ("text", "flights")
    assert "has no trajectory index. Make one with `trajstore index" in hits.notes[0]
    with pytest.raises(RetrievalError, match="has no trajectory index"):
        store.search("flight", mode="vector")


def _without_data(index: Path) -> None:
    for folder in index.glob("trajectory-*.lance"):
        shutil.rmtree(folder)


def _with_holes(index: Path) -> None:
    for file in index.glob("trajectory-*.lance/data/*"):
        file.write_bytes(b"")


def _garbled(index: Path) -> None:
    (index / "trajectory.json").write_text("{")


@pytest.mark.parametrize("damage", [_without_data, _with_holes, _garbled])
def test_a_damaged_index_falls_back_and_a_rebuild_mends_it(small: Pool, damage: Any) -> None:
    damage(Path(small.root.uri) / "index")
    store = open_store(small.root.uri)
    hits = store.search("cancel the flight")
    assert (hits.mode, hits[0].item_id) == ("text", "flights")
    assert "cannot be read" in hits.notes[0]
    with pytest.raises(RetrievalError, match="--level trajectory --rebuild"):
        store.search("cancel the flight", mode="hybrid")
    with pytest.raises(RetrievalError, match="cannot be read"):
        store.index(levels=["trajectory"])
    store.index(embedder="hashing", rebuild=True, levels=["trajectory"])
    assert store.search("cancel the flight").mode == "hybrid"


def test_a_newer_format_is_refused(small: Pool) -> None:
    file = Path(small.root.uri) / "index" / "trajectory.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(StoreFormatError, match="newer trajstore"):
        open_store(small.root.uri).search("flight")


def test_a_full_text_index_that_fails_is_scanned_around(
    small: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("batches of different length")

    monkeypatch.setattr("trajstore.retrieval.rows._WORD_BYTES", 0)
    monkeypatch.setattr("trajstore.retrieval.index_table.IndexTable.by_words", fail)
    hits = small.search("cancel the flight", mode="text")
    assert hits[0].item_id == "flights"
    assert "batches of different length" in hits.notes[0]


def test_a_read_only_store_is_searched(small: Pool) -> None:
    root = Path(small.root.uri)
    paths = [root, *root.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        store = open_store(root, create=False)
        assert store.search("cancel the flight")[0].item_id == "flights"
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_an_open_store_sees_what_another_handle_indexed(small: Pool) -> None:
    small.search("flight")
    other = open_store(small.root.uri)
    other.append(run("new", "water the zinnias"))
    other.index()
    assert small.search("zinnias")[0].item_id == "new"


def test_skills_are_searched_without_an_index_and_with_one(fill: Fill) -> None:
    store = fill(run("a", "x"))
    code = "def f(): pass"
    made = Skill(name="mineWood", code=code, language="python", source="t", description="mine wood")
    cook = replace(made, name="cook", code=code + " ", description="cook meat")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    store.add_skills([replace(s, verified_at=at) for s in (made, cook)])
    hits = store.search("mine some wood", level="skill")
    assert (hits.mode, hits[0].text.splitlines()[0]) == ("text", "mineWood")
    store.index(levels=["skill"], embedder="hashing")
    hits = store.search("mine some wood", level="skill")
    assert (hits.mode, hits[0].text.splitlines()[0]) == ("hybrid", "mineWood")


def test_progress_ends_with_all(small: Pool) -> None:
    small.append(run("new", "x"))
    seen: list[tuple[int, int]] = []
    small.index(progress=lambda done, of: seen.append((done, of)), levels=["trajectory"])
    assert seen == [(1, 1)]
