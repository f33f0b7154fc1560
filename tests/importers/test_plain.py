from __future__ import annotations

from typing import Any

import pytest

from trajstore.importers.plain import count, numbers, token_ids, words


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), ("", ""), (None, None), (1.5, "1.5"), ({"b": [1]}, '{"b":[1]}'), (True, "true")],
)
def test_whatever_stands_where_text_should_is_text(value: Any, text: str | None) -> None:
    assert words(value) == text


@pytest.mark.parametrize(
    ("value", "number"),
    [(7, 7), ("7", 7), (7.0, 7), (7.5, None), ("x", None), (None, None), (True, None)],
)
def test_a_count_is_a_whole_number(value: Any, number: int | None) -> None:
    assert count(value) == number


@pytest.mark.parametrize("value", [2**63, -(2**63), 1e300])
def test_a_count_that_no_column_can_hold_is_unknown(value: float) -> None:
    assert count(value) is None


@pytest.mark.parametrize("value", [[1, 2**31], ["x"], [None], [1.5], [], None, "12", {"a": 1}])
def test_token_ids_come_all_or_not_at_all(value: Any) -> None:
    assert token_ids(value) is None


@pytest.mark.parametrize("value", [["-1"], [None], [], None, "12"])
def test_numbers_come_all_or_not_at_all(value: Any) -> None:
    assert numbers(value) is None


def test_good_lists_keep_their_order() -> None:
    assert token_ids([3, 0, 2]) == (3, 0, 2)
    assert numbers([-1, 0.5]) == (-1.0, 0.5)
