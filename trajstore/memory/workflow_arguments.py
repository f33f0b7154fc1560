"""What several supports of one pattern have in common: constants stay, the rest are variables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from trajstore.schema import canonical_json

_WHOLE = "input"


def steps_with_variables(
    tools: Sequence[str], supports: Sequence[Sequence[str | None]]
) -> list[dict[str, Any]]:
    """The steps of a pattern: ``tool``, ``arguments`` and ``variables``.

    An argument that is the same in every support stays as it is; one that differs, or is missing in
    some, becomes ``{name}``. Two arguments that are equal to each other in every support are one
    variable, so a step that uses what an earlier step used says so. Arguments are compared as
    parsed values, never as text.

    Args:
        tools: names in order.
        supports: for each support the arguments of each call as JSON text; None where there are
            none, or where what was written is no JSON.

    >>> steps_with_variables(["open"], [['{"id":1,"all":true}'], ['{"id":2,"all":true}']])
    [{'tool': 'open', 'arguments': {'all': True, 'id': '{id}'}, 'variables': ['id']}]
    """
    names: dict[tuple[str, ...], str] = {}
    steps = []
    for place, tool in enumerate(tools):
        given = [_arguments(support[place]) for support in supports]
        arguments: dict[str, Any] = {}
        variables = []
        for key in sorted({k for values in given for k in values}):
            texts = tuple(canonical_json(v[key]) if key in v else "" for v in given)
            if len(set(texts)) == 1:
                arguments[key] = given[0][key]
                continue
            name = names.setdefault(texts, _free(key, set(names.values())))
            arguments[key] = f"{{{name}}}"
            variables.append(name)
        steps.append({"tool": tool, "arguments": arguments, "variables": variables})
    return steps


def _arguments(text: str | None) -> Mapping[str, Any]:
    value = None if text is None else json.loads(text)
    if value is None:
        return {}
    return value if isinstance(value, dict) else {_WHOLE: value}


def _free(key: str, taken: set[str]) -> str:
    """The key, or the key with a number where another variable has it."""
    number, name = 1, key
    while name in taken:
        number += 1
        name = f"{key}_{number}"
    return name
