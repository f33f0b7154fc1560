"""Shorten a long text by a named rule that keeps error lines and says what was left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from trajstore.errors import RetrievalError

Rule = Literal["head-tail", "head", "tail"]
"""Which part of a long text stays: both ends, its beginning, or its end. Lines that tell of an
error stay under each."""

RULES: dict[Rule, float] = {"head-tail": 0.5, "head": 1.0, "tail": 0.0}
"""Rule -> share of the room that the beginning gets; the end gets the rest."""

LEAST = 240
"""Fewest characters that a text can be shortened to: room for marks and a little on each side."""

ERROR_LINE = re.compile(
    r"\b(?:error|exception|traceback|fatal|panic|fail(?:ed|ure|s)?|denied|not found|undefined|"
    r"cannot|unable|assert\w*|segmentation fault)\b|\w(?:Error|Exception)\b",
    re.IGNORECASE,
)
"""A line that tells of an error."""

_MARK = "[... {:,} characters left out ...]"
_MARK_ROOM = 48
_ERROR_SHARE, _ONE_ERROR_SHARE = 0.3, 0.75
_ERROR_LINE = 200


def shorten(text: str, most: int, *, rule: Rule = "head-tail") -> str:
    """At most so many characters of a text, with a mark wherever something was left out.

    Whole lines are kept where they are short enough. Up to three tenths of the room go to lines in
    the part left out that tell of an error, the last ones first, as the last error is the one that
    counts; the last one has three quarters where that is too little. Every mark says how many
    characters it stands for, so what is shown and what the marks say add up to the length of the
    text.

    Args:
        text: the text; one that is short enough comes back as it is.
        most: most characters of the result, marks included; at least :data:`LEAST`.
        rule: which ends stay.

    Raises:
        RetrievalError: the rule is unknown or ``most`` is too small.
    """
    if rule not in RULES:
        raise RetrievalError(f"There is no rule '{rule}' to shorten by. Rules: {', '.join(RULES)}")
    if most < LEAST:
        raise RetrievalError(f"A text is shortened to {LEAST} characters or more, not to {most}.")
    if len(text) <= most:
        return text
    room = most - 2 * _MARK_ROOM
    errors = _errors(text, room, RULES[rule])
    room -= sum(end - start + _MARK_ROOM for start, end in errors)
    head, tail = _ends(text, room, RULES[rule])
    kept = [(0, head), *(e for e in errors if e[0] >= head and e[1] <= tail), (tail, len(text))]
    return _joined(text, kept)


def _ends(text: str, room: int, share: float) -> tuple[int, int]:
    """Where the beginning ends and where the end begins, at ends of lines where that is near."""
    head = int(room * share)
    tail = len(text) - (room - head)
    newline = text.rfind("\n", head // 2, head) + 1
    head = newline or head
    newline = text.find("\n", tail, tail + (len(text) - tail) // 2) + 1
    return head, newline or tail


def _errors(text: str, room: int, share: float) -> list[tuple[int, int]]:
    """Places of the lines that tell of an error, between the ends, as far as they fit."""
    left = int(room * _ERROR_SHARE)
    longest = int(room * _ONE_ERROR_SHARE) - _MARK_ROOM
    head, tail = _ends(text, room - left, share)
    found: list[tuple[int, int]] = []
    for start, stop in reversed(_lines(text, head, tail)):
        end = min(stop, start + min(_ERROR_LINE, longest))
        size = end - start + _MARK_ROOM
        if size > left and found:
            break
        left -= size
        found.append((start, end))
    return found[::-1]


def _lines(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for match in ERROR_LINE.finditer(text, start, stop):
        begin = text.rfind("\n", 0, match.start()) + 1
        begin = begin if match.start() - begin < _ERROR_LINE // 2 else match.start()
        end = text.find("\n", match.end())
        end = len(text) if end < 0 else end
        if begin >= start and (not found or begin >= found[-1][1]):
            found.append((begin, min(end, stop)))
    return found


def _joined(text: str, kept: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = 0
    for start, stop in kept:
        whole_line = stop > start and text[stop - 1 : stop + 1].endswith("\n")
        end = stop + (whole_line and text[stop - 1] != "\n")
        if start > at:
            before = "" if not parts or parts[-1].endswith("\n") else "\n"
            parts.append(f"{before}{_MARK.format(start - at)}\n")
        if end > start:
            parts.append(text[start:end])
        at = max(at, end)
    return "".join(parts)
