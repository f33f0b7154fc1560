"""Several skills at once: no name of one stands in for a name of another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.memory.conftest import draft
from trajstore.errors import SkillError
from trajstore.memory import SkillLibrary, search_skills
from trajstore.memory.skill_program import program_of
from trajstore.memory.skill_row import StoredSkill

TWICE = "def _h(x):\n    return 2 * x\ndef twice(x):\n    return _h(x)\n"
THRICE = "def _h(x):\n    return 3 * x\ndef thrice(x):\n    return _h(x)\n"


def add(library: SkillLibrary, name: str, code: str, check: str) -> None:
    done = library.add(replace(draft(name, "0", check=check), code=code))
    assert done.ok, done.attempts


def said(library: SkillLibrary, names: list[str], code: str) -> str:
    ran = library.run(names, code)
    assert ran.ok, ran.stderr
    return ran.stdout.strip()


def ran(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text, names)
    return names


def stored(name: str, code: str, *calls: str, language: str = "python") -> StoredSkill:
    return StoredSkill(
        skill_id=f"{name}@1",
        name=name,
        version=1,
        code=code,
        language=language,
        dependencies=tuple(f"{c}@1" for c in calls),
    )


@pytest.fixture
def both(library: SkillLibrary) -> SkillLibrary:
    """``both`` calls ``twice`` and ``thrice``, which have a helper of one name."""
    add(library, "twice", TWICE, "assert twice(3) == 6")
    add(library, "thrice", THRICE, "assert thrice(3) == 9")
    add(library, "both", "def both(x):\n    return twice(x), thrice(x)\n", "assert both(0)[0] == 0")
    return library


def test_each_callee_has_its_own_helper(both: SkillLibrary) -> None:
    assert said(both, ["both"], "print(both(1))") == "(2, 3)"


def test_skills_that_are_run_beside_each_other_keep_their_helpers(both: SkillLibrary) -> None:
    assert said(both, ["twice", "thrice"], "print(twice(1), thrice(1))") == "2 3"


def test_the_text_for_a_prompt_does_what_was_verified(both: SkillLibrary) -> None:
    assert ran(both.program(["both"]))["both"](1) == (2, 3)
    hits = search_skills(both, "gives twice thrice")
    names = ran(hits.code)
    assert (names["twice"](1), names["thrice"](1)) == (2, 3)


def test_imports_under_one_name_are_kept_apart(library: SkillLibrary) -> None:
    down = "from math import floor as rnd\ndef down(x):\n    return rnd(x)\n"
    span = "from math import ceil as rnd\ndef span(x):\n    return rnd(x) - down(x)\n"
    add(library, "down", down, "assert down(1.5) == 1")
    add(library, "span", span, "assert span(1.5) == 1")
    assert said(library, ["span"], "print(span(1.5))") == "1"
    assert ran(library.program(["span"]))["span"](1.5) == 1


def test_the_code_that_is_run_hides_no_name_of_a_skill(both: SkillLibrary) -> None:
    assert said(both, ["both"], "def _h(x): return 0\nprint(both(1))") == "(2, 3)"


def test_code_beside_skills_is_a_program_as_ever(both: SkillLibrary) -> None:
    done = both.run(["both"], "import sys\nassert __name__ == '__main__'\nsys.exit(both(1)[1])")
    assert done.exit_code == 3


def test_a_check_sees_the_names_of_its_skill(library: SkillLibrary) -> None:
    add(library, "twice", TWICE, "assert twice(3) == _h(3)")


def test_skills_without_a_common_name_stand_as_they_are() -> None:
    one, two = "import re\ndef a(): re.sub\n", "import re\ndef b(): a(re)\n"
    assert program_of([stored("a", one), stored("b", two, "a")]) == f"{one}\n\n{two}"


CONDITIONAL = {
    "if": "if True:\n    K = {0}\n",
    "try": "try:\n    K = {0}\nexcept KeyError:\n    pass\n",
    "with": "import contextlib\nwith contextlib.nullcontext({0}) as K:\n    pass\n",
    "for": "for K in [{0}]:\n    pass\n",
    "walrus": "print(K := {0}, end='')\n",
    "import": "try:\n    from nowhere import K\nexcept ImportError:\n    K = {0}\n",
    "match": "match {0}:\n    case K:\n        pass\n",
}


@pytest.mark.parametrize("form", CONDITIONAL.values(), ids=CONDITIONAL.keys())
def test_names_bound_by_any_statement_are_kept_apart(form: str) -> None:
    one, two = (form.format(n) + f"def f{n}():\n    return K\n" for n in (1, 2))
    names = ran(program_of([stored("f1", one), stored("f2", two)]))
    assert (names["f1"](), names["f2"]()) == (1, 2)


def test_a_helper_that_is_called_like_a_skill_or_a_builtin_hides_neither() -> None:
    one = stored("parse", "def parse():\n    return len('ab')\n")
    two = stored(
        "f", "def len(x):\n    return 0\ndef parse():\n    return 9\ndef f(): return parse()"
    )
    names = ran(program_of([one, two]))
    assert (names["parse"](), names["f"]()) == (2, 9)


def test_a_text_of_several_lines_stays_as_it_is_inside_a_function() -> None:
    one = stored("f", 'K = """a\n  b\n"""\ndef f():\n    return K\n')
    names = ran(program_of([one, stored("g", "K = 1\ndef g():\n    return K\n")]))
    assert (names["f"](), names["g"]()) == ("a\n  b\n", 1)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("K = 0\ndef f():\n    global K\n    K += 1\n    return K\n", "'K', which it defines"),
        ("from math import *\ndef f():\n    return pi\n", "imports by '\\*'"),
        ("from __future__ import annotations\ndef f():\n    return 1\n", "stand first in a file"),
    ],
    ids=["global", "star", "future"],
)
def test_what_cannot_be_kept_apart_is_said(code: str, why: str) -> None:
    with pytest.raises(SkillError, match=why):
        program_of([stored("g", "K = 1\ndef g():\n    return K\n"), stored("f", code)])


def test_other_languages_are_told_apart_by_no_function() -> None:
    one, two = (f"function h() {{ return {n} }} function f{n}() {{}}" for n in (1, 2))
    skills = [stored(f"f{n}", c, language="javascript") for n, c in ((1, one), (2, two))]
    with pytest.raises(SkillError, match="'h', which it defines"):
        program_of(skills)


def test_a_search_leaves_out_what_cannot_stand_beside_better_hits(library: SkillLibrary) -> None:
    state = "K = 1\ndef {0}():\n    global K\n    K += 1\n    return K\n"
    for name in ("f", "g"):
        add(library, name, state.format(name), f"assert {name}() == 2")
    hits = search_skills(library, "gives f")
    assert [h.skill.name for h in hits] == ["f"]
    hits = search_skills(library, "gives f g f", k=5)
    assert len(hits) == 1
    assert "would hide" in next(iter(hits.left_out.values()))


def test_a_budget_counts_the_text_as_it_is_given(both: SkillLibrary) -> None:
    hits = search_skills(both, "gives both", k=1, tokens=len)
    assert hits.n_tokens == len(hits.code) - 2 * len("\n\n")
    assert len(search_skills(both, "both", k=1, token_budget=hits.n_tokens - 1, tokens=len)) == 0
