"""Print reports and rows: tables for people, JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from trajstore_cli._cells import pairs, safe_lines
from trajstore_cli._values import as_json

_SHOWN = 10
_CODES = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}


class Sink(Protocol):
    """The part of a text stream that printing needs."""

    def write(self, text: str, /) -> object:
        """Take text."""


def out(text: str, stream: Sink | None = None) -> None:
    """Print data."""
    print(text, file=stream or sys.stdout)


def say(text: str) -> None:
    """Print something that is not data, after the data that came before it."""
    sys.stdout.flush()
    print(safe_lines(text), file=sys.stderr, flush=True)  # noqa: T201


def say_some(items: Sequence[str], text: str) -> None:
    """Say a line for each of the first ten items, and how many more there are."""
    for item in items[:_SHOWN]:
        say(text.format(item))
    if len(items) > _SHOWN:
        say(f"... and {len(items) - _SHOWN:,} more; --json lists them")


def report(values: Mapping[str, Any], *, json: bool) -> None:
    """Print a report: one JSON object, or aligned lines."""
    out(as_json(values) if json else pairs(values))


def rows(values: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as JSON lines."""
    for row in values:
        out(as_json(row))


def paint(text: str, *styles: str) -> str:
    """Text in colours, where stdout is a terminal and ``NO_COLOR`` is not set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not styles or not sys.stdout.isatty():
        return text
    codes = ";".join(str(_CODES[style]) for style in styles)
    return f"\x1b[{codes}m{text}\x1b[0m"
