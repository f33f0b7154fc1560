"""What the code of a skill says of itself and of what it calls."""

from __future__ import annotations

import pytest

from trajstore.errors import SkillError
from trajstore.memory.skill_code import (
    called_skills,
    check_name,
    docstring_of,
    problem_of,
    signature_of,
    top_names,
)

KNOWN = ("fetch", "parse", "render")


def calls(code: str, language: str = "python", name: str = "mine") -> tuple[str, ...]:
    return called_skills(name, code, language, KNOWN)


def test_calls_are_found_in_the_order_of_the_text() -> None:
    assert calls("def mine():\n    return render(parse(1))\n    fetch()\n") == (
        "render",
        "parse",
        "fetch",
    )


def test_a_skill_handed_on_as_a_value_is_used_too() -> None:
    assert calls("def mine(xs):\n    return map(parse, xs)\n") == ("parse",)


@pytest.mark.parametrize(
    "code",
    [
        "def mine():\n    return self.fetch()\n",
        "def mine():\n    'fetch()'  # fetch()\n",
        "def mine(fetch):\n    return fetch()\n",
        "def mine():\n    fetch = 1\n    return fetch\n",
        "def mine():\n    def fetch(): pass\n    fetch()\n",
        "from urllib import fetch\ndef mine():\n    fetch()\n",
        "def mine(:\n    fetch()\n",
    ],
    ids=["method", "text", "argument", "local", "inner", "imported", "broken"],
)
def test_what_only_looks_like_a_skill_is_none(code: str) -> None:
    assert calls(code) == ()


def test_a_skill_that_calls_itself_depends_on_nothing() -> None:
    assert calls("def fetch():\n    return fetch()\n", name="fetch") == ()


def test_javascript_calls_are_identifiers_before_a_parenthesis() -> None:
    code = """async function mine(bot) {
        // fetch(bot)
        bot.chat("render(1) isn't"); await parse (bot); bot.render(1); const s = 'fetch()';
    }"""
    assert calls(code, "javascript") == ("parse",)


def test_javascript_that_defines_a_name_does_not_call_the_skill() -> None:
    code = "function parse(x) {}\nconst fetch = (y) => y;\nfunction mine() { parse(1); fetch(2); }"
    assert calls(code, "javascript") == ()


def test_signature_and_docstring_are_those_of_the_function() -> None:
    code = 'def help(): pass\nasync def mine(a: int, *, b=2) -> str:\n    """Do it."""\n'
    assert signature_of("mine", code, "python") == "async def mine(a: int, *, b=2) -> str"
    assert docstring_of("mine", code, "python") == "Do it."


def test_code_without_its_function_is_refused() -> None:
    assert "no function called 'mine'" in (problem_of("mine", "def other(): pass", "python") or "")
    assert "no function called 'mine'" in (problem_of("mine", "function o() {}", "go") or "")


def test_code_that_does_not_compile_is_refused_with_its_line() -> None:
    assert "(line 2)" in (problem_of("mine", "x = 1\ndef mine(:\n", "python") or "")


@pytest.mark.parametrize("name", ["sum", "class", "a b", "1a", "", "__x", "a@b"])
def test_names_that_a_skill_cannot_have(name: str) -> None:
    with pytest.raises(SkillError):
        check_name(name, "python")


def test_names_at_the_top_are_functions_classes_and_values() -> None:
    code = "import os\nA, B = 1, 2\nclass C: pass\ndef d():\n    e = 1\n"
    assert top_names(code, "python") == {"A", "B", "C", "d"}


def test_names_at_the_top_of_other_languages_stand_outside_all_braces() -> None:
    code = "const A = 1; async function d(x) { const e = { f: 1 }; function g() {} }\nlet B = 2;"
    assert top_names(code, "javascript") == {"A", "B", "d"}
