"""Values as JSON."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trajstore_cli._values import as_json, moment

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_what_json_can_say_comes_back_the_same(value: object) -> None:
    assert json.loads(as_json(value)) == value


@given(st.text())
def test_no_text_can_steer_a_terminal(text: str) -> None:
    shown = as_json([text])
    assert all(ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0 for c in shown)
    assert json.loads(shown) == [text]


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u061c", "\u2028", "\x9b", "\x7f"])
def test_marks_that_reverse_or_break_text_are_escapes(mark: str) -> None:
    assert as_json(mark) == f'"\\u{ord(mark):04x}"'


def test_a_file_name_that_is_no_utf8_is_an_escape() -> None:
    assert as_json("a\udcff") == '"a\\udcff"'


def test_other_scripts_stay_readable() -> None:
    assert as_json("naïve 日本語 😀") == '"naïve 日本語 😀"'


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_numbers_that_are_none_become_null_at_any_depth(number: str) -> None:
    assert as_json({"a": [{"b": float(number)}], "c": 1.5}) == '{"a": [{"b": null}], "c": 1.5}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal(12345678901234567890), "12345678901234567890"),
        (Decimal("1.50"), "1.5"),
        (Decimal("NaN"), "null"),
        (b"\x00\xff", '"00ff"'),
        (date(2024, 5, 1), '"2024-05-01"'),
        (time(12, 30), '"12:30:00"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    ],
)
def test_types_that_json_has_not(value: object, text: str) -> None:
    assert as_json(value) == text


def test_a_decimal_is_a_number_also_inside_other_values() -> None:
    assert as_json({"s": [Decimal(3)], "x": float("nan")}) == '{"s": [3], "x": null}'


def test_keys_that_are_no_text_become_text() -> None:
    assert as_json({1: "a", None: "b", date(2024, 1, 2): "c"}) == (
        '{"1": "a", "None": "b", "2024-01-02": "c"}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05Z"),
        (datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=UTC), "2024-01-02T03:04:05.678000Z"),
        (datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),  # noqa: DTZ001
        (
            datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
            "2024-01-02T03:04:05+02:00",
        ),
        ("2024", None),
    ],
)
def test_times_in_iso_8601(value: object, text: str | None) -> None:
    assert moment(value) == text
