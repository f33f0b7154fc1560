"""What runs were given is recorded, and what it was worth is one query."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.memory.conftest import draft
from trajstore import Label, Pool, Store, Trajectory
from trajstore.errors import MemoryItemError
from trajstore.memory import WITH_AND_WITHOUT, SkillLibrary, record_uses, search_skills


def run(name: str, *, success: bool | None) -> Trajectory:
    return Trajectory(trajectory_id=name, task_id="t", source="test", success=success)


def uses(store: Store, skill: str) -> Any:
    query = f"SELECT uses, successes FROM skills WHERE name = '{skill}'"
    return store.sql(query).fetchall()[0]


def test_a_row_says_which_version_at_which_place_with_which_score(library: SkillLibrary) -> None:
    library.add(draft("f", "1", says="coal"))
    library.add(draft("g", "1", says="coal coal"))
    hits = search_skills(library, "coal")
    at = datetime(2026, 1, 2, tzinfo=UTC)
    assert record_uses(library.store, "r1", hits, "skill", given_at=at) == 2
    query = "SELECT trajectory_id, kind, item_id, score, rank, given_at FROM uses ORDER BY rank"
    rows = library.store.query(query).read_all().to_pylist()
    assert [r["item_id"] for r in rows] == [h.skill.skill_id for h in hits]
    assert [r["score"] for r in rows] == [h.score for h in hits]
    assert [(r["rank"], r["given_at"], r["kind"]) for r in rows] == [
        (1, at, "skill"),
        (2, at, "skill"),
    ]


def test_an_item_given_twice_counts_once(store: Pool) -> None:
    assert record_uses(store, "r1", ["a", "a", "b"], "reflection") == 2
    assert record_uses(store, "r1", ["a"], "reflection") == 0
    assert record_uses(store, "r1", ["a"], "skill") == 1
    assert record_uses(store, "r2", ["a"], "reflection") == 1
    assert record_uses(store, "r3", [], "skill") == 0


def test_a_kind_that_is_none_is_refused_with_the_kinds_there_are(store: Pool) -> None:
    kinds = "trajectory, step, skill, reflection, workflow, insight"
    with pytest.raises(MemoryItemError, match=f"no kind 'banana' of items. Kinds: {kinds}"):
        record_uses(store, "r1", ["a"], "banana")  # type: ignore[arg-type]
    assert store.memory("uses").num_rows == 0


def test_successes_are_counted_from_outcomes_and_not_kept(library: SkillLibrary) -> None:
    library.add(draft("f", "1"))
    skill = library.resolve("f").skill_id
    for name in ("r1", "r2", "r3"):
        record_uses(library.store, name, [skill], "skill")
    assert uses(library.store, "f") == (3, 0)
    library.store.append([run("r1", success=True), run("r2", success=False)])
    assert uses(library.store, "f") == (3, 1)
    late = Label(trajectory_id="r2", name="outcome", success=True, evaluator="tests")
    library.store.label([late])
    assert uses(library.store, "f") == (3, 2)


def test_the_last_success_of_a_version_is_known(library: SkillLibrary) -> None:
    library.add(draft("f", "1"))
    skill = library.resolve("f").skill_id
    ended = datetime(2026, 3, 4, tzinfo=UTC)
    good = Trajectory(trajectory_id="r1", task_id="t", source="x", success=True, ended_at=ended)
    library.store.append([good, run("r2", success=False)])
    for name in ("r1", "r2"):
        record_uses(library.store, name, [skill], "skill")
    assert library.usage()[skill] == (2, 1, ended)


def test_a_replaced_version_keeps_its_own_count(library: SkillLibrary) -> None:
    library.add(draft("f", "1"))
    old = library.resolve("f").skill_id
    record_uses(library.store, "r1", [old], "skill")
    library.add(draft("f", "2"))
    counts = library.usage()
    assert counts[old][0] == 1
    assert counts[library.resolve("f").skill_id][0] == 0


def test_with_memory_against_without_is_one_query(store: Pool) -> None:
    """Reflexion's issue 48: the runs of both scripts were the same, and nothing said so."""
    outcomes = {"a1": True, "a2": True, "a3": False, "b1": False, "b2": True, "b3": False}
    store.append([run(name, success=good) for name, good in outcomes.items()])
    store.append(run("b4", success=None))
    for name in ("a1", "a2", "a3"):
        record_uses(store, name, ["x", "y"], "reflection")
    rows = store.query(WITH_AND_WITHOUT).read_all().to_pylist()
    assert rows == [
        {"with_memory": False, "runs": 4, "successes": 1, "success_rate": pytest.approx(1 / 3)},
        {"with_memory": True, "runs": 3, "successes": 2, "success_rate": pytest.approx(2 / 3)},
    ]


def test_runs_that_were_given_nothing_show_as_such(store: Pool) -> None:
    store.append([run("a", success=True), run("b", success=False)])
    (row,) = store.query(WITH_AND_WITHOUT).read_all().to_pylist()
    assert row == {"with_memory": False, "runs": 2, "successes": 1, "success_rate": 0.5}


def test_many_writes_stay_few_files_and_one_truth(store: Pool) -> None:
    for number in range(60):
        record_uses(store, f"r{number}", ["a"], "skill")
    assert store.sql("SELECT count(*), count(DISTINCT trajectory_id) FROM uses").fetchall()[0] == (
        60,
        60,
    )
    assert len(store._side["uses"].files()) < 20


def test_an_old_table_gets_new_columns(store: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    side = store._side["uses"]
    whole = side.schema
    side.schema = whole.remove(whole.get_field_index("rank"))
    monkeypatch.setattr("trajstore.store.side.SCHEMAS", {})
    side.append(store.memory("uses").select(side.schema.names).schema.empty_table(), durable=False)
    row = {"use_id": "1", "trajectory_id": "r", "kind": "skill", "item_id": "a"}
    old = side.schema.empty_table().from_pylist(
        [{**row, "given_at": datetime(2026, 1, 1, tzinfo=UTC)}], schema=side.schema
    )
    side.append(old, durable=False)
    side.schema = whole
    side._made, side._known = False, None
    record_uses(store, "r2", ["a"], "skill")
    assert store.sql("SELECT trajectory_id, rank FROM uses ORDER BY 1").fetchall() == [
        ("r", None),
        ("r2", 1),
    ]
