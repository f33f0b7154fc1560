"""Identities for runs that have none: content, and how often the same content came before."""

from __future__ import annotations

from collections import Counter
from typing import Any

from trajstore.schema import digest


class Occurrences:
    """Gives keys within one file, so that equal attempts stay different and a second import equal.

    One object serves one reading of one file. It holds a short hash of each run, not the run.
    """

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._seen: Counter[str] = Counter()

    def key(self, *content: Any) -> str:
        """A digest of the content with its number among equal ones, from 1."""
        short = digest(*content)[:32]
        self._seen[short] += 1
        return f"{short}/{self._seen[short]}"
