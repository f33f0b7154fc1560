"""JSON as text: canonical for comparing, compact and order-keeping for keeping."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any


def _finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON has no word for, by their names as strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


def _writer(*, sort_keys: bool) -> Callable[[Any], str]:
    """What writes one value; it is built once, as ``JSONEncoder.encode`` builds one every time."""
    plain = json.JSONEncoder(
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        sort_keys=sort_keys,
        default=str,
        check_circular=False,
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    chunks: Callable[..., Iterable[str]] = plain.iterencode
    if make is not None:  # an interpreter with the C accelerator
        escape = json.encoder.encode_basestring
        chunks = make(None, str, escape, None, ":", ",", sort_keys, False, False)

    def write(value: Any) -> str:
        try:
            text = "".join(chunks(value, 0))
        except (ValueError, TypeError):
            text = "".join(chunks(_finite(value), 0))
        return text if text.isascii() else clean_text(text)

    return write


_NAMED = re.compile(r'"(?:nan|-?inf)"')

_canonical = _writer(sort_keys=True)
_compact = _writer(sort_keys=False)


def clean_text(text: str) -> str:
    r"""Return ``text`` in a form that UTF-8 can hold.

    JSON allows half a surrogate pair (``"\ud83d"``) and UTF-8 does not. Such halves are written
    out as their escape, so nothing is lost and nothing else changes.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def canonical_json(value: Any) -> str:
    """JSON text with sorted keys and no spaces: equal values give equal text.

    >>> canonical_json({"b": 1, "a": [1, 2]})
    '{"a":[1,2],"b":1}'
    """
    return _canonical(value)


def strict_json(value: Any) -> str | None:
    """Like :func:`canonical_json`, with None for a value that holds NaN or an infinity.

    >>> strict_json({"a": float("nan")}) is None
    True
    """
    text = _canonical(value)
    return None if _NAMED.search(text) and not _is_finite(value) else text


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def json_text(value: Any) -> str:
    """Compact JSON text that keeps the order of keys.

    >>> json_text({"b": 1, "a": "é"})
    '{"b":1,"a":"é"}'
    """
    return _compact(value)


def json_text_or_none(value: Any) -> str | None:
    """Like :func:`json_text`, with None for None and for an empty object or list."""
    if value is None or value in ({}, []):
        return None
    return json_text(value)
