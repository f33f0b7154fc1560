"""Closures, reverse closures and cycles, against the worked example and a search of all orders."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.errors import SkillError
from trajstore.memory.skill_graph import closure, dependents

DIAMOND = {"A": ["B", "C"], "B": ["D"], "C": ["D"], "D": []}


def test_closure_of_the_worked_example() -> None:
    assert closure(["A"], DIAMOND) == ["D", "B", "C", "A"]


def test_replacing_d_concerns_b_c_and_then_a() -> None:
    assert dependents("D", DIAMOND) == ["B", "C", "A"]
    assert dependents("B", DIAMOND) == ["A"]
    assert dependents("A", DIAMOND) == []


def test_a_circle_is_refused_and_told() -> None:
    with pytest.raises(SkillError, match=r"circle: A -> B -> C -> A"):
        closure(["A"], {"A": ["B"], "B": ["C"], "C": ["A", "D"], "D": []})


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(SkillError, match="'B'"):
        closure(["A"], {"A": ["B"]})


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Graphs without circles on up to six names, whose names say nothing of their order."""
    names = draw(st.permutations("abcdef"))
    return {
        name: [n for n in names[:place] if draw(st.booleans())] for place, name in enumerate(names)
    }


@given(graphs())
def test_the_order_is_the_least_one_in_which_callees_come_first(
    graph: dict[str, list[str]],
) -> None:
    fits = (
        order
        for order in itertools.permutations(sorted(graph))
        if all(order.index(d) < order.index(n) for n, ds in graph.items() for d in ds)
    )
    assert closure(graph, graph) == list(next(fits))


@given(graphs())
def test_dependents_are_those_in_whose_closure_it_is(graph: dict[str, list[str]]) -> None:
    for name in graph:
        callers = {n for n in graph if n != name and name in closure([n], graph)}
        assert set(dependents(name, graph)) == callers
