"""Which embedder made the vectors of an index: two with one fingerprint give the same vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What decides the vectors that an embedder makes."""

    model: str
    """The model's name."""
    weights: str
    """SHA-256 of the weight files; of name and version of the code where there are none; of the
    endpoint's URL and model where nobody can look at them."""
    dimension: int
    """Numbers in a vector; 0 where there are no vectors."""
    normalised: bool
    """Whether vectors have length 1."""
    prompt: str | None = None
    """Text put in front of a query, where the model wants one."""
    max_tokens: int | None = None
    """Tokens of a text that the model reads; the rest is cut."""

    def key(self) -> str:
        """A short name of it, for a table."""
        text = repr(sorted(asdict(self).items()))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From what :meth:`to_json` gave."""
        return cls(**value)


def hash_files(paths: Iterable[Path]) -> str:
    """SHA-256 over names and contents of files, in order of their names."""
    whole = hashlib.sha256()
    for path in sorted(paths, key=lambda p: p.name):
        whole.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                whole.update(block)
    return whole.hexdigest()


def hash_text(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
