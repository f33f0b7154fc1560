"""What every environment with tools does with a call: find the tool, read the arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from trajstore.rollouts.environment import Tool
from trajstore.schema import ToolCall


class BadCallError(Exception):
    """A call that cannot be carried out; the message is what the agent reads."""


def call_arguments(call: ToolCall, tools: Sequence[Tool]) -> Mapping[str, Any]:
    """The arguments of a call to one of the tools.

    Raises:
        BadCallError: there is no such tool, or the arguments are no JSON object.
    """
    names = [tool["function"]["name"] for tool in tools]
    if call.name not in names:
        message = f"there is no tool '{call.name}'; the tools are {', '.join(names)}"
        raise BadCallError(message)
    try:
        value = json.loads(call.arguments_raw or "{}")
    except (ValueError, RecursionError) as error:
        message = f"the arguments of {call.name} are not valid JSON: {error}"
        raise BadCallError(message) from error
    if not isinstance(value, dict):
        message = f"the arguments of {call.name} must be a JSON object"
        raise BadCallError(message)
    return value


def text_argument(arguments: Mapping[str, Any], name: str) -> str:
    """An argument that must be text.

    Raises:
        BadCallError: it is missing, or something else.
    """
    value = arguments.get(name)
    if not isinstance(value, str):
        given = ", ".join(arguments) or "nothing"
        raise BadCallError(f"the argument '{name}' is missing or no text; given were: {given}")
    return value
