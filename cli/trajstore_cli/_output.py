"""Print reports and rows: tables for people, JSON for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import IO, Any

_CELL = 60


def as_json(value: Any) -> str:
    """One line of JSON; times in ISO 8601."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def cell(value: Any, *, width: int = _CELL) -> str:
    """A value as one short line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict | list):
        value = as_json(value)
    text = str(value).replace("\r", "").replace("\n", "⏎")
    return text if len(text) <= width else text[: width - 1] + "…"


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as an aligned table; numbers to the right. Long cells are cut with ``…``."""
    names = list(columns if columns is not None else (rows[0].keys() if rows else ()))
    body = [[cell(row.get(n)) for n in names] for row in rows]
    widths = [max([len(n), *(len(r[i]) for r in body)]) for i, n in enumerate(names)]
    right = [
        all(isinstance(r.get(n), int | float | None) for r in rows)
        and not any(isinstance(r.get(n), bool) for r in rows)
        for n in names
    ]

    def line(cells: Sequence[str]) -> str:
        padded = [
            c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(names), line(["─" * w for w in widths]), *map(line, body)])


def pairs(report: Mapping[str, Any]) -> str:
    """A report as aligned ``name  value`` lines; empty values are left out."""
    kept = {k: v for k, v in report.items() if v not in (None, [], {}, "")}
    width = max((len(k) for k in kept), default=0)
    return "\n".join(f"{k.ljust(width)}  {_value(v)}" for k, v in kept.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return cell(value, width=200)


def to_csv(columns: Sequence[str], batches: Iterable[list[dict[str, Any]]]) -> Iterator[str]:
    """Rows as CSV text, piece by piece; nested values as JSON."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for rows in batches:
        for row in rows:
            values = [row[c] for c in columns]
            writer.writerow(
                [as_json(v) if isinstance(v, dict | list) else _plain_cell(v) for v in values]
            )
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _plain_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else value


def say(text: str) -> None:
    """Print something that is not data."""
    print(text, file=sys.stderr)  # noqa: T201


def out(text: str, stream: IO[str] | None = None) -> None:
    """Print data."""
    print(text, file=stream or sys.stdout)
