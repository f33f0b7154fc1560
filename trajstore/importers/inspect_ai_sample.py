"""One sample of an Inspect log with all its references filled in: attachments and pools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PROTOCOLS = ("attachment://", "tc://")
"""How a reference begins, now and in logs of 2024."""


def resolved(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample in today's form: references filled in, pooled messages put back, old names renamed.

    Args:
        sample: as the file has it; it is left as it is.

    Returns:
        A copy without ``attachments`` and pools. A reference without its text stays as it is.

    Raises:
        TypeError: an essential field has the wrong type.
    """
    now = dict(sample)
    transcript = now.pop("transcript", None)
    if isinstance(transcript, dict):
        now.setdefault("events", transcript.get("events"))
        now.setdefault("attachments", transcript.get("content"))
    texts = now.pop("attachments", None) or {}
    now = {key: _filled(value, texts) for key, value in now.items()}
    pools = now.pop("events_data", None) or {}
    messages = now.pop("message_pool", None) or pools.get("messages") or []
    calls = now.pop("call_pool", None) or pools.get("calls") or []
    now["events"] = [_unpooled(e, messages, calls) for e in now.get("events") or ()]
    if "score" in now:
        now.setdefault("scores", {"score": now.pop("score")})
    return now


def _filled(value: Any, texts: Mapping[str, str]) -> Any:
    """A value with every reference in it, at any depth, replaced by its text."""
    if isinstance(value, str):
        if value.startswith(_PROTOCOLS):
            return texts.get(value.partition("://")[2], value)
        return value
    if isinstance(value, dict):
        return {key: _filled(one, texts) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, texts) for one in value]
    return value


def _unpooled(event: Any, messages: list[Any], calls: list[Any]) -> Any:
    """A model event with the messages that it names by ranges [from, to) of a pool."""
    if not isinstance(event, dict):
        return event
    if event.get("input_refs") is not None and messages:
        now = {k: v for k, v in event.items() if k != "input_refs"}
        event = {**now, "input": _ranges(event["input_refs"], messages)}
    call = event.get("call")
    if isinstance(call, dict) and call.get("call_refs") and calls:
        key = call.get("call_key") or "messages"
        request = {**(call.get("request") or {}), key: _ranges(call["call_refs"], calls)}
        left = {k: v for k, v in call.items() if k not in {"call_refs", "call_key"}}
        event = {**event, "call": {**left, "request": request}}
    return event


def _ranges(refs: Any, pool: list[Any]) -> list[Any]:
    return [one for start, end in refs for one in pool[start:end]]
