from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.exports.arguments import with_objects
from trajstore.exports.messages import Message


def _calling(arguments: str) -> list[Message]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [call]}]


def _parsed(arguments: str) -> Any:
    return with_objects(_calling(arguments))[1]["tool_calls"][0]["function"]["arguments"]


def test_arguments_become_an_object_in_the_order_of_the_text() -> None:
    assert list(_parsed('{"b": 1, "a": null}').items()) == [("b", 1), ("a", None)]


@pytest.mark.parametrize("blank", ["", " \n"])
def test_blank_arguments_are_an_empty_object(blank: str) -> None:
    assert _parsed(blank) == {}


def test_the_messages_given_stay_as_they_are() -> None:
    messages = _calling('{"a":1}')
    before = json.dumps(messages)
    assert with_objects(messages)[0] is messages[0]
    assert json.dumps(messages) == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("ls -la", "no JSON: 'ls -la'"),
        ('"text"', "no JSON object"),
        ("[1]", "no JSON object"),
        ("null", "no JSON object"),
        ('{"a":NaN}', "nan is no JSON number"),
        ('{"a":1e400}', "inf is no JSON number"),
        ('{"a":[{"b":18446744073709551616}]}', "more than 64 bits"),
        ('{"a":-9223372036854775809}', "more than 64 bits"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested deeper than 100"),
        ('{"a":' * 9999, "no JSON"),
    ],
)
def test_what_would_not_load_again_is_refused_with_the_call(arguments: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"call 'c' of 'f': .*{reason}"):
        _parsed(arguments)


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), True, 0.1 + 0.2, -0.0])
def test_numbers_that_load_again_are_kept(number: float) -> None:
    assert repr(_parsed(json.dumps({"a": number}))) == repr({"a": number})


def test_half_a_surrogate_pair_is_escaped() -> None:
    assert _parsed('{"\\ud83d":["\\ud83d"]}') == {"\\ud83d": ["\\ud83d"]}


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), _values))
def test_any_json_object_comes_through(value: dict[str, Any]) -> None:
    assert _parsed(json.dumps(value)) == value
