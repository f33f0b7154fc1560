"""Values as JSON: exact, and safe to show on a terminal."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import typer

_ESCAPED = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def as_json(value: Any) -> str:
    r"""One line of JSON: times in ISO 8601, bytes in hexadecimal, NaN and infinity as null.

    Characters that could steer a terminal are written as escapes, which say the same.

    >>> as_json({"a": float("nan"), "b": Decimal("1.50"), "c": "\x9b2J"})
    '{"a": null, "b": 1.5, "c": "\\u009b2J"}'
    """
    try:
        text = _ENCODER.encode(value)
    except (ValueError, TypeError):
        text = _ENCODER.encode(_finite(value))
    if text.isascii() and "\x7f" not in text:
        return text
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _finite(value: Any) -> Any:
    """The value without what JSON cannot say: numbers that are none, keys that are no text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k if isinstance(k, str) else str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, bytes):
        return value.hex()
    return moment(value) or str(value)


def _number(value: Decimal) -> int | float | None:
    if not value.is_finite():
        return None
    return int(value) if value == value.to_integral_value() else float(value)


def moment(value: object) -> str | None:
    """A time in ISO 8601, with ``Z`` for UTC; None for what is no time."""
    if isinstance(value, datetime):
        return value.isoformat().removesuffix("+00:00") + ("Z" if _is_utc(value) else "")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta) else None


def _is_utc(value: datetime) -> bool:
    return value.tzinfo is not None and value.utcoffset() == timedelta(0)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain)


def settings(given: Iterable[str], *, hint: str) -> dict[str, Any]:
    """``KEY=VALUE`` texts as a mapping; values are JSON where they parse as such, else text.

    >>> settings(["n=2", "by=tokens", "least-runs=3"], hint="--set")
    {'n': 2, 'by': 'tokens', 'least_runs': 3}

    Args:
        given: the texts.
        hint: the option that they come from, for the message.
    """
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"'{text}' is not KEY=VALUE", param_hint=hint)
        try:
            found[key.replace("-", "_")] = json.loads(value)
        except ValueError:
            found[key.replace("-", "_")] = value
    return found
