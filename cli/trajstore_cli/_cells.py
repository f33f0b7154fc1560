"""Values as text for a terminal: safe, short and aligned.

Stored text is data: whatever could steer a terminal (escape sequences, control characters, marks
that reverse the reading direction) is shown as a visible sign instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from trajstore_cli._values import as_json, moment

_CELL = 60
_WIDE = 160
_STEERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_STEERS_BUT_LINES = re.compile(_STEERS.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def safe(text: str) -> str:
    r"""One line of text in which nothing can steer a terminal; a line break becomes ``⏎``.

    >>> safe("a\x1b[2Jb\r\nc\x9b")
    'a␛[2Jb⏎c\\x9b'
    """
    if text.isprintable():
        return text
    return _STEERS.sub(_visible, text.replace("\r\n", "\n").replace("\n", "⏎"))


def safe_lines(text: str) -> str:
    """Text in which nothing can steer a terminal; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return _STEERS_BUT_LINES.sub(_visible, text.replace("\r\n", "\n"))


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def columns_taken(text: str) -> int:
    """Columns that the text takes on a terminal: wide characters count two, combining ones none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - columns_taken(text))
    return space + text if right else text + space


def shortened(text: str, width: int) -> str:
    """Text of at most so many columns; ``…`` ends what was cut."""
    if columns_taken(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1) + "…"


def cell(value: Any, *, width: int = _CELL, null: str = "") -> str:
    """A value as one short line.

    Args:
        value: of any type that Arrow gives.
        width: columns at most.
        null: what stands for a missing value.
    """
    if value is None:
        return null
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.15g}"
    if isinstance(value, str):
        text = value
    elif isinstance(value, dict | list):
        text = as_json(value)
    elif isinstance(value, bytes):
        text = value.hex()
    else:
        text = moment(value) or str(value)
    # Eight code points a column are plenty, and cleaning a megabyte to show 60 columns is not.
    text = text if len(text) <= 8 * width else text[: 8 * width] + "…" * width
    return shortened(safe(text), width)


def table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None, *, null: str = ""
) -> str:
    """Rows as an aligned table, numbers to the right, long cells cut with ``…``.

    Rows that take more than 160 columns are written one value a line instead, uncut up to there.

    Args:
        rows: what to show.
        columns: names in order; those of the first row where None.
        null: what stands for a missing value.
    """
    names = list(columns if columns is not None else (rows[0] if rows else ()))
    heads = [cell(name) for name in names]
    body = [[cell(row.get(n), null=null) for n in names] for row in rows]
    widths = [max(columns_taken(c) for c in column) for column in zip(heads, *body, strict=True)]
    if rows and sum(widths) + 2 * len(widths) > _WIDE:
        return _blocks(rows, names, null)
    right = [_is_number([row.get(n) for row in rows]) for n in names]

    def line(cells: Sequence[str]) -> str:
        aligned = zip(cells, widths, right, strict=True)
        return "  ".join(_padded(c, w, right=r) for c, w, r in aligned).rstrip()

    return "\n".join([line(heads), line(["─" * w for w in widths]), *map(line, body)])


def _is_number(values: Sequence[Any]) -> bool:
    known = [v for v in values if v is not None]
    return bool(known) and all(
        isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in known
    )


def _blocks(rows: Sequence[Mapping[str, Any]], names: Sequence[str], null: str) -> str:
    heads = [cell(name) for name in names]
    width = max(map(columns_taken, heads))
    room = _WIDE - width - 2
    blocks = []
    for number, row in enumerate(rows, 1):
        lines = [
            f"{_padded(head, width)}  {cell(row.get(name), width=room, null=null)}".rstrip()
            for head, name in zip(heads, names, strict=True)
        ]
        blocks.append("\n".join([f"── row {number} ".ljust(width + 2, "─"), *lines]))
    return "\n".join(blocks)


def pairs(report: Mapping[str, Any]) -> str:
    """A report as aligned ``name  value`` lines; what is unknown or empty is left out."""
    kept = {k: v for k, v in report.items() if v not in (None, [], (), {}, "")}
    width = max((len(k) for k in kept), default=0)
    return "\n".join(
        f"{k.ljust(width)}  {str(v) if k == 'snapshot' else _counted(v)}" for k, v in kept.items()
    )


def _counted(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{cell(k)} {_counted(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_counted(v) for v in value)
    return cell(value, width=200)


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count_of(1, "row"), count_of(2000, "row"), count_of(0, "trajectory", "trajectories")
    ('1 row', '2,000 rows', '0 trajectories')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
