"""Move media that a message carries inline out into blobs."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trajstore.schema import Step, Trajectory, json_text

Put = Callable[[bytes], str]
"""Keeps bytes and gives their SHA-256."""

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,", re.ASCII)
_MEDIA_KEYS = frozenset({"media_type", "mime_type", "mimeType", "format", "mediaType"})
_MARKS = ('"data', "base64")


def without_inline_media(trajectory: Trajectory, put: Put) -> tuple[Trajectory, int]:
    """The trajectory with its base64 media replaced by ``blob:sha256:<hex>``, and how many.

    The same object comes back where there are none. What is no valid base64 stays as it is.
    """
    moved = 0

    def keep(data: bytes) -> str:
        nonlocal moved
        moved += 1
        return put(data)

    steps = tuple(_step(step, keep) for step in trajectory.steps)
    return (replace(trajectory, steps=steps) if moved else trajectory), moved


def _step(step: Step, put: Put) -> Step:
    content = _content(step.content, put)
    observations = tuple(
        o if (c := _content(o.content, put)) is o.content else replace(o, content=c)
        for o in step.observations
    )
    if content is step.content and all(
        a is b for a, b in zip(observations, step.observations, strict=True)
    ):
        return step
    return replace(step, content=content, observations=observations)


def _content(content: str | None, put: Put) -> str | None:
    if content is None or not any(mark in content for mark in _MARKS):
        return content
    before = json.loads(content)
    after = _replaced(before, put)
    return content if after == before else json_text(after)


def _replaced(value: Any, put: Put) -> Any:
    if isinstance(value, list):
        return [_replaced(v, put) for v in value]
    if isinstance(value, dict):
        inline = value.get("data")
        if isinstance(inline, str) and _MEDIA_KEYS & value.keys():
            kept = _kept(inline, put)
            if kept is not None:
                return {**value, "data": f"blob:sha256:{kept}"}
        return {k: _replaced(v, put) for k, v in value.items()}
    if isinstance(value, str):
        match = _DATA_URI.match(value)
        kept = _kept(value[match.end() :], put) if match else None
        if match and kept is not None:
            kind = f";media_type={match.group(1)}" if match.group(1) else ""
            return f"blob:sha256:{kept}{kind}"
    return value


def _kept(text: str, put: Put) -> str | None:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return put(data) if data else None
