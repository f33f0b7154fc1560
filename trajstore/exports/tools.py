"""Tool definitions in the one shape that chat templates read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trajstore.schema import json_text

_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")


def tool_definitions(tools: str | None) -> str | None:
    """JSON text of a list of ``{"type": "function", "function": {...}}``, or None.

    OpenAI chat definitions stay as they are; OpenAI responses, Anthropic and MCP definitions (flat,
    with ``parameters``, ``input_schema`` or ``inputSchema``) are wrapped. None stands for a run
    that offered no tools, and for one whose tools are known by name only: a template has nothing
    to show.

    >>> tool_definitions('[{"name":"add","input_schema":{"type":"object"}}]')
    '[{"type":"function","function":{"name":"add","parameters":{"type":"object"}}}]'
    >>> tool_definitions('["add"]') is None
    True
    """
    if tools is None:
        return None
    try:
        given = json.loads(tools)
    except ValueError:
        return None
    listed = given if isinstance(given, list) else [given]
    found = [_definition(tool) for tool in listed]
    known = [tool for tool in found if tool is not None]
    return json_text(known) if known and len(known) == len(found) else None


def _definition(tool: Any) -> dict[str, Any] | None:
    if not isinstance(tool, Mapping):
        return None
    if isinstance(tool.get("function"), Mapping):
        return {"type": "function", **tool}
    schema = next((tool[k] for k in _SCHEMA_KEYS if isinstance(tool.get(k), Mapping)), None)
    if not isinstance(tool.get("name"), str) or schema is None:
        return None
    function: dict[str, Any] = {"name": tool["name"]}
    if isinstance(tool.get("description"), str):
        function["description"] = tool["description"]
    return {"type": "function", "function": {**function, "parameters": schema}}
