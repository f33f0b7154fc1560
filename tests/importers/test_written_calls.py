"""Calls written as text: what is read, what is kept as it was."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.importers.written_calls import function_calls, json_values, written_calls

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(string.ascii_letters + "_", min_size=1)


def test_one_call_is_read_by_name_and_arguments() -> None:
    (call,) = written_calls('{"name": "search", "arguments": {"q": "x"}}').calls
    assert (call.name, call.arguments) == ("search", '{"q":"x"}')


def test_a_list_is_several_calls_in_order() -> None:
    found = written_calls('[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]')
    assert [c.name for c in found.calls] == ["a", "b"]
    assert not found.malformed


def test_objects_one_after_another_are_several_calls() -> None:
    found = written_calls('{"name": "a", "arguments": {}}\n{"name": "b", "arguments": {}}')
    assert [c.name for c in found.calls] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ('{"name": "f", "arguments": {"b":  1, "a": 2}}', '{"b":  1, "a": 2}'),
        ('{"arguments": {"q": "\\u00e9"}, "name": "f"}', '{"q": "\\u00e9"}'),
        ('{"name": "f", "parameters": {"x": 1.0}}', '{"x": 1.0}'),
        ('{"name": "f", "arguments": "{\\"x\\": 1}"}', '{"x": 1}'),
    ],
)
def test_raw_arguments_are_the_very_text_that_was_written(text: str, raw: str) -> None:
    assert written_calls(text).calls[0].arguments_raw == raw


def test_each_call_of_a_list_keeps_its_own_arguments_text() -> None:
    text = '[{"name": "f", "arguments": {"n": 1 }}, {"name": "f", "arguments": {"n":  2}}]'
    assert [c.arguments_raw for c in written_calls(text).calls] == ['{"n": 1 }', '{"n":  2}']


def test_single_quotes_are_read_as_python() -> None:
    found = written_calls("{'name': 'f', 'arguments': {'on': True, 'what': None, 'who': \"it's\"}}")
    assert found.calls[0].arguments == '{"on":true,"what":null,"who":"it\'s"}'
    assert not found.malformed


def test_python_text_with_a_strange_escape_gives_no_warning() -> None:
    found = written_calls(r"{'name': 'f', 'arguments': {'path': 'a\d'}}")
    assert found.calls[0].arguments == r'{"path":"a\\d"}'


def test_nested_function_object_and_id_are_read() -> None:
    text = '{"id": 7, "type": "function", "function": {"name": "f", "arguments": "{}"}}'
    (call,) = written_calls(text).calls
    assert (call.name, call.call_id, call.arguments) == ("f", "7", "{}")


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "f", "arguments": {"a": 1}',
        "{'name': 'f', 'arguments': {'a': open('x')}}",
        '{"name": "f", "arguments": {}} trailing',
    ],
)
def test_what_cannot_be_read_keeps_its_whole_text(text: str) -> None:
    found = written_calls(text)
    assert found.malformed
    assert [(c.name, c.arguments, c.arguments_raw) for c in found.calls] == [("f", None, text)]


@pytest.mark.parametrize("text", ["", "hello", '{"arguments": {}}', "[]", "[1]", '{"name": 3}'])
def test_text_without_a_name_is_a_malformed_call_without_name(text: str) -> None:
    found = written_calls(text)
    assert found.malformed
    assert found.calls[0].name == ""


@settings(deadline=None)
@given(name=NAMES, arguments=st.dictionaries(st.text(), JSON, max_size=4))
def test_any_json_call_comes_back(name: str, arguments: dict[str, Any]) -> None:
    text = json.dumps({"name": name, "arguments": arguments})
    found = written_calls(text)
    assert not found.malformed
    (call,) = found.calls
    assert call.name == name
    assert json.loads(call.arguments or "") == arguments
    assert call.arguments_raw == json.dumps(arguments)


@settings(deadline=None)
@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert written_calls(text).calls


def test_function_xml_gives_text_and_calls() -> None:
    text, calls = function_calls(
        "Let us see.\n\n<function=run>\n<parameter=code>\nx = 1\nprint(x)\n</parameter>\n"
        "<parameter=timeout>5</parameter>\n</function>"
    )
    assert text == "Let us see."
    assert json.loads(calls[0].arguments or "") == {"code": "x = 1\nprint(x)", "timeout": "5"}


def test_function_xml_without_end_is_still_a_call() -> None:
    _, calls = function_calls("<function=run><parameter=code>ls</parameter>")
    assert [(c.name, c.arguments) for c in calls] == [("run", '{"code":"ls"}')]


def test_function_xml_twice_is_two_calls() -> None:
    text, calls = function_calls("<function=a></function> and <function=b></function>")
    assert ([c.name for c in calls], text) == (["a", "b"], "and")


def test_text_without_function_xml_has_no_calls() -> None:
    assert function_calls("a < b") == ("a < b", ())


def test_json_values_refuse_what_is_left_over() -> None:
    assert json_values('{"a": 1}, [2]') == [{"a": 1}, [2]]
    assert json_values('{"a": 1} x') == []
