"""Tool calls that a model wrote as text: JSON, Python literals, or function XML."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trajstore.schema import ToolCall, canonical_json, json_text

_NAME = re.compile(r"""["']name["']\s*:\s*["']([^"']+)["']""")
_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>(.*?)(?:</parameter>|\Z)", re.DOTALL)
_ARGUMENT_KEYS = ("arguments", "parameters")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCalls:
    """What was found in the text of one or more calls."""

    calls: tuple[ToolCall, ...]
    """The calls in order; one that cannot be read keeps the whole text as ``arguments_raw``."""
    malformed: bool = False
    """Whether a part could not be read as ``{"name": ..., "arguments": ...}``."""


def written_calls(text: str) -> WrittenCalls:
    """Read calls written as ``{"name", "arguments"}``: one, a list of them, or several in a row.

    Text that is no JSON is also tried as a Python literal (single quotes), as the reference parser
    of the Hermes models does. Arguments keep the very text the model wrote where it is JSON.

    >>> written_calls('{"name": "f", "arguments": {"a":  1}}').calls[0].arguments_raw
    '{"a":  1}'
    >>> written_calls("{'name': 'f', 'arguments': {'a': True}}").calls[0].arguments
    '{"a":true}'
    >>> written_calls('{"name": "f", "arguments": {"a": ').malformed
    True
    """
    values = _values(text)
    if not values or not all(_is_call(v) for v in values):
        found = _NAME.search(text)
        call = ToolCall(name=found.group(1) if found else "", arguments_raw=text)
        return WrittenCalls(calls=(call,), malformed=True)
    return WrittenCalls(calls=tuple(_call(v, text) for v in values))


def function_calls(text: str) -> tuple[str, tuple[ToolCall, ...]]:
    r"""Split text from calls in function XML, as scaffolds without native calls write them.

    Returns:
        The text around the calls without blank ends, and the calls. Arguments are strings.

    >>> function_calls("Look.\n<function=bash>\n<parameter=c>\nls\n</parameter>\n</function>")[0]
    'Look.'
    """
    calls = tuple(
        ToolCall.of(
            name.strip(), {k.strip(): _unwrapped(v) for k, v in _PARAMETER.findall(parameters)}
        )
        for name, parameters in _FUNCTION.findall(text)
    )
    return _FUNCTION.sub("", text).strip(), calls


def _unwrapped(value: str) -> str:
    return value.removeprefix("\n").removesuffix("\n")


def _values(text: str) -> list[Any]:
    """Parsed calls in order, lists flattened; [] where the text cannot be read."""
    found: list[Any] = []
    for value in json_values(text) or _literals(text):
        found.extend(value if isinstance(value, list) else [value])
    return found


def json_values(text: str) -> list[Any]:
    r"""JSON values written one after another; [] where anything in the text is no JSON.

    >>> json_values('{"a": 1}\n{"a": 2}')
    [{'a': 1}, {'a': 2}]
    """
    decoder = json.JSONDecoder()
    values, at = [], 0
    while text[at:].strip(" \t\r\n,"):
        at = len(text) - len(text[at:].lstrip(" \t\r\n,"))
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        values.append(value)
    return values


def _literals(text: str) -> list[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [ast.literal_eval(text.strip())]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []


def _body(value: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = value.get("function")
    return inner if isinstance(inner, Mapping) else value


def _is_call(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(_body(value).get("name"), str)


def _call(value: Mapping[str, Any], text: str) -> ToolCall:
    body = _body(value)
    key = next((k for k in _ARGUMENT_KEYS if k in body), None)
    arguments = None if key is None else body[key]
    call_id = value.get("id", value.get("tool_call_id"))
    if key is None or arguments is None or isinstance(arguments, str):
        return ToolCall.of(body["name"], arguments, call_id)
    return ToolCall(
        name=body["name"],
        arguments=canonical_json(arguments),
        arguments_raw=_as_written(text, key, arguments),
        call_id=None if call_id is None else str(call_id),
    )


def _as_written(text: str, key: str, arguments: Any) -> str:
    """The piece of ``text`` that holds the arguments; made anew where the text is no JSON."""
    decoder = json.JSONDecoder()
    for found in re.finditer(rf'"{key}"\s*:\s*', text):
        try:
            value, end = decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            continue
        if value == arguments:
            return text[found.end() : end]
    return json_text(arguments)
