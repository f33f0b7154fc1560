"""Read the JSON list that a model was asked for out of whatever it wrote around it."""

from __future__ import annotations

import json
from typing import Any

from trajstore.memory.verifying import code_in


def json_list(answer: str) -> list[Any] | None:
    """The first JSON list in an answer, or a single object as a list of one; None without either.

    >>> json_list('Sure: [{"a": 1}] Anything else?')
    [{'a': 1}]
    """
    for text in (code_in(answer), answer):
        start = min((i for i in (text.find("["), text.find("{")) if i >= 0), default=-1)
        if start < 0:
            continue
        try:
            value = json.JSONDecoder().raw_decode(text, start)[0]
        except ValueError:
            continue
        return value if isinstance(value, list) else [value]
    return None
