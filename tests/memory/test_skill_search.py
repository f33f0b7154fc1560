"""Search finds the skill that fits, with all that it calls, and never half of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.memory.conftest import draft
from trajstore.errors import SkillError
from trajstore.memory import SkillLibrary, by_words, search_skills
from trajstore.schema import Skill


@pytest.fixture
def tools(library: SkillLibrary) -> SkillLibrary:
    texts = {
        "mineFiveCoalOres": "Dig until the inventory holds coal.",
        "smeltRawIron": "Put ore into a furnace.",
        "parse_csv_rows": "Read a table from text.",
    }
    for name, says in texts.items():
        assert library.add(draft(name, "1", says=says)).ok
    return library


def found(library: SkillLibrary, text: str, **more: Any) -> list[str]:
    return [h.skill.name for h in search_skills(library, text, **more)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("get coal ore", "mineFiveCoalOres"),
        ("melt iron in the furnace", "smeltRawIron"),
        ("load rows of a csv file", "parse_csv_rows"),
    ],
)
def test_names_and_descriptions_are_read_word_by_word(
    text: str, first: str, tools: SkillLibrary
) -> None:
    assert found(tools, text)[0] == first


def test_nothing_in_common_finds_nothing(tools: SkillLibrary) -> None:
    assert found(tools, "zebra") == []


def test_ties_are_broken_by_id(library: SkillLibrary) -> None:
    for name in ("b", "a", "c"):
        library.add(draft(name, "1", says="same words"))
    assert found(library, "same words", k=2) == ["a", "b"]


def test_bm25_by_hand(library: SkillLibrary) -> None:
    for name, says in (("p", "coal"), ("q", "iron iron")):
        library.add(draft(name, "1", says=says))
    skills = library.skills()
    # p: p coal def p; q: q iron iron def q, so 4 and 5 words and 4.5 in the mean.
    # log(1 + 1.5 / 1.5) * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 5 / 4.5)) = 0.9242
    ((found_id, score),) = by_words("iron", skills)
    assert found_id == library.resolve("q").skill_id
    assert score == pytest.approx(0.9242, abs=1e-4)


def test_a_hit_brings_what_it_calls_before_it(diamond: SkillLibrary) -> None:
    hits = search_skills(diamond, "gives A", k=1)
    assert [h.skill.name for h in hits] == ["A"]
    assert [s.name for s in hits.program] == ["D", "B", "C", "A"]
    namespace: dict[str, object] = {}
    exec(hits.code, namespace)
    assert eval("A()", namespace) == 2


def test_what_two_hits_call_comes_once(diamond: SkillLibrary) -> None:
    hits = search_skills(diamond, "B C", k=2)
    assert [s.name for s in hits.program] == ["D", "B", "C"]


def test_a_hit_that_does_not_fit_whole_is_left_out_with_its_reason(diamond: SkillLibrary) -> None:
    one = sum(len(s.code) for s in diamond.closure(["D"]))
    hits = search_skills(diamond, "gives A D", k=4, token_budget=one, tokens=len)
    assert [h.skill.name for h in hits] == ["D"]
    assert hits.n_tokens == one
    assert f"do not fit into {one}" in hits.left_out[diamond.resolve("A").skill_id]


def test_a_skill_is_not_served_where_one_below_it_is_not(diamond: SkillLibrary) -> None:
    diamond.add(draft("D", "-1", check="assert D() == -1"))
    assert found(diamond, "gives A B C D") == ["D"]


def test_unverified_skills_are_found_only_when_asked_for(library: SkillLibrary) -> None:
    library.store.add_skills(
        [Skill(name="f", code="x", language="lua", source="s", description="coal")]
    )
    hits = search_skills(library, "coal")
    assert len(hits) == 0
    assert list(hits.left_out.values()) == ["never verified"]
    assert [h.skill.name for h in search_skills(library, "coal", unverified=True)] == ["f"]


def test_a_circle_in_the_table_is_refused(library: SkillLibrary) -> None:
    rows = [("f", "g"), ("g", "f")]
    library.store.add_skills(
        Skill(name=n, code=n, language="lua", source="s", description="coal", dependencies=(d,))
        for n, d in rows
    )
    with pytest.raises(SkillError, match="circle"):
        search_skills(library, "coal", unverified=True)
    assert search_skills(library, "coal").hits == ()
