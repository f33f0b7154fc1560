"""Find secrets in text and replace them by typed placeholders.

The formats stand in :mod:`.secret_formats`. The library detect-secrets is not used: it works line
by line and answers with values instead of places, so it cannot cut out a whole private key, it
knows no Anthropic, Google or Hugging Face keys, and on agent logs its format plugins alone took 70
times as long.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trajstore.filters.secret_formats import FAMILIES, Format


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """One secret and its place: ``text[start:end]``."""

    kind: str
    """What it is, one of :data:`SECRET_KINDS`."""
    start: int
    """First character, from 0."""
    end: int
    """One past the last character."""


def find_secrets(text: str) -> list[SecretMatch]:
    """Every secret of a known format in ``text``, in order, none overlapping.

    Where two formats overlap, the match covers both and has the name of the more specific one.
    Stand-ins such as ``sk-...``, ``ghp_xxxxxxxx`` or ``${TOKEN}`` are not secrets.

    >>> find_secrets("export TOKEN=ghp_" + "a1B2" * 9)
    [SecretMatch(kind='github-token', start=13, end=53)]
    """
    found: list[SecretMatch] = []
    for family in FAMILIES:
        if family.may_hold(text):
            for format_ in family.formats:
                found += _matches(format_, text)
    return _merge(found) if len(found) > 1 else found


def _matches(format_: Format, text: str) -> list[SecretMatch]:
    group = 1 if format_.pattern.groups else 0
    return [
        SecretMatch(format_.kind, *match.span(group))
        for match in format_.pattern.finditer(text)
        if format_.is_real(match[group])
    ]


def _merge(found: list[SecretMatch]) -> list[SecretMatch]:
    """Join what overlaps; ``found`` comes in order of the table, so the first one names it."""
    rank = {id(match): n for n, match in enumerate(found)}
    merged: list[SecretMatch] = []
    best = 0
    for match in sorted(found, key=lambda m: (m.start, rank[id(m)])):
        if merged and match.start < merged[-1].end:
            last = merged[-1]
            kind = last.kind if best <= rank[id(match)] else match.kind
            best = min(best, rank[id(match)])
            merged[-1] = SecretMatch(kind, last.start, max(last.end, match.end))
        else:
            merged.append(match)
            best = rank[id(match)]
    return merged


def placeholder(kind: str) -> str:
    """What stands in the text instead of a secret of that kind.

    >>> placeholder("jwt")
    '[REDACTED:jwt]'
    """
    return f"[REDACTED:{kind}]"


def redact(text: str) -> tuple[str, Counter[str]]:
    """Replace every secret in ``text`` by its placeholder.

    Returns:
        The text (the same object where nothing was found) and how many of each kind there were.

    >>> redact("key AKIAIOSFODNN7EXAMPLE ok")
    ('key [REDACTED:aws-access-key-id] ok', Counter({'aws-access-key-id': 1}))
    """
    found = find_secrets(text)
    if not found:
        return text, Counter()
    pieces: list[str] = []
    position = 0
    for match in found:
        pieces += (text[position : match.start], placeholder(match.kind))
        position = match.end
    pieces.append(text[position:])
    return "".join(pieces), Counter(match.kind for match in found)
