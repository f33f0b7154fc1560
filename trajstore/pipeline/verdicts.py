"""A judge's answer, read: JSON in whatever wrapping models put around it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trajstore.errors import JudgeError
from trajstore.pipeline.rubrics import HIGHEST, Rubric

_THOUGHT = re.compile(r"^.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_SHARE = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(?:/\s*10)?\s*")
_SHOWN = 200
_MOST_BRACES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge said of one run."""

    scores: dict[str, float]
    """Criterion -> raw score, 0 to 10."""
    why: str | None
    """Its reason in words."""


def read_verdict(answer: str, rubric: Rubric) -> Verdict:
    """Read the scores out of an answer.

    Taken are ``{"scores": {...}, "why": "..."}``, the scores without the object around them, and
    ``{"accuracy": {"score": 7, "why": "..."}}``; a code fence, words and thoughts around it, keys
    in other case, and scores written as ``"7"`` or ``"7/10"``. Where several objects stand in the
    answer, the last one that has every criterion counts.

    Raises:
        JudgeError: no object holds a score from 0 to 10 for every criterion; the message says what
            is wrong with the nearest one.
    """
    faults: list[str] = []
    for value in reversed(list(_objects(_THOUGHT.sub(" ", answer)))):
        try:
            return _verdict(value, rubric)
        except ValueError as error:
            faults.append(str(error))
    found = faults[0] if faults else "it holds no JSON object"
    shown = answer.strip()[:_SHOWN]
    raise JudgeError(f"The judge's answer cannot be read: {found}. It begins: {shown!r}")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object that stands in a text, outermost ones only, in order."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    for _ in range(_MOST_BRACES):
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield value
        at = text.find("{", end)


def _verdict(value: Mapping[str, Any], rubric: Rubric) -> Verdict:
    lowered = {str(k).strip().lower(): v for k, v in value.items()}
    inner = lowered.get("scores")
    scores = lowered
    if isinstance(inner, Mapping):
        scores = {str(k).strip().lower(): v for k, v in inner.items()}
    missing = [c.name for c in rubric.criteria if c.name not in scores]
    if missing:
        raise ValueError(f"it has no score for {', '.join(missing)}")
    why = lowered.get("why", lowered.get("reason"))
    return Verdict(
        scores={c.name: _score(c.name, scores[c.name]) for c in rubric.criteria},
        why=None if why is None else str(why),
    )


def _score(name: str, value: Any) -> float:
    if isinstance(value, Mapping):
        value = value.get("score")
    if isinstance(value, str):
        written = _SHARE.fullmatch(value)
        value = float(written[1]) if written else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"the score for {name} is {value!r} and not a number")
    if not 0 <= value <= HIGHEST:
        raise ValueError(f"the score for {name} is {value:g}; scores go from 0 to 10")
    return float(value)
