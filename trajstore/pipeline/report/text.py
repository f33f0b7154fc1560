"""Numbers and imported text as a reader of the report sees them."""

from __future__ import annotations

import math
import re

NO_VALUE = "\N{EN DASH}"
"""Stands where there is no number."""

_STEERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)
_LONGEST = 120


def visible(text: str) -> str:
    r"""Text in which nothing is hidden.

    Control characters and marks that turn the reading direction are shown as what they are.

    >>> visible("a\u202eb\nc\x00")
    'a\\u202eb⏎c␀'
    """
    return text if text.isprintable() else _STEERS.sub(_sign, text)


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code == 0x0A:
        return "⏎"
    return chr(0x2400 + code) if code < 0x20 else f"\\u{code:04x}"


def short(text: object, most: int = _LONGEST) -> str:
    """Text of at most so many characters; ``…`` ends what was cut, ``(none)`` stands for None.

    >>> short("abcdef", 4), short(None)
    ('abc…', '(none)')
    """
    if text is None:
        return "(none)"
    words = str(text)
    return words if len(words) <= most else f"{words[: most - 1]}…"


def count(number: float | None) -> str:
    """A whole number with its thousands apart.

    >>> count(1234), count(None) == NO_VALUE
    ('1,234', True)
    """
    return NO_VALUE if number is None else f"{number:,.0f}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "run"), counted(2000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def compact(number: float | None) -> str:
    """A number in three digits and a letter.

    >>> [compact(x) for x in (0, 0.25, 12.0, 999, 1234, 2_500_000, 7.16e9)]
    ['0', '0.25', '12', '999', '1.23k', '2.5M', '7.16G']
    """
    if number is None or not math.isfinite(number):
        return NO_VALUE
    size = abs(number)
    for limit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if limit <= size < 1e15:
            return f"{number / limit:.3g}{sign}" if size < 999.5 * limit else f"{number:.3g}"
    return f"{number:.3g}"


def percent(share: float | None) -> str:
    r"""A share from 0 to 1 in per cent.

    >>> percent(0.42), percent(None) == NO_VALUE
    ('42.0\xa0%', True)
    """
    return NO_VALUE if share is None else f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def dollars(amount: float | None) -> str:
    """An amount in US dollars, cents where they say something.

    >>> dollars(0.246939), dollars(1234.5), dollars(0)
    ('$0.247', '$1,234.50', '$0')
    """
    if amount is None:
        return NO_VALUE
    return f"${amount:,.2f}" if abs(amount) >= 1 else f"${amount:.3g}"
