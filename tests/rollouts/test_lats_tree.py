"""The tree: UCB1 by the published numbers, choices and ties by hand."""

from __future__ import annotations

import math

import pytest

from tests.rollouts.lats_world import going
from trajstore.rollouts import Action, Node, ucb1
from trajstore.rollouts.tree import (
    Place,
    Taken,
    action_key,
    back_up,
    blended,
    most_visited,
    prune,
    select,
)
from trajstore.schema import Step, ToolCall


def child(parent: Node, *, visits: int = 0, q: float = 0.0, critic: float | None = None) -> Node:
    node = Node(
        place=Place(messages=()),
        parent=parent,
        number=len(parent.children),
        taken=Taken(action=going("x"), step=Step(actor="agent")),
        visits=visits,
        total=visits * q,
        critic=critic,
    )
    parent.children.append(node)
    parent.draws += 1
    return node


def root() -> Node:
    return Node(place=Place(messages=()), visits=10)


@pytest.mark.parametrize(("q", "visits", "score"), [(0.5, 4, 1.2587), (0.6, 6, 1.2195)])
def test_ucb1_gives_the_worked_numbers(q: float, visits: int, score: float) -> None:
    """c 1, N 10."""
    assert ucb1(q, visits, 10, c=1.0) == pytest.approx(score, abs=5e-5)


def test_without_exploration_ucb1_is_q() -> None:
    assert ucb1(0.25, 3, 100, c=0.0) == 0.25


def test_the_child_of_the_higher_bound_is_selected_though_its_q_is_lower() -> None:
    top = root()
    few, _ = child(top, visits=4, q=0.5), child(top, visits=6, q=0.6)
    assert select(top, width=2) is few


def test_less_exploration_turns_the_choice_around() -> None:
    top = root()
    _, many = child(top, visits=4, q=0.5), child(top, visits=6, q=0.6)
    assert select(top, width=2, c=0.1) is many


def test_a_child_without_a_visit_comes_before_all_others() -> None:
    top = root()
    child(top, visits=9, q=1.0)
    new = child(top)
    child(top)
    assert ucb1(0.0, 0, 10) == math.inf
    assert select(top, width=3) is new


def test_among_new_children_the_critics_favourite_comes_first() -> None:
    top = root()
    child(top, critic=0.2)
    favourite = child(top, critic=0.9)
    assert select(top, width=2) is favourite


def test_a_node_that_lacks_samples_is_where_the_way_ends() -> None:
    top = root()
    below = child(top, visits=10, q=0.5)
    child(below, visits=10, q=0.5)
    assert select(top, width=1) is below.children[0]
    assert select(top, width=2) is top


def test_closed_and_pruned_children_are_passed_over() -> None:
    top = root()
    closed, pruned, left = (child(top, visits=3, q=q) for q in (1.0, 0.9, 0.1))
    closed.closed = pruned.pruned = True
    assert select(top, width=3) is left


def test_equal_bounds_fall_to_the_first_child() -> None:
    top = root()
    first = child(top, visits=5, q=0.5)
    child(top, visits=5, q=0.5)
    assert select(top, width=2) is first


def test_a_run_counts_at_every_node_on_its_way() -> None:
    top = Node(place=Place(messages=()))
    left, right = child(top), child(top)
    leaf = child(left)
    back_up(leaf, 1.0)
    back_up(right, 0.5)
    assert [(n.visits, n.total) for n in top.walk()] == [(2, 1.5), (1, 1.0), (1, 1.0), (1, 0.5)]
    assert (top.q_search, top.best) == (0.75, 1.0)


def test_the_most_visited_way_wins_over_the_higher_q() -> None:
    top = root()
    child(top, visits=4, q=1.0)
    often = child(top, visits=6, q=0.6)
    leaf = child(often, visits=6, q=0.6)
    assert most_visited(top) is leaf


def test_equal_visits_are_decided_by_q_and_then_by_id() -> None:
    top = root()
    child(top, visits=3, q=0.2)
    better = child(top, visits=3, q=0.8)
    child(top, visits=3, q=0.8)
    assert most_visited(top) is better


def test_a_tree_without_a_judged_run_has_no_choice() -> None:
    top = Node(place=Place(messages=()))
    child(top)
    assert most_visited(top) is None


def test_a_pruned_branch_is_handed_in_only_where_there_is_no_other() -> None:
    top = root()
    pruned, other = child(top, visits=7, q=0.9), child(top, visits=3, q=0.1)
    pruned.pruned = True
    assert most_visited(top) is other
    other.pruned = True
    assert most_visited(top) is pruned


def test_blaming_an_action_gives_up_the_node_behind_it() -> None:
    top = Node(place=Place(messages=()))
    first = child(top)
    second = child(first)
    back_up(second, 0.0)
    assert prune(second, 1, 0.0)
    assert (first.pruned, second.pruned) == (False, True)


@pytest.mark.parametrize("blamed", [-1, 1, 7])
def test_blaming_an_action_that_is_not_there_gives_up_nothing(blamed: int) -> None:
    top = Node(place=Place(messages=()))
    leaf = child(top)
    back_up(leaf, 0.0)
    assert not prune(leaf, blamed, 0.0)
    assert not leaf.pruned


def test_a_node_through_which_a_better_run_came_is_not_given_up() -> None:
    top = Node(place=Place(messages=()))
    shared = child(top)
    good, bad = child(shared), child(shared)
    back_up(good, 0.8)
    back_up(bad, 0.2)
    assert not prune(bad, 0, 0.2)


def test_agent_q_blends_half_and_half_and_takes_what_is_there() -> None:
    """.5 * .8 + .5 * .6 = .7."""
    assert blended(0.8, 0.6, 0.5) == pytest.approx(0.7)
    assert (blended(None, 0.6, 0.5), blended(0.8, None, 0.5)) == (0.6, 0.8)
    assert blended(None, None, 0.5) is None


def test_words_beside_equal_calls_do_not_make_another_action() -> None:
    one, other = going("left", "Hm."), going("left", "Well then.")
    assert action_key(one) == action_key(other) != action_key(going("right"))


def test_the_order_of_arguments_does_not_make_another_action() -> None:
    calls = [ToolCall.of("f", text) for text in ('{"a": 1, "b": 2}', '{"b":2,"a":1}')]
    one, other = (action_key(Action(tool_calls=(call,))) for call in calls)
    assert one == other


def test_actions_without_calls_are_told_apart_by_their_words() -> None:
    assert action_key(Action(text="I  give up")) == action_key(Action(text="i give up"))
    assert action_key(Action(text="I give up")) != action_key(Action(text="I go on"))
