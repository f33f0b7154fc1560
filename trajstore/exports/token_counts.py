"""How many tokens a training row takes: estimated, or counted by a tokenizer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from trajstore._optional import require
from trajstore.errors import ExportError

Count = Callable[[str], int]
"""Text -> tokens."""

CHARACTERS_A_TOKEN = 3
"""For the estimate. English prose has about four; code, JSON and paths have fewer, and an estimate
that is too high refuses a row that would fit, while one that is too low lets a trainer cut it."""

MARKS_A_MESSAGE = 8
"""Tokens that a chat template puts around each message: role, begin and end."""


def estimated(text: str) -> int:
    """Characters divided by :data:`CHARACTERS_A_TOKEN`, rounded up."""
    return math.ceil(len(text) / CHARACTERS_A_TOKEN)


@lru_cache(maxsize=4)
def token_counter(tokenizer: str | None) -> Count:
    """Count by a tokenizer, or estimate where there is none.

    Args:
        tokenizer: a ``tokenizer.json``, or a folder that holds one; nothing is downloaded.

    Raises:
        ExportError: there is no such file, or it holds no tokenizer.
        MissingDependencyError: the package ``tokenizers`` is not installed.
    """
    if tokenizer is None:
        return estimated
    path = Path(tokenizer)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        message = f"there is no tokenizer at {path}; give a tokenizer.json or a folder with one"
        raise ExportError(message, path=path)
    module = require("tokenizers", extra="tokenizer", purpose="Counting tokens by a tokenizer")
    try:
        loaded = module.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exception
        raise ExportError(f"{path} holds no tokenizer: {error}", path=path) from error
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)


def row_tokens(messages: Sequence[Mapping[str, Any]], tools: str | None, count: Count) -> int:
    """Tokens of one row: texts, reasoning, calls, tool definitions, and marks around messages.

    A chat template may write calls and tools a little longer or shorter than their JSON.
    """
    total = count(tools) if tools else 0
    for message in messages:
        texts = (message.get("content"), message.get("reasoning_content"))
        total += MARKS_A_MESSAGE + sum(count(text) for text in texts if text)
        for call in message.get("tool_calls", ()):
            total += count(json.dumps(call["function"], ensure_ascii=False))
    return total
