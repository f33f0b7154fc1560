"""The SFT form of the Agent Data Protocol (ShareGPT turns) turned back into standard records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trajstore.importers.written_calls import function_calls
from trajstore.schema import ToolCall

_FIELDS = frozenset({"id", "conversations", "system"})
_RESULT = re.compile(r"\A(?:EXECUTION RESULT of \[[^\]]*\]:|OBSERVATION:)\n?")
_CODE: Mapping[str, tuple[str, str]] = {
    "execute_ipython_cell": ("python", "code"),
    "execute_bash": ("bash", "command"),
    "bash": ("bash", "command"),
}
"""Function -> the language it runs, and the parameter that holds the code."""


def is_adp_sft(row: Any) -> bool:
    """Whether a record is the SFT form: exactly its three fields, and calls in function XML."""
    if not isinstance(row, Mapping) or set(row) != _FIELDS or not isinstance(row["id"], str):
        return False
    turns = row["conversations"] if isinstance(row["conversations"], list) else []
    values = (t.get("value") for t in turns if isinstance(t, Mapping) and t.get("from") == "gpt")
    return any(isinstance(v, str) and "<function=" in v for v in values)


def standard_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """The record in the standard form: what the run said and did, without the form's own framing.

    The system text describes how to write calls as XML. The form added it and nobody said it in the
    run, so it stays beside the items.

    Args:
        row: a record of which :func:`is_adp_sft` is true.

    Raises:
        KeyError, TypeError: a turn has no ``from`` or no text.
    """
    items = [item for turn in row["conversations"] for item in _items(turn)]
    if _ends_with_submit(items):
        said = items.pop()["description"] or ""
        items.append({"class_": "message_action", "content": f"<finish> {said} </finish>"})
    return {"id": row["id"], "content": items, "details": {}, "system": row["system"]}


def _ends_with_submit(items: list[dict[str, Any]]) -> bool:
    """Whether the last turn is the form's way to end a run: what is said last, and ``submit``."""
    last = items[-1]
    return last.get("function") == "submit" and not last["kwargs"]


def _items(turn: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    speaker, value = turn["from"], turn["value"]
    if not isinstance(value, str):
        raise TypeError(f"the text of a turn must be text, not {value!r:.60}")
    if speaker == "gpt":
        yield from _actions(value)
    else:
        found = _RESULT.match(value)
        name, source = (speaker, "environment") if speaker != "human" else (None, "user")
        text = value if found is None else value[found.end() :]
        yield {"class_": "text_observation", "content": text, "name": name, "source": source}


def _actions(value: str) -> Iterator[dict[str, Any]]:
    text, calls = function_calls(value)
    if not calls:
        yield {"class_": "message_action", "content": value, "description": None}
    for i, call in enumerate(calls):
        yield {**_action(call), "description": text or None if i == 0 else None}


def _action(call: ToolCall) -> dict[str, Any]:
    arguments = json.loads(call.arguments or "{}")
    if call.name == "finish" and "message" in arguments:
        return {"class_": "message_action", "content": f"<finish> {arguments['message']} </finish>"}
    language, parameter = _CODE.get(call.name, ("", ""))
    if set(arguments) == {parameter}:
        return {"class_": "code_action", "language": language, "content": arguments[parameter]}
    return {"class_": "api_action", "function": call.name, "kwargs": arguments}
