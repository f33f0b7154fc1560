"""Values of sources as the plain types that columns hold, whatever JSON they were."""

from __future__ import annotations

from typing import Any

from trajstore.importers.building import whole
from trajstore.schema import json_text

_MOST = 2**63 - 1
_MOST_ID = 2**31 - 1


def words(value: Any) -> str | None:
    """Text as it is, None for None, and JSON text for anything else.

    >>> words("a"), words(None), words(["a", 1])
    ('a', None, '["a",1]')
    """
    return value if value is None or isinstance(value, str) else json_text(value)


def count(value: Any) -> int | None:
    """A count that fits 64 bits, or None.

    >>> count("12"), count(1e300), count("abc")
    (12, None, None)
    """
    found = whole(value)
    return found if found is not None and -_MOST <= found <= _MOST else None


def token_ids(value: Any) -> tuple[int, ...] | None:
    """Token ids, or None where the value is no list of 32-bit whole numbers.

    >>> token_ids([1, 2]), token_ids([1, "x"]), token_ids([])
    ((1, 2), None, None)
    """
    if not isinstance(value, list) or not value:
        return None
    found = [count(n) for n in value]
    kept = [n for n in found if n is not None and abs(n) <= _MOST_ID]
    return tuple(kept) if len(kept) == len(value) else None


def numbers(value: Any) -> tuple[float, ...] | None:
    """Numbers as floats, or None where the value is no list of numbers.

    >>> numbers([-1, -0.5]), numbers(["x"])
    ((-1.0, -0.5), None)
    """
    if not isinstance(value, list) or not value:
        return None
    kept = [float(n) for n in value if isinstance(n, int | float)]
    return tuple(kept) if len(kept) == len(value) else None
