"""Filters and scores that mean something else for memory than for runs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.retrieval.conftest import Fill, run
from trajstore import Pool
from trajstore.memory import record_uses
from trajstore.retrieval import LEVELS, Level, Weights
from trajstore.schema import Insight, Reflection, Skill, Workflow

MEMORY: list[Level] = ["skill", "reflection", "workflow", "insight"]
NOW = datetime(2026, 11, 30, tzinfo=UTC)
ONLY_UTILITY = Weights(similarity=0, success=0, recency=0, efficiency=0, utility=1)


@pytest.fixture
def pool(fill: Fill) -> Pool:
    """Runs, and of each kind of memory one item of no environment and one of another."""
    store = fill(
        run("won", "open the door", environment="house", task_id="t1"),
        run("lost", "open the door now", environment="house", task_id="t2", success=False),
        run("nowhere", "open the gate", task_id="t3"),
    )
    for name, place in (("plain", None), ("ship", "ship")):
        about = {"source": "test", "environment": place}
        skill = {"code": name, "language": "python", "description": "open", "verified_at": NOW}
        store.add_skills([Skill(name=name, **skill, **about)])
        store.add_workflows([Workflow(name=f"open {name}", steps="[]", **about)])
        store.add_insights([Insight(text=f"open it: {name}", kind="rule", **about)])
        store.add_reflections([Reflection(task_id=name, text=f"open {name}", **about)])
    store.index(embedder="hashing", levels=LEVELS)
    return store


@pytest.mark.parametrize("level", MEMORY)
def test_success_is_asked_of_runs_and_not_of_memory(pool: Pool, level: Level) -> None:
    assert {h.item_id for h in pool.search("open", success_only=True)} == {"won", "nowhere"}
    assert len(pool.search("open", success_only=True, level=level)) == 2


@pytest.mark.parametrize("mode", ["text", "hybrid"])
@pytest.mark.parametrize("level", MEMORY)
def test_memory_that_names_no_environment_fits_any(pool: Pool, level: Level, mode: str) -> None:
    asked = {"mode": mode, "environment": "house", "environment_version": "7"}
    hits = pool.search("open", level=level, **asked)  # type: ignore[arg-type]
    assert [h.environment for h in hits] == [None]
    assert "plain" in hits[0].text
    assert hits.cuts == {"environment": 1}
    assert "nowhere" not in {h.item_id for h in pool.search("open", environment="house")}


def test_a_mixed_prompt_of_successes_shows_memory(pool: Pool) -> None:
    levels: dict[Level, float] = dict.fromkeys(["trajectory", *MEMORY], 1.0)
    asked = {"success_only": True, "environment": "house", "tokenizer": "estimate"}
    shown = pool.few_shot("open", level=levels, **asked).by_level()
    assert {level: len(items) for level, items in shown.items()} == dict.fromkeys(levels, 1)


@pytest.mark.parametrize("level", LEVELS)
def test_utility_is_successes_by_uses(pool: Pool, level: Level) -> None:
    """Given to a success, a failure and a run that is not known: one of three."""
    items = [h.item_id for h in pool.search("open", level=level, mode="vector", k=9)]
    for name in ("won", "lost", "unknown"):
        record_uses(pool, name, [items[-1]], level)
    hits = pool.search("open", level=level, weights=ONLY_UTILITY, k=9, mode="vector")
    assert (hits[0].item_id, hits[0].score) == (items[-1], pytest.approx(1 / 3))
    assert {h.score for h in hits[1:]} == {0.0}


def test_a_late_verdict_moves_utility(pool: Pool) -> None:
    from trajstore import Label

    record_uses(pool, "lost", ["won"], "trajectory")
    asked = {"weights": ONLY_UTILITY, "k": 1}
    assert pool.search("open", **asked)[0].parts["utility"] == 0
    pool.label([Label(trajectory_id="lost", name="outcome", success=True, evaluator="late")])
    assert pool.search("open", **asked)[0].parts["utility"] == 1


def test_what_a_source_had_counted_and_what_was_recorded_add_up(fill: Fill) -> None:
    store = fill(run("won", "open"))
    store.add_insights([Insight(text="open", kind="rule", source="test", helpful=1, harmful=2)])
    item = store.search("open", level="insight")[0].item_id
    record_uses(store, "won", [item], "insight")
    assert store.search("open", level="insight")[0].parts["utility"] == 0.5
