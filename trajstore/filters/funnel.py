"""The funnel of a selection as text: rows before and after each stage, and why rows went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trajstore.schema import json_text

if TYPE_CHECKING:
    from trajstore.filters.selection import Selection

_HEADINGS = ("stage", "parameters", "in", "out", "dropped")
_NUMBERS = frozenset({2, 3})
_WIDEST = 48


def explained(selection: Selection) -> str:
    """The funnel as an aligned table; the last line says what is left and of which snapshot."""
    lines = [
        (s.name, _parameters(s.parameters), f"{s.before:,}", f"{s.after:,}", _dropped(s.dropped))
        for s in selection.funnel
    ]
    at = "" if selection.snapshot is None else f" of snapshot {selection.snapshot}"
    left = f"{len(selection):,} trajectories{at} selected"
    return f"{_table(lines)}\n{left}" if lines else left


def _table(lines: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place in _NUMBERS else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (_HEADINGS, *lines)
    )


def _parameters(parameters: Mapping[str, Any]) -> str:
    """Parameters that say something; None, false and empty ones are left out."""
    said = {k: v for k, v in parameters.items() if v is not None and v is not False and v != []}
    return _short(", ".join(f"{k}={_value(v)}" for k, v in said.items()))


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _dropped(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} {count:,}" for reason, count in ordered)
