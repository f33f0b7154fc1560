"""A task is never shown what was drawn from its own runs or from those of its near-duplicates."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

from tests.retrieval.conftest import Fill, run
from trajstore import Pool
from trajstore.memory import Insights, Reflections, Workflows
from trajstore.retrieval import LEVELS, Level, step_query
from trajstore.schema import Insight, Reflection, Skill, Workflow

GOAL = "find the invoice of the shop for March and pay it with the card of the company"
NOW = datetime(2026, 11, 30, tzinfo=UTC)
MEMORY: list[Level] = ["skill", "reflection", "workflow", "insight"]


def learnt(store: Pool, name: str) -> None:
    """One item of each kind of memory, drawn from one run."""
    about = {"source": "test", "trajectory_ids": (name,)}
    skill = {"language": "python", "description": f"pay {name}", "verified_at": NOW}
    store.add_skills([Skill(name=name, code=name, **skill, **about)])
    store.add_workflows([Workflow(name=f"pay {name}", steps="[]", **about)])
    store.add_insights([Insight(text=f"pay {name}", kind="rule", **about)])
    store.add_reflections(
        [Reflection(task_id=f"noted/{name}", text=f"pay {name}", source="test", trajectory_id=name)]
    )


@pytest.fixture
def office(fill: Fill) -> Pool:
    """A run at the task, one at a near-duplicate, one at another, and what was drawn from each."""
    store = fill(
        run("own", GOAL, task_id="old"),
        run("near", GOAL.upper(), task_id="twin"),
        run("other", "water the plants in the garden", task_id="garden"),
    )
    for name in ("own", "near", "other"):
        learnt(store, name)
    store.index(embedder="hashing", levels=LEVELS)
    return store


def drawn(store: Pool, level: Level, text: str = "pay", **asked: object) -> set[str]:
    """Which of the three runs the hits are, or are drawn from."""
    hits = store.search(text, level=level, **asked)  # type: ignore[arg-type]
    names = ("own", "near", "other")
    if level in {"trajectory", "step"}:
        return {str(h.trajectory_id) for h in hits}
    return {n for n in names for h in hits if f"pay {n}" in h.text}


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_of_the_asking_task_or_its_near_duplicate_is_found(
    office: Pool, level: Level
) -> None:
    assert drawn(office, level) == {"own", "near", "other"}
    assert drawn(office, level, task_id="old") == {"other"}
    assert drawn(office, level, task_id="garden") == {"own", "near"}
    assert drawn(office, level, task_id="old", allow_same_task=True) == {"own", "near", "other"}


@pytest.mark.parametrize("level", MEMORY)
def test_a_prompt_shows_no_memory_of_the_asking_task(office: Pool, level: Level) -> None:
    prompt = office.few_shot(GOAL, level=level, task_id="old", tokenizer="estimate")
    assert len(prompt.shown) == 1
    assert "pay other" in prompt.text
    assert "pay own" not in prompt.text
    assert "pay near" not in prompt.text
    assert "drawn from one" in prompt.explain()


def test_a_skill_that_calls_one_of_the_asking_task_is_left_out(office: Pool) -> None:
    """A prompt shows the code of what it calls, and of what that calls."""
    skill = {"language": "python", "source": "test", "verified_at": NOW}
    own = office.sql("SELECT skill_id FROM skills WHERE name = 'own'").fetchall()[0][0]
    middle = Skill(name="middle", code="m", dependencies=(own,), **skill)
    office.add_skills([middle])
    called = office.sql("SELECT skill_id FROM skills WHERE name = 'middle'").fetchall()[0][0]
    office.add_skills([Skill(name="above", code="a", dependencies=(called,), **skill)])
    office.index(levels=["skill"])
    found = {h.text for h in office.search("above", level="skill", mode="text", task_id="garden")}
    assert found == {"above"}
    assert not office.search("above", level="skill", mode="text", task_id="old")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", ["text", "hybrid"])
def test_a_task_that_is_not_in_the_store_is_known_by_its_goal(
    office: Pool, level: Level, mode: str
) -> None:
    asked = {"task_id": "new", "mode": mode}
    assert drawn(office, level, "pay plants", goal=GOAL, **asked) <= {"other"}
    assert drawn(office, level, step_query(GOAL, "pay plants"), **asked) <= {"other"}
    assert "own" in drawn(office, level, "pay invoice", goal="something else", **asked)


def test_a_text_for_steps_that_was_written_by_hand_names_the_goal_first(office: Pool) -> None:
    assert drawn(office, "step", f"{GOAL}\nread\nit is there", task_id="new") == {"other"}


def test_the_whole_goal_counts_where_the_text_for_steps_is_cut(fill: Fill) -> None:
    goal = " ".join(f"word{n} of a long task" for n in range(60))
    store = fill(run("twin", goal, task_id="t"), run("b", "water the plants"))
    text = step_query(goal, "result for twin")
    assert len(text) < len(goal)
    assert {h.trajectory_id for h in store.search(text, level="step", task_id="new")} == {"b"}


def test_the_goal_goes_where_its_text_goes() -> None:
    text = step_query("g" * 400, "seen")
    again = pickle.loads(pickle.dumps(text))
    assert (again, again.goal) == (text, "g" * 400)


def test_the_answer_by_words_is_not_kept_for_the_answer_by_meaning(fill: Fill) -> None:
    """A twin that only vectors tell is left out, also after the same question by words."""
    store = fill(run("twin", "pay pay pay invoice"), run("b", "water the plants"))
    goal = "pay pay invoice pay pay pay"
    by_words = {h.item_id for h in store.search(goal, task_id="new", mode="text")}
    by_meaning = {h.item_id for h in store.search(goal, task_id="new", mode="hybrid")}
    assert (by_words, by_meaning) == ({"twin"}, {"b"})


def test_the_searches_of_each_kind_of_memory_leave_the_same_out(office: Pool) -> None:
    for memory in (Workflows(office), Insights(office), Reflections(office)):
        found = [h.text for h in memory.search("pay", task_id="old", k=9)]
        assert len(found) == 1
        assert "pay other" in found[0]
