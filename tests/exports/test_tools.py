from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.exports import tool_definitions

_SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
_WRAPPED = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": _SCHEMA},
}


@pytest.mark.parametrize("key", ["parameters", "input_schema", "inputSchema"])
def test_flat_definitions_are_wrapped(key: str) -> None:
    flat = {"name": "f", "description": "d", key: _SCHEMA, "strict": True}
    assert json.loads(tool_definitions(json.dumps([flat])) or "") == [_WRAPPED]


def test_openai_definitions_stay_as_they_are() -> None:
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": None}}
    assert json.loads(tool_definitions(json.dumps([tool])) or "") == [tool]


def test_a_single_definition_is_a_list_of_one() -> None:
    assert json.loads(tool_definitions(json.dumps({"function": {"name": "f"}})) or "") == [
        {"type": "function", "function": {"name": "f"}}
    ]


def test_a_definition_without_description_has_none() -> None:
    found = json.loads(tool_definitions('[{"name":"f","parameters":{}}]') or "")
    assert found[0]["function"] == {"name": "f", "parameters": {}}


@pytest.mark.parametrize(
    "tools",
    [
        None,
        "",
        "no json",
        "[]",
        "null",
        '["bash"]',
        "[1]",
        '[{"name":"f"}]',
        '[{"name":3,"parameters":{}}]',
        '[{"name":"f","parameters":{}},"g"]',
    ],
)
def test_where_definitions_are_not_known_there_are_none(tools: Any) -> None:
    assert tool_definitions(tools) is None
