"""Values of session records, checked: what a field should hold, or an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def text_in(record: Mapping[str, Any], name: str) -> str | None:
    """The text of a field; None where it is missing or null.

    Raises:
        TypeError: it holds something else.
    """
    value = record.get(name)
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"field '{name}' holds {type(value).__name__} and not text")


def name_in(record: Mapping[str, Any], name: str) -> str | None:
    """An id or a name as text; None where it is missing, null or no scalar."""
    value = record.get(name)
    if value is None or isinstance(value, Mapping | list):
        return None
    return str(value)


def flag_in(record: Mapping[str, Any], name: str) -> bool | None:
    """A flag; None where it is missing or no boolean."""
    value = record.get(name)
    return value if isinstance(value, bool) else None


def objects_in(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects of a list field; [] where it is missing or no list."""
    value = record.get(name)
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []
