"""What an Inspect sample says beside its messages: outcome, and all that has no column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trajstore.importers.building import number
from trajstore.importers.importer import success_of
from trajstore.importers.items import ImportOptions
from trajstore.schema import canonical_json

_GRADES: Mapping[str, float] = {
    "C": 1.0,
    "P": 0.5,
    "I": 0.0,
    "N": 0.0,
    "yes": 1.0,
    "true": 1.0,
    "no": 0.0,
    "false": 0.0,
}
"""Inspect's words for grades: correct, partial, incorrect, no answer."""

_TOLERANCE = 1e-6

_OWN_COLUMNS = frozenset(
    {
        "completed_at",
        "epoch",
        "error",
        "error_retries",
        "events",
        "messages",
        "output",
        "started_at",
        "timelines",
        "total_time",
    }
)
_SPEC_DUPLICATES = frozenset({"model", "task", "viewer"})
_HEAVY = frozenset({"call", "tools", "traceback_ansi"})
"""Fields of a model event that repeat its prompt and answer in the provider's form."""

_DROPPED_EVENTS = frozenset({"sample_init", "state", "store"})
"""Kinds that repeat the messages and the store as patches."""


def outcome(
    scores: Any, header: Mapping[str, Any], options: ImportOptions
) -> tuple[bool | None, float | None, dict[str, float]]:
    """Success, reward and named components.

    The scorer that counts is the log's headline metric, else the first in its results, else the
    first of the sample. A score of several named values has components and no single reward.
    Success is ``C``, a yes, or a number of at least 1 (or of the user's threshold); a number
    outside 0 to 1 has no verdict of its own.

    Args:
        scores: ``{scorer: {value, ...}}``, or None.
        header: the log without samples.
        options: its ``success_threshold``.
    """
    values = {
        name: score.get("value")
        for name, score in (scores or {}).items()
        if isinstance(score, dict)
    }
    rewards = dict(_components(values))
    name = _chief(values, header)
    value = values.get(name) if name is not None else None
    if isinstance(value, dict):
        part = (header["eval"].get("headline_metric") or {}).get("score")
        value = value.get(part) if part in value else _only(value)
    reward = grade(value)
    on_scale = reward is None or -_TOLERANCE <= reward <= 1 + _TOLERANCE
    if not on_scale and options.success_threshold is None:
        return None, reward, rewards
    return success_of(reward, options), reward, rewards


def grade(value: Any) -> float | None:
    """A score's value as a number, by Inspect's own table; None for NaN, lists and other words."""
    if isinstance(value, str):
        word = _GRADES.get(value, _GRADES.get(value.lower()))
        found = number(value) if word is None else word
    else:
        found = number(value)
    return found if found is not None and math.isfinite(found) else None


def _components(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Each named number of the scores; parts of dicts and lists as ``scorer/part``."""
    for name, value in values.items():
        parts: Iterable[tuple[str, Any]] = [(name, value)]
        if isinstance(value, dict):
            parts = [(f"{name}/{key}", one) for key, one in value.items()]
        elif isinstance(value, list):
            parts = [(f"{name}/{place}", one) for place, one in enumerate(value)]
        for label, part in parts:
            found = grade(part)
            if found is not None:
                yield label, found


def _chief(values: Mapping[str, Any], header: Mapping[str, Any]) -> str | None:
    results = (header.get("results") or {}).get("scores") or ()
    wanted = [(header["eval"].get("headline_metric") or {}).get("scorer")]
    wanted += [one.get(key) for one in results for key in ("scorer", "name")]
    return next((name for name in [*wanted, *values] if name in values), None)


def _only(value: Mapping[str, Any]) -> Any:
    return next(iter(value.values())) if len(value) == 1 else None


def about(
    sample: Mapping[str, Any], header: Mapping[str, Any], used: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """All of the sample and of its log that has no column.

    Args:
        sample: with all references filled in.
        header: the log without samples.
        used: the model events whose message is a step; they are left out.
    """
    spec = {k: v for k, v in header["eval"].items() if k not in _SPEC_DUPLICATES and v is not None}
    if isinstance(spec.get("dataset"), dict):
        spec["dataset"] = {k: v for k, v in spec["dataset"].items() if k != "sample_ids"}
    output = sample.get("output") or {}
    said = [canonical_json(m) for m in sample.get("messages") or ()]
    given = sample.get("input")
    repeated = isinstance(given, str) or all(canonical_json(m) in said for m in given or ())
    kept = {
        **{k: v for k, v in sample.items() if k not in _OWN_COLUMNS},
        "input": None if repeated else given,
        "output": {k: v for k, v in output.items() if k in {"error", "metadata"} and v},
        "error": _plain(sample.get("error")),
        "error_retries": [_plain(e) for e in sample.get("error_retries") or ()],
        "events": list(_other_events(sample, used)),
        "eval": spec,
        "plan": header.get("plan"),
        "log": {k: header[k] for k in ("version", "status", "invalidated") if header.get(k)},
    }
    return {k: v for k, v in kept.items() if v not in (None, {}, [], ())}


def _plain(error: Any) -> Any:
    """An error without the coloured copy of its traceback and the events before it."""
    if not isinstance(error, dict):
        return error
    return {k: v for k, v in error.items() if k not in {"traceback_ansi", "events"}}


def _other_events(
    sample: Mapping[str, Any], used: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Events that say something new: graders, sub-agents, sandboxes, limits, spans, notes."""
    on_steps = {id(event) for event in used}
    scores = [canonical_json(score) for score in (sample.get("scores") or {}).values()]
    answered = {
        message.get("tool_call_id")
        for message in sample.get("messages") or ()
        if message.get("role") == "tool"
    }
    seen = {canonical_json(message) for message in sample.get("messages") or ()}
    for event in sample["events"]:
        kind = event.get("event")
        if kind in _DROPPED_EVENTS or id(event) in on_steps:
            continue
        if kind == "score" and canonical_json(event.get("score")) in scores:
            continue
        if kind == "tool" and event.get("id") in answered:
            left = {"arguments", "result", "view"}
            yield {k: v for k, v in event.items() if k not in left and v not in (None, [])}
        elif kind == "model":
            yield _slim(event, seen)
        else:
            yield event


def _slim(event: Mapping[str, Any], seen: set[str]) -> dict[str, Any]:
    """A model event with only those messages of its prompt that no event before it had."""
    fresh = []
    for message in event.get("input") or ():
        said = canonical_json(message)
        if said not in seen:
            seen.add(said)
            fresh.append(message)
    left = {k: v for k, v in event.items() if k not in _HEAVY and v not in (None, [], {})}
    return {**left, "input": fresh}
