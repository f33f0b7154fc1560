"""Fit records into a budget of tokens: each in the fullest detail that its part allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trajstore.retrieval.compress_text import Rule
from trajstore.retrieval.few_shot_records import Body, Detail, Record
from trajstore.retrieval.quoting import Fence

SEPARATOR = "\n\n"
"""Stands between records."""

_CHARACTERS_A_TOKEN = 9
"""No text of a run has so many characters a token, so a longer one need not be counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record that fits."""

    section: int
    """Number of its set of hits."""
    rank: int
    """Place among the hits of its set, from 0."""
    record: Record
    """The record."""
    body: Body
    """Its text in the detail that fits."""
    tokens: int
    """Tokens with marks and what separates it from the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How records are written and counted in one prompt."""

    fence: Fence
    """The marks."""
    details: tuple[Detail, ...]
    """Levels of detail, the fullest first."""
    rule: Rule
    """How texts are shortened."""
    count: Callable[[str], int]
    """Text -> tokens."""
    widest: int
    """The greatest number that a record may get."""
    bodies: dict[tuple[int, Detail], Body] = field(default_factory=dict)
    """What was written before."""
    counts: dict[str, int] = field(default_factory=dict)
    """What was counted before."""

    def least(self, record: Record) -> int:
        """Tokens that a record needs at least."""
        return self._tokens(self._body(record, self.details[-1]))

    def fullest(self, record: Record, most: int) -> tuple[Body, int] | None:
        """The fullest text that fits into so many tokens, and its tokens; None where none does."""
        for detail in self.details:
            body = self._body(record, detail)
            if len(body.text) <= most * _CHARACTERS_A_TOKEN:
                tokens = self._tokens(body)
                if tokens <= most:
                    return body, tokens
        return None

    def _body(self, record: Record, detail: Detail) -> Body:
        key = (id(record), detail)
        if key not in self.bodies:
            self.bodies[key] = record.body(detail, self.rule)
        return self.bodies[key]

    def _tokens(self, body: Body) -> int:
        if body.text not in self.counts:
            quoted = self.fence.quote(self.widest, body.text) + SEPARATOR
            self.counts[body.text] = self.count(quoted)
        return self.counts[body.text]


def fitted(
    sections: Sequence[Sequence[Record]], shares: Sequence[float], room: int, writing: Writing
) -> list[Entry]:
    """The records that fit, by section and rank.

    Args:
        sections: the records of each set of hits, the best first.
        shares: part of the room for each; they sum to 1. What is left over goes to the next, at
            the end to records that did not fit, then to more detail, the best first.
        room: tokens for all.
        writing: how they are written and counted.
    """
    found: list[Entry] = []
    waiting: list[tuple[int, int, Record]] = []
    left = 0
    for section, (records, share) in enumerate(zip(sections, shares, strict=True)):
        left += int(max(room, 0) * share)
        for rank, record in enumerate(records):
            even = left // (len(records) - rank)
            fits = writing.fullest(record, even) or writing.fullest(record, left)
            if fits is None:
                waiting.append((section, rank, record))
                continue
            left -= fits[1]
            found.append(_entry(section, rank, record, fits))
    for section, rank, record in waiting:
        fits = writing.fullest(record, left)
        if fits is not None:
            left -= fits[1]
            found.append(_entry(section, rank, record, fits))
    found.sort(key=lambda e: (e.section, e.rank))
    return _fuller(found, left, writing)


def _fuller(entries: Sequence[Entry], left: int, writing: Writing) -> list[Entry]:
    """The entries, the best ones in more detail where there is room left."""
    found: list[Entry] = []
    for entry in entries:
        fits = writing.fullest(entry.record, entry.tokens + left) or (entry.body, entry.tokens)
        left -= fits[1] - entry.tokens
        found.append(_entry(entry.section, entry.rank, entry.record, fits))
    return found


def _entry(section: int, rank: int, record: Record, fits: tuple[Body, int]) -> Entry:
    body, tokens = fits
    return Entry(section=section, rank=rank, record=record, body=body, tokens=tokens)
