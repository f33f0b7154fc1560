"""What an integrity rule found in a run, and the names of the rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rule = Literal[
    "tests-deleted",
    "tests-skipped",
    "tests-edited",
    "reward-gaming",
    "answer-read",
    "gold-copied",
    "unverified-claim",
    "tests-read",
    "history-read",
    "answer-fetched",
]
"""Every rule, the gravest first; a run is dropped for the first one that fires."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found."""

    rule: Rule
    """The rule."""
    step_index: int
    """The step."""
    what: str
    """What was found there, in a few words."""


def short(text: str, most: int = 120) -> str:
    """One line of at most ``most`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
