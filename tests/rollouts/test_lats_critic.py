"""A policy as critic."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rollouts.lats_world import TASK, Gambler, make
from trajstore.rollouts import Action, PolicyCritic, Response, SearchOptions, lats


class Judge:
    """Says one thing and keeps what it was asked."""

    agent, model, version = "judge", "m", "1"

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[Any] = []

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        del tools, seed
        self.asked.append(messages)
        return Response(action=Action(text=self.text))


@pytest.mark.parametrize(
    ("said", "value"),
    [("7\nIt goes well.", 0.7), ("10", 1.0), ("0", 0.0), ("Score: 3/10", 0.3), ("**9**", 0.9)],
)
def test_the_first_whole_number_counts_in_tenths(said: str, value: float) -> None:
    assert PolicyCritic(Judge(said))(TASK, []) == value


@pytest.mark.parametrize("said", ["", "Well.", "0.75", "100"])
def test_an_answer_without_such_a_number_is_an_error_that_shows_it(said: str) -> None:
    with pytest.raises(ValueError, match=r"a number from 0 to 10 and says"):
        PolicyCritic(Judge(said))(TASK, [])


def test_it_is_shown_the_task_and_what_was_done_and_seen() -> None:
    judge = Judge("5")
    options = SearchOptions(iterations=1, expand=1, concurrency=1, critic=PolicyCritic(judge))
    tree = lats(make, Gambler(0.0), TASK, options=options)
    shown = judge.asked[0][1]["content"]
    assert tree.root.children[0].critic == 0.5
    for part in ("Task: Find the way out.", 'calls go {"door":"left"}', "tool: room 1"):
        assert part in shown


def test_a_critic_that_fails_ends_the_search_and_keeps_its_words() -> None:
    options = SearchOptions(critic=PolicyCritic(Judge("Hm.")))
    tree = lats(make, Gambler(0.0), TASK, options=options)
    assert tree.stopped == "error"
    assert "says 'Hm.'" in (tree.error or "")
