from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.schema import ToolCall, canonical_json, clean_text, json_text, json_text_or_none

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_json_text_says_the_same_value(value: object) -> None:
    assert json.loads(json_text(value)) == value
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(), st.integers()))
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: dict[str, int]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(list(value.items()))))


def test_numbers_that_json_has_no_word_for_are_named() -> None:
    assert json_text({"a": float("nan"), "b": [float("inf")]}) == '{"a":"nan","b":["inf"]}'


def test_half_a_surrogate_pair_becomes_its_escape() -> None:
    assert clean_text("a\ud83d") == "a\\ud83d"
    assert clean_text("ünï 😀") == "ünï 😀"


@pytest.mark.parametrize("empty", [None, {}, []])
def test_nothing_is_none(empty: object) -> None:
    assert json_text_or_none(empty) is None


@pytest.mark.parametrize("kept", ["", 0, False])
def test_falsy_values_are_kept(kept: object) -> None:
    assert json_text_or_none(kept) == json.dumps(kept)


@pytest.mark.parametrize(
    ("given_arguments", "arguments", "raw"),
    [
        ({"b": 1, "a": 2}, '{"a":2,"b":1}', '{"b":1,"a":2}'),
        ('{"b": 1, "a": 2}', '{"a":2,"b":1}', '{"b": 1, "a": 2}'),
        ('{"b": 1,', None, '{"b": 1,'),
        ("ls -la", None, "ls -la"),
        ("", None, ""),
        (None, None, None),
        ({}, "{}", "{}"),
        ('"text"', '"text"', '"text"'),
        ('{"a": NaN}', None, '{"a": NaN}'),
        ('{"a": [1e999]}', None, '{"a": [1e999]}'),
        ('{"a": "nan"}', '{"a":"nan"}', '{"a": "nan"}'),
        ({"a": [math.nan, -math.inf, "é"]}, None, '{"a":[NaN,-Infinity,"é"]}'),
        ({"a": "inf"}, '{"a":"inf"}', '{"a":"inf"}'),
    ],
)
def test_arguments_of_any_kind_keep_their_raw_text(
    given_arguments: object, arguments: str | None, raw: str | None
) -> None:
    call = ToolCall.of("f", given_arguments, 7)
    assert (call.arguments, call.arguments_raw, call.call_id) == (arguments, raw, "7")
