"""Searches by the index and prompts find the skills that the library serves, and no other."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from tests.memory.conftest import draft
from trajstore import Pool, Skill
from trajstore.memory import SkillLibrary
from trajstore.memory.skill_row import StoredSkill, rows_of
from trajstore.retrieval import FewShot, build_few_shot

pytest.importorskip("numpy")

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def few(store: Pool, text: str, **asked: Any) -> FewShot:
    return store.few_shot(text, level="skill", tokenizer="estimate", **asked)


def found(store: Pool, text: str = "gives", **asked: Any) -> list[str]:
    return sorted(h.item_id for h in store.search(text, level="skill", k=99, **asked))


def imported(name: str, **more: Any) -> Skill:
    return Skill(
        name=name,
        code=f"def {name}(): return 0",
        language="python",
        source="x",
        description=f"gives {name}",
        **more,
    )


def test_a_skill_that_was_never_verified_is_shown_as_such_and_only_when_asked_for(
    library: SkillLibrary,
) -> None:
    library.store.add_skills([imported("fish")])
    prompt = few(library.store, "gives fish")
    assert (prompt.text, prompt.left_out[0].words()) == ("", "1 of level skill never were verified")
    asked = few(library.store, "gives fish", unverified=True)
    assert asked.text.startswith("Below are skills, which never were verified")
    assert "\nverified: never\n" in asked.text
    assert library.add(draft("hook", "1", says="gives fish")).ok
    both = few(library.store, "gives fish", unverified=True)
    assert both.text.startswith("Below are skills, of which some never were verified")


def test_the_version_that_was_replaced_is_not_shown_while_the_new_one_waits(
    diamond: SkillLibrary,
) -> None:
    assert diamond.add(draft("B", "2", says="gives B")).ok
    assert diamond.add(draft("B", "D() + 0", says="gives B")).ok
    assert diamond.add(draft("D", "-1", check="assert D() == -1")).ok
    assert diamond.resolve("B").state == "pending"
    assert [s.item_id for s in few(diamond.store, "gives B").shown] == [
        diamond.resolve("D").skill_id
    ]


def test_a_removed_version_is_not_shown(library: SkillLibrary) -> None:
    first = library.add(draft("f", "1")).skill
    assert library.add(draft("f", "2")).ok
    library.remove("f")
    assert first is not None
    assert found(library.store) == [first.skill_id]


def test_an_imported_version_does_not_hide_the_verified_one(library: SkillLibrary) -> None:
    library.add(draft("f", "1"))
    library.store.add_skills([imported("f")])
    assert found(library.store, unverified=True) == [library.resolve("f").skill_id]


def test_a_prompt_shows_all_that_a_skill_calls_before_its_own_code(diamond: SkillLibrary) -> None:
    prompt = few(diamond.store, "gives A", k=1)
    codes = [x.partition(":")[0] for x in prompt.text.splitlines() if x.startswith("code")]
    assert codes == ["code of D", "code of B", "code of C", "code"]
    assert [s.item_id for s in prompt.shown] == [diamond.resolve("A").skill_id]


def test_hits_of_before_are_gone_where_they_are_no_longer_served(library: SkillLibrary) -> None:
    library.add(draft("f", "1"))
    hits = library.store.search("gives f", level="skill")
    library.remove("f")
    prompt = build_few_shot(library.store, hits, tokenizer="estimate")
    assert [x.reason for x in prompt.left_out] == ["gone"]


def some_library(chance: Random, number: int) -> list[StoredSkill]:
    """Versions that call each other anyhow: in circles, by bare names, and what is not there."""
    size = chance.randint(1, 8)
    names = [f"{chance.choice('abcd')}{number}" for _ in range(size)]
    ids = [f"{name}@{at}" for at, name in enumerate(names)]
    return [
        StoredSkill(
            skill_id=ids[at],
            name=names[at],
            version=at,
            code="x",
            language="python",
            description="gives",
            created_at=NOW,
            state=chance.choice([None, None, None, "pending", "retired"]),
            verified_at=chance.choice([NOW, NOW, NOW, None]),
            dependencies=tuple(
                chance.choice([*ids, chance.choice(names), "gone@1"])
                for _ in range(chance.choice([0, 0, 1, 1, 2]))
            ),
        )
        for at in range(size)
    ]


def test_a_search_serves_what_the_library_serves(store: Pool) -> None:
    chance = Random(0)
    rows = [skill for number in range(150) for skill in some_library(chance, number)]
    store.change_memory("skills", lambda _: rows_of(rows))
    served = {s.skill_id for s in SkillLibrary(store).served()}
    assert 50 < len(served) < len({s.name for s in rows})
    hits = store.search("gives", level="skill", k=len(rows))
    assert {h.item_id for h in hits} == served


def test_skills_that_call_each_other_in_a_circle_are_shown_nowhere(store: Pool) -> None:
    names = {"a": "b", "b": "a"}
    store.change_memory(
        "skills",
        lambda _: rows_of(
            StoredSkill(
                skill_id=f"{n}@1",
                name=n,
                version=1,
                code="x",
                language="python",
                dependencies=(f"{d}@1",),
                verified_at=NOW,
                created_at=NOW,
            )
            for n, d in names.items()
        ),
    )
    assert found(store, "a b") == []
