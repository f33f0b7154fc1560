from __future__ import annotations

import pytest

from trajstore.rollouts import calculator_tasks
from trajstore.rollouts.policies.scripted_plans import Lookup, read_goal

PENCILS = (
    "Ines buys 4 boxes with 10 pencils each, gives 4 pencils away and shares the rest equally "
    "among 6 friends. How many pencils does each friend get?"
)
SHIRTS = "A shop sells 3 red and 5 blue shirts at 9 euros each. How many euros does it take in?"
BICYCLE = (
    "A bicycle costs 200 euros. It is reduced by 10 percent, and Emil has a voucher for another 30 "
    "euros. How many euros does Emil pay?"
)


@pytest.mark.parametrize(
    ("goal", "expression"),
    [
        (PENCILS, "(4 * 10 - 4) / 6"),
        (SHIRTS, "(3 + 5) * 9"),
        (BICYCLE, "200 * (100 - 10) / 100 - 30"),
    ],
)
def test_a_word_problem_becomes_an_expression(goal: str, expression: str) -> None:
    plan = read_goal(goal)
    assert plan is not None
    assert (plan.lookups, plan.expression) == ((), expression)


def test_a_question_becomes_lookups_and_an_expression_over_them() -> None:
    plan = read_goal(
        "What is 4 times the atomic number of the element that Marie Curie discovered?"
    )
    assert plan is not None
    assert [(k.name, k.about) for k in plan.lookups] == [
        ("element", "Marie Curie"),
        ("number", "{element}"),
    ]
    assert plan.lookups[0].query == "element discovered by Marie Curie"
    assert plan.expression == "4 * {number}"


def test_every_task_of_the_generator_is_understood() -> None:
    assert all(read_goal(task.goal) for task in calculator_tasks(400, seed=9))


def test_what_is_not_understood_has_no_plan() -> None:
    assert read_goal("Why is the sky blue?") is None


LOOKUP = Lookup(name="n", about="{element}", query="q", pattern=r"atomic number (\d+)")


def test_a_value_is_read_from_the_right_document_only() -> None:
    results = "[Radium] It has the atomic number 88.\n[Polonium] It has the atomic number 84."
    assert LOOKUP.read(results, {"element": "polonium"}) == "84"


@pytest.mark.parametrize("results", ["", "[Polonium] A metal.", "No document has anything on 'x'."])
def test_a_value_that_is_not_there_is_none(results: str) -> None:
    assert LOOKUP.read(results, {"element": "Polonium"}) is None
