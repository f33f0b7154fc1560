"""What a code exercise is made from: a right module, ways to break it, and questions to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

Level = Literal[1, 2, 3]
"""1: a short function; 2: a longer one, or a class; 3: two bugs at once."""

Question = tuple[str, tuple[Any, ...]]
"""Name of a function, a class or a ``.method``, and its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A right module. Its docstrings say all that is asked of it."""

    module: str
    """Name of the module."""
    level: Literal[1, 2]
    """Level with one bug; with two it is 3."""
    source: str
    """Text of the module."""
    bugs: tuple[tuple[str, str], ...]
    """Right piece of text and wrong one; the right one occurs exactly once in the source."""
    draw: Callable[[Random], tuple[Question, ...]]
    """Makes the questions of one case."""

    def broken(self, bugs: tuple[int, ...]) -> str:
        """The source with these bugs."""
        text = self.source
        for number in bugs:
            right, wrong = self.bugs[number]
            assert text.count(right) == 1, (self.module, right)
            text = text.replace(right, wrong)
        return text


def one(name: str, *arguments: Any) -> tuple[Question, ...]:
    """A case of a single call."""
    return ((name, arguments),)


def numbers(random: Random, most: int, low: int = -20, high: int = 50) -> list[int]:
    """Up to ``most`` whole numbers, and now and then none."""
    return [random.randint(low, high) for _ in range(random.randint(0, most))]


def words(random: Random, most: int, alphabet: str = "abc") -> list[str]:
    """Up to ``most`` short words, many of them equal."""
    return [
        "".join(random.choices(alphabet, k=random.randint(1, 3)))
        for _ in range(random.randint(0, most))
    ]
