"""On which line of a TOML text each key stands, which ``tomllib`` does not tell."""

from __future__ import annotations

import bisect
import re
import tomllib
from collections import Counter
from collections.abc import Mapping

KeyPath = tuple[str | int, ...]
"""Keys, and places in lists, from the top of the document."""

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACES = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
_STRINGS = (
    r'"{3}(?:\\[\s\S]|[^\\"]|"{1,2}(?!"))*"{3,5}',
    r"'{3}(?:[^']|'{1,2}(?!'))*'{3,5}",
    r'"(?:\\.|[^"\\\n])*"',
    r"'[^'\n]*'",
)
_STRING = re.compile("|".join(_STRINGS))
_BARE = re.compile(r"[^,\]}#\n]+")


def lines_of(text: str) -> Mapping[KeyPath, int]:
    r"""The line, counted from 1, of every key, table and list item.

    >>> lines_of("a = 1\n\n[[b]]\nc.d = [\n  2,\n]")[("b", 0, "c", "d", 0)]
    5

    Args:
        text: TOML that ``tomllib`` has read without an error.
    """
    return _Scanner(text).scan()


class _Scanner:
    """Walks over the text once; knows its place, the table that it is in, and what it found."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [m.start() for m in re.finditer("\n", text)]
        self._lists: Counter[KeyPath] = Counter()
        self._found: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while not self._ended():
            if self._takes("[["):
                table = self._header(is_list=True)
            elif self._takes("["):
                table = self._header(is_list=False)
            else:
                self._pair(table)
        return self._found

    def _ended(self) -> bool:
        self._skip(_BLANK)
        return self._at >= len(self._text)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            message = f"no TOML at character {self._at}: {self._text[self._at : self._at + 20]!r}"
            raise ValueError(message)
        self._at = found.end()
        return found[0]

    def _takes(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _mark(self, path: KeyPath) -> None:
        self._found.setdefault(path, bisect.bisect_left(self._ends, self._at) + 1)

    def _header(self, *, is_list: bool) -> KeyPath:
        keys = self._keys()
        table: KeyPath = ()
        for key in keys[:-1]:
            table = self._entered((*table, key))
        table = (*table, keys[-1])
        self._mark(table)
        if is_list:
            self._lists[table] += 1
        table = self._entered(table)
        self._at += 2 if is_list else 1
        return table

    def _entered(self, table: KeyPath) -> KeyPath:
        """The table, or the newest one of a list of tables."""
        self._mark(table)
        if self._lists[table]:
            table = (*table, self._lists[table] - 1)
            self._mark(table)
        return table

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACES)
            raw = self._skip(_KEY)
            keys.append(tomllib.loads(f"x = {raw}")["x"] if raw[0] in "\"'" else raw)
            self._skip(_SPACES)
            if not self._takes("."):
                return keys

    def _pair(self, table: KeyPath) -> None:
        place = table
        for key in self._keys():
            place = (*place, key)
            self._mark(place)
        self._at += 1
        self._skip(_SPACES)
        self._value(place)

    def _value(self, place: KeyPath) -> None:
        if self._text[self._at] in "\"'":
            self._skip(_STRING)
        elif self._takes("["):
            number = 0
            while not self._closed("]"):
                self._mark((*place, number))
                self._value((*place, number))
                number += 1
        elif self._takes("{"):
            while not self._closed("}"):
                self._pair(place)
        else:
            self._skip(_BARE)

    def _closed(self, sign: str) -> bool:
        """Whether a list or table ends here; else its next item begins here."""
        self._skip(_BLANK)
        if self._takes(","):
            self._skip(_BLANK)
        return self._takes(sign)
