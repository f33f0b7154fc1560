from __future__ import annotations

import pytest

from tests.filters.rewards.tables import NO_STEPS, calls, steps
from trajstore.filters.rewards import used_retrievals

SEARCH = ("search", '{"q":"flights"}', '[{"flight_number": "HAT271", "price": 88}]', False)


def used(made: object, said: object = NO_STEPS) -> list[tuple[int, str, int]]:
    found = used_retrievals(made, said).to_pylist()
    return [(r["step_index"], r["token"], r["used_at"]) for r in found]


def test_a_token_that_only_the_result_showed_and_a_later_call_holds_is_a_use() -> None:
    assert used(calls(SEARCH, ("book", '{"flight":"HAT271"}', "ok", False))) == [(1, "HAT271", 3)]


def test_the_agent_s_later_text_is_a_use_too() -> None:
    said = steps(("user", "hi"), ("agent", None), ("user", ""), ("agent", "I found HAT271."))
    assert used(calls(SEARCH), said) == [(1, "HAT271", 3)]


def test_what_the_user_said_first_was_not_retrieved() -> None:
    said = steps(("user", "book HAT271"))
    assert used(calls(SEARCH, ("book", '{"flight":"HAT271"}', "ok", False)), said) == []


def test_what_the_user_says_after_it_was_shown_is_the_user_s() -> None:
    said = steps(("user", "hi"), ("agent", None), ("user", "HAT271 please"))
    assert used(calls(SEARCH, ("book", '{"flight":"HAT271"}', "ok", False)), said) == []


def test_what_the_agent_asked_for_itself_was_not_retrieved() -> None:
    made = calls(
        ("search", '{"q":"HAT271"}', "HAT271 is full", False), ("book", "HAT271", "", False)
    )
    assert used(made) == []


def test_words_and_json_keys_come_up_by_chance() -> None:
    made = calls(
        ("search", "{}", '{"flight_number": "cheap flight to Boston"}', False),
        ("book", '{"flight_number":"x","to":"Boston flight"}', "ok", False),
    )
    assert used(made) == []


def test_the_call_that_showed_it_first_gets_the_credit() -> None:
    again = ("search", '{"q":"more"}', "HAT271, HAT999", False)
    made = calls(SEARCH, again, ("book", "HAT271 HAT999", "ok", False))
    assert used(made) == [(1, "HAT271", 5), (3, "HAT999", 5)]


def test_a_tool_that_acts_retrieves_nothing() -> None:
    made = calls(("update", "{}", "new id AB1234", False), ("pay", "AB1234", "ok", False))
    assert used(made) == []


@pytest.mark.parametrize("tool", ["search", "web_search", "get_user", "Read", "Grep", "list_files"])
def test_these_tools_retrieve(tool: str) -> None:
    made = calls((tool, "{}", "id AB1234", False), ("pay", "AB1234", "ok", False))
    assert used(made) == [(1, "AB1234", 3)]


@pytest.mark.parametrize("tool", ["cancel_order", "forget", "widget", "spread", "calculate"])
def test_these_do_not(tool: str) -> None:
    made = calls((tool, "{}", "id AB1234", False), ("pay", "AB1234", "ok", False))
    assert used(made) == []
