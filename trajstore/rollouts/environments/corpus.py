"""The small corpus of the calculator environment, and the search over it."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_WORD = re.compile(r"[a-z0-9]+")
_COMMON = frozenset(
    {"a", "an", "and", "as", "by", "for", "from", "how", "in", "is", "it", "its", "many", "of"}
    | {"on", "or", "than", "the", "to", "was"}
)
_TITLE_WEIGHT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One short text about one thing."""

    title: str
    """Name of the thing; no two documents share one."""
    text: str
    """What a search shows."""
    facts: Mapping[str, int]
    """The numbers in the text by name; tasks are made from them."""
    links: Mapping[str, str]
    """Titles of other documents that the text names, by what they are."""


@cache
def documents() -> tuple[Document, ...]:
    """All documents, in the order of the file."""
    text = files(__package__).joinpath("corpus.json").read_text(encoding="utf-8")
    return tuple(Document(**entry) for entry in json.loads(text))


def search(query: str, *, limit: int = 3) -> list[Document]:
    """The documents that share words with the query, best first.

    A shared word counts by its rarity, and three times where it is in the title. Ties keep the
    order of the file.

    Args:
        query: words to look for; case and common words do not matter.
        limit: how many documents come back at most.
    """
    wanted = set(_words(query))
    scores = [
        (sum(weights[word] for word in wanted & weights.keys()), document)
        for document, weights in zip(documents(), _weights(), strict=True)
    ]
    found = sorted((s for s in scores if s[0] > 0), key=lambda s: -s[0])
    return [document for _, document in found[:limit]]


@cache
def _weights() -> Sequence[Mapping[str, float]]:
    """For each document, what each of its words counts."""
    titles = [frozenset(_words(d.title)) for d in documents()]
    bodies = [frozenset(_words(f"{d.title} {d.text}")) for d in documents()]
    spread = Counter(word for body in bodies for word in body)
    return [
        {
            word: math.log(1 + len(bodies) / spread[word]) * (_TITLE_WEIGHT if word in title else 1)
            for word in body
        }
        for title, body in zip(titles, bodies, strict=True)
    ]


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _COMMON]
