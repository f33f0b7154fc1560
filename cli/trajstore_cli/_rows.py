"""Rows of a query in every format, a batch at a time so that memory stays flat."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trajstore_cli._cells import count_of, safe_lines, table
from trajstore_cli._output import Sink, out, say
from trajstore_cli._values import as_json, moment

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE_ROWS = 1_000
_ROWS_AT_ONCE = 5_000

Columns = list[list[Any]]
"""One list of values a column."""


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


_ENDINGS = {"txt": Format.TABLE, "ndjson": Format.JSONL, **{f.value: f for f in Format}}


def format_of(output: Path | None) -> Format:
    """The format that a file's ending names; a table for stdout."""
    if output is None or str(output) == "-":
        return Format.TABLE
    ending = output.suffix.removeprefix(".").lower()
    if ending not in _ENDINGS:
        message = (
            f"the ending of {output} names no format; end it in .csv, .json, .jsonl or .parquet, "
            "or give --format"
        )
        raise typer.BadParameter(message, param_hint="--output")
    return _ENDINGS[ending]


def write_rows(rows: pa.RecordBatchReader, format: Format, output: Path | None) -> int:  # noqa: A002
    """Write rows to a file, or to stdout for None and ``-``, and give their number.

    A file appears under its name when it is complete.
    """
    names = unique(rows.schema.names)
    if output is None or str(output) == "-":
        if format is Format.PARQUET:
            return _write_parquet(names, rows, _binary_stdout())
        return _WRITERS[format](names, rows, _stdout(format))
    with in_place(output) as path:
        if format is Format.PARQUET:
            return _write_parquet(names, rows, str(path))
        with path.open("w", encoding="utf-8", newline="\n") as file:
            return _WRITERS[format](names, rows, file)


def _stdout(format: Format) -> Sink:  # noqa: A002
    """Stdout; CSV cannot escape what steers a terminal, so it is made visible on one."""
    return _Terminal() if format is Format.CSV and sys.stdout.isatty() else sys.stdout


class _Terminal:
    def write(self, text: str, /) -> object:
        return sys.stdout.write(safe_lines(text))


def _binary_stdout() -> Any:
    import pyarrow as pa

    if sys.stdout.isatty():
        raise typer.BadParameter("parquet is not for a terminal; give -o FILE or pipe it on")
    return pa.PythonFile(_Counted(), mode="w")


class _Counted:
    """Stdout that knows its position, which a pipe does not and Parquet asks for."""

    closed = False

    def __init__(self) -> None:
        self._at = 0

    def write(self, data: bytes) -> int:
        self._at += sys.stdout.buffer.write(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def close(self) -> None:
        self.flush()


@contextmanager
def in_place(output: Path) -> Iterator[Path]:
    """A temporary name beside the file, which takes its place at the end; devices as they are."""
    if output.exists() and not output.is_file():
        yield output
        return
    target = output.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.touch()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(output)) from error
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def unique(names: Sequence[str]) -> list[str]:
    """Column names in which none occurs twice.

    >>> unique(["a", "a", "a_2", "a"])
    ['a', 'a_3', 'a_2', 'a_4']
    """
    taken = set(names)
    result: list[str] = []
    for name in names:
        number, free = 2, name
        while free in result or (free != name and free in taken):
            free, number = f"{name}_{number}", number + 1
        result.append(free)
    return result


def _columns(names: list[str], rows: pa.RecordBatchReader) -> Iterator[Columns]:
    """Values of a few thousand rows at a time."""
    for batch in rows:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            yield [_values(n, part.column(i)) for i, n in enumerate(names)]


def _values(name: str, column: pa.Array) -> list[Any]:
    import pyarrow as pa

    from trajstore.errors import QueryError

    try:
        if column.type == pa.month_day_nano_interval():
            return [None if v is None else _interval(v) for v in column.to_pylist()]
        values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    except TypeError:  # keys of a map that no dict can hold
        values = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:
        message = (
            f"The column '{name}' ({column.type}) holds a value that cannot be shown: {error}. "
            "Cast it to text in the query (::varchar)."
        )
        raise QueryError(message) from error
    return values


def _interval(value: Any) -> str:
    """An interval in ISO 8601: months, days and seconds."""
    seconds = f"{value.nanoseconds / 1e9:.9f}".rstrip("0").rstrip(".")
    return f"P{value.months}M{value.days}DT{seconds}S"


def _write_table(names: list[str], rows: pa.RecordBatchReader, stream: Sink) -> int:
    shown: list[dict[str, Any]] = []
    total = 0
    for batch in rows:
        room = _TABLE_ROWS - len(shown)
        if room > 0:
            part = batch.slice(0, room)
            values = [_values(n, part.column(i)) for i, n in enumerate(names)]
            shown += [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
        total += batch.num_rows
    if names == ["explain_key", "explain_value"]:
        out("\n".join(safe_lines(str(row["explain_value"])) for row in shown), stream)
        return total
    out(table(shown, names, null="NULL"), stream)
    more = f"; the first {_TABLE_ROWS:,} are shown, --format csv or jsonl writes all"
    say(count_of(total, "row") + (more if total > _TABLE_ROWS else ""))
    return total


def _write_csv(names: list[str], rows: pa.RecordBatchReader, stream: Sink) -> int:
    stream.write(",".join(map(_quoted, names)) + "\n")
    total = 0
    for columns in _columns(names, rows):
        lines = [",".join(map(_field, row)) + "\n" for row in zip(*columns, strict=True)]
        stream.write("".join(lines))
        total += len(lines)
    return total


def _field(value: Any) -> str:
    """A CSV field: nothing for a missing value, quotes around empty text, JSON where nested."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict | list | tuple | bytes):
        return _quoted(as_json(value).strip('"') if isinstance(value, bytes) else as_json(value))
    return _quoted(moment(value) or str(value))


def _quoted(text: str) -> str:
    if text and not any(c in text for c in ',"\n\r') and text.strip() == text:
        return text
    return '"' + text.replace('"', '""') + '"'


def _write_jsonl(names: list[str], rows: pa.RecordBatchReader, stream: Sink) -> int:
    total = 0
    for columns in _columns(names, rows):
        stream.write("".join(line + "\n" for line in _objects(names, columns)))
        total += len(columns[0])
    return total


def _write_json(names: list[str], rows: pa.RecordBatchReader, stream: Sink) -> int:
    stream.write("[")
    total = 0
    for columns in _columns(names, rows):
        for line in _objects(names, columns):
            stream.write((",\n " if total else "") + line)
            total += 1
    stream.write("]\n")
    return total


def _objects(names: list[str], columns: Columns) -> Iterator[str]:
    return (as_json(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True))


_WRITERS: dict[Format, Callable[[list[str], Any, Sink], int]] = {
    Format.TABLE: _write_table,
    Format.CSV: _write_csv,
    Format.JSON: _write_json,
    Format.JSONL: _write_jsonl,
}


def _write_parquet(names: list[str], rows: pa.RecordBatchReader, target: Any) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from trajstore.errors import QueryError

    schema = pa.schema([f.with_name(n) for f, n in zip(rows.schema, names, strict=True)])
    total = 0
    try:
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for batch in rows:
                writer.write_batch(pa.record_batch(batch.columns, schema=schema))
                total += batch.num_rows
    except pa.ArrowNotImplementedError as error:
        message = f"Parquet cannot hold a column of the result: {error}. Cast it to text."
        raise QueryError(message) from error
    return total
