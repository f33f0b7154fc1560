"""What was drawn from a run goes with it: by retraction, and by deletion to the last byte."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.conftest import draft
from tests.retrieval.conftest import run
from trajstore import Pool, Skill
from trajstore import open as open_store
from trajstore.memory import (
    Insights,
    Reflections,
    SkillDraft,
    SkillLibrary,
    forget_runs,
    record_uses,
    retract,
)
from trajstore.schema import Insight, Use, Workflow

STONE = "zanzibarite"


def drawn(name: str, value: str, *runs: str) -> SkillDraft:
    """A skill that some runs speak for."""
    return replace(draft(name, value), trajectory_ids=runs)


@pytest.fixture
def taught(store: Pool) -> Pool:
    """Two runs, and one item of each kind from run a, and one from both."""
    failed = {"success": False}
    store.append([run("a", "polish the brass", **failed), run("b", "sweep the floor", **failed)])
    reflections = Reflections(store)
    reflections.add(f"{STONE} scratches", trajectory_id="a")
    reflections.add("mind the corners", trajectory_id="b")
    flow = {"steps": "[]", "source": "test"}
    store.add_workflows(
        [
            Workflow(name=f"polish {STONE}", trajectory_ids=("a",), **flow),
            Workflow(name="clean", trajectory_ids=("a", "b"), **flow),
        ]
    )
    store.add_insights(
        [
            Insight(text=f"never {STONE}", kind="rule", source="test", trajectory_ids=("a",)),
            Insight(text="be slow", kind="rule", source="test", trajectory_ids=("a", "b")),
        ]
    )
    lua = {"language": "lua", "source": "test"}
    store.add_skills(
        [
            Skill(name="polish", code=STONE, trajectory_ids=("a",), **lua),
            Skill(name="sweep", code="x", trajectory_ids=("a", "b"), **lua),
            Skill(name="old", code="y", **lua),
        ]
    )
    store.add_uses([Use(trajectory_id=r, kind="skill", item_id="old@1") for r in ("a", "b")])
    return store


def holding(folder: Path, text: str) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


def test_a_delete_removes_what_was_drawn_from_the_run_alone_and_says_how_many(taught: Pool) -> None:
    done = taught.delete("trajectory_id = 'a'")
    each = {"reflections": 1, "workflows": 1, "insights": 1, "skills": 1, "uses": 1}
    assert done.memory_removed == each
    assert done.memory_stale == {"workflows": 1, "insights": 1, "skills": 1}
    assert taught.memory("reflections").column("text").to_pylist() == ["mind the corners"]
    assert sorted(taught.memory("skills").column("name").to_pylist()) == ["old", "sweep"]
    assert taught.memory("uses").column("trajectory_id").to_pylist() == ["b"]


def test_vacuum_after_the_delete_leaves_no_byte_of_it(taught: Pool) -> None:
    root = Path(taught.root.uri)
    taught.index(embedder="hashing", levels=["reflection", "workflow", "insight"])
    assert holding(root, STONE)
    taught.delete("trajectory_id = 'a'")
    assert [h.text for h in taught.search(STONE, level="reflection", k=9)] == ["mind the corners"]
    taught.vacuum(retention=timedelta(hours=999))
    assert not holding(root, STONE)
    again = open_store(root)
    assert again.memory("reflections").num_rows == 1
    assert len(again.search("corners", level="reflection", mode="hybrid")) == 1


def test_what_others_speak_for_too_is_not_served_and_forgets_the_run(taught: Pool) -> None:
    taught.delete("trajectory_id = 'a'")
    rows = {n: taught.memory(n).to_pylist() for n in ("workflows", "insights")}
    assert [(r["state"], r["trajectory_ids"]) for r in rows["workflows"]] == [("stale", ["b"])]
    assert [(r["state"], r["trajectory_ids"]) for r in rows["insights"]] == [("stale", ["b"])]
    assert "deleted" in rows["insights"][0]["metadata"]
    sweep = SkillLibrary(taught).resolve("sweep")
    assert (sweep.state, sweep.trajectory_ids) == ("pending", ("b",))
    taught.delete("trajectory_id = 'b'")
    assert [taught.memory(n).num_rows for n in rows] == [0, 0]


def test_a_dry_run_counts_the_same_and_changes_nothing(taught: Pool) -> None:
    dry = taught.delete("trajectory_id = 'a'", dry_run=True)
    assert taught.memory("reflections").num_rows == 2
    done = taught.delete("trajectory_id = 'a'")
    assert (dry.memory_removed, dry.memory_stale) == (done.memory_removed, done.memory_stale)


def test_memory_stays_where_it_is_asked_to(taught: Pool) -> None:
    done = taught.delete("trajectory_id = 'a'", keep_memory=True)
    assert (done.trajectories, done.memory_removed) == (1, {})
    assert taught.memory("reflections").num_rows == 2


def test_what_expires_takes_its_memory_along(taught: Pool) -> None:
    done = taught.expire(older_than=timedelta(0), where="trajectory_id = 'a'")
    assert done.memory_removed["skills"] == 1


def test_a_run_that_taught_nothing_leaves_the_tables_as_they_are(taught: Pool) -> None:
    before = taught.reader().side
    assert forget_runs(taught, ["c"]).removed == {}
    assert taught.reader().side == before


def test_every_version_of_an_insight_goes_with_the_run_of_one(store: Pool) -> None:
    memory = Insights(store)
    (first,) = memory.add(Insight(text="one", kind="rule", source="t", trajectory_ids=("a",)))
    about = {"insight_id": first.insight_id, "kind": "rule", "source": "t"}
    store.add_insights([Insight(text="two", version=2, trajectory_ids=("a",), **about)])
    assert forget_runs(store, ["a"]).removed == {"insights": 2}


def test_retracting_the_only_run_of_a_skill_retires_it_and_what_calls_it_waits(
    library: SkillLibrary,
) -> None:
    assert library.add(drawn("low", "1", "a")).ok
    assert library.add(drawn("high", "low()", "b")).ok
    done = retract(library.store, ["a"], because="it cheated")
    assert (done.retired["skills"], done.stale["skills"]) == (1, 1)
    states = {s.name: s.state for s in library.versions()}
    assert states == {"low": "retired", "high": "pending"}
    assert library.served() == []


def test_a_skill_that_another_run_speaks_for_is_served_again_once_verified(
    library: SkillLibrary,
) -> None:
    library.add(drawn("low", "1", "a"))
    again = library.add(drawn("low", "1", "b"))
    assert again.skill is not None
    assert again.skill.trajectory_ids == ("a", "b")
    done = retract(library.store, ["a"], because="it cheated")
    assert (done.retired["skills"], done.stale["skills"]) == (0, 1)
    assert library.served() == []
    assert [v.ok for v in library.verify()] == [True]
    assert [s.name for s in library.served()] == ["low"]


def test_a_deleted_skill_leaves_what_calls_it_out_of_service(library: SkillLibrary) -> None:
    library.add(drawn("low", "1", "a"))
    library.add(draft("high", "low()"))
    done = forget_runs(library.store, ["a"])
    assert (done.removed, done.stale) == ({"skills": 1}, {"skills": 1})
    assert [(s.name, s.state) for s in library.versions()] == [("high", "pending")]


def test_a_version_that_goes_makes_room_for_the_one_before(library: SkillLibrary) -> None:
    library.add(drawn("low", "1", "a"))
    library.add(drawn("low", "2", "b"))
    assert retract(library.store, ["b"], because="wrong").retired["skills"] == 1
    assert [(s.version, s.trajectory_ids) for s in library.served()] == [(1, ("a",))]


def test_a_table_of_skills_from_before_lineage_is_read_and_written_on(tmp_path: Path) -> None:
    store = open_store(tmp_path / "pool", durable=False)
    store.add_skills([Skill(name="old", code="x", language="lua", source="t")])
    (file,) = (tmp_path / "pool" / "skills").glob("*.parquet")
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(rows.drop_columns(["trajectory_ids"]), file)
    again = open_store(tmp_path / "pool", durable=False)
    assert again.memory("skills").column("trajectory_ids").to_pylist() == [None]
    again.add_skills(
        [Skill(name="new", code="x", language="lua", source="t", trajectory_ids=("a",))]
    )
    assert retract(again, ["a"], because="wrong").retired["skills"] == 1
    assert forget_runs(again, ["a"]).removed == {"skills": 1}
    assert isinstance(again.memory("skills"), pa.Table)


def test_uses_of_what_stays_are_counted_on_without_the_deleted_run(store: Pool) -> None:
    store.append([run("a", "polish", success=True), run("b", "sweep", success=True)])
    store.add_skills([Skill(name="old", code="y", language="lua", source="t")])
    (item,) = store.memory("skills").column("skill_id").to_pylist()
    for name in ("a", "b"):
        record_uses(store, name, [item], "skill")
    store.delete("trajectory_id = 'a'")
    assert store.sql("SELECT uses, successes FROM skills").fetchall() == [(1, 1)]
