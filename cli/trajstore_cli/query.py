"""``trajstore query``, ``shell`` and ``info``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._options import AtOption, JsonOption, StoreArgument, open_store
from trajstore_cli._output import as_json, out, pairs, say, table, to_csv

if TYPE_CHECKING:
    import pyarrow as pa

    from trajstore.store import Reader

_TABLE_ROWS = 1_000


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


def query(
    store: StoreArgument,
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="One SELECT over the views; - is stdin.")
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
    format: Annotated[  # noqa: A002  the name of the flag
        Format | None, typer.Option("--format", help="By the file's ending if not given.")
    ] = None,
    at: AtOption = None,
    timeout: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Run one read-only SQL query over the views (DuckDB).

    Example: trajstore query pool "select agent, avg(success::int) from trajectories group by 1"
    """
    pool = open_store(store)
    reader = pool.at(at) if at is not None else pool.reader()
    text = sys.stdin.read() if sql == "-" else sql
    chosen = Format.JSONL if json else format or _by_name(output)
    rows = reader.query(text, timeout_s=timeout)
    if output is None or str(output) == "-":
        _write(rows, chosen, sys.stdout)
        return
    if chosen is Format.PARQUET:
        _write_parquet(rows, output)
        return
    with output.open("w", encoding="utf-8") as file:
        _write(rows, chosen, file)


def _by_name(output: Path | None) -> Format:
    ending = output.suffix.lstrip(".").lower() if output is not None else ""
    known = {f.value for f in Format}
    if output is not None and str(output) != "-" and ending not in known:
        message = f"cannot tell the format of {output}; give --format ({', '.join(sorted(known))})"
        raise typer.BadParameter(message)
    return Format(ending) if ending in known else Format.TABLE


def _write(rows: pa.RecordBatchReader, format: Format, stream: Any) -> None:  # noqa: A002
    names = rows.schema.names
    if len(set(names)) < len(names):
        rows = rows.rename_columns(_unique(names)) if hasattr(rows, "rename_columns") else rows
    batches = (batch.to_pylist() for batch in rows)
    if format is Format.PARQUET:
        raise typer.BadParameter("parquet needs a file: -o FILE", param_hint="--format")
    if format is Format.TABLE:
        _write_table(names, batches, stream)
    elif format is Format.CSV:
        for piece in to_csv(names, batches):
            stream.write(piece)
    elif format is Format.JSONL:
        for batch in batches:
            stream.writelines(as_json(row) + "\n" for row in batch)
    else:
        stream.write("[")
        between = ""
        for batch in batches:
            for row in batch:
                stream.write(between + as_json(row))
                between = ",\n "
        stream.write("]\n")


def _unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return result


def _write_table(names: list[str], batches: Iterator[list[dict[str, Any]]], stream: Any) -> None:
    shown: list[dict[str, Any]] = []
    more = 0
    for batch in batches:
        room = _TABLE_ROWS - len(shown)
        shown += batch[:room]
        more += len(batch[room:])
    out(table(shown, names), stream)
    say(f"{len(shown) + more:,} rows" + (f", the first {_TABLE_ROWS:,} shown" if more else ""))


def _write_parquet(rows: pa.RecordBatchReader, output: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(output, rows.schema, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch)


def shell(store: StoreArgument, at: AtOption = None) -> None:
    """Open an SQL prompt on the views; a query ends with `;`, `.tables` lists the views.

    Example: trajstore shell pool
    """
    from trajstore.errors import TrajstoreError
    from trajstore.store import VIEW_MEANINGS

    pool = open_store(store)
    reader = pool.at(at) if at is not None else pool.reader()
    interactive = sys.stdin.isatty()
    if interactive:
        import readline  # noqa: F401  line editing and history in input()

        say(f"{store} at snapshot {reader.snapshot.version}; end a query with ; — .tables .quit")
    for text in _statements(interactive=interactive):
        if text == ".quit":
            return
        if text == ".tables":
            width = max(map(len, VIEW_MEANINGS))
            out("\n".join(f"{n.ljust(width)}  {m}" for n, m in VIEW_MEANINGS.items()))
            continue
        try:
            _run(reader, text)
        except TrajstoreError as error:
            say(f"error: {error}")
            if not interactive:
                raise typer.Exit(1) from None


def _run(reader: Reader, text: str) -> None:
    _write(reader.query(text), Format.TABLE, sys.stdout)


def _statements(*, interactive: bool) -> Iterator[str]:
    lines: list[str] = []
    while True:
        try:
            line = input(("   ...> " if lines else "trajstore> ") if interactive else "")
        except EOFError:
            break
        if not lines and line.strip() in {".quit", ".exit", ".tables"}:
            yield ".quit" if line.strip() == ".exit" else line.strip()
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines = []
    if "".join(lines).strip():
        yield "\n".join(lines)


def info(store: StoreArgument, json: JsonOption = False) -> None:
    """Show what a store holds: counts, outcomes, sources, agents, sizes.

    Example: trajstore info pool
    """
    from trajstore.pipeline import describe

    values = describe(open_store(store))
    if json:
        out(as_json(values))
        return
    groups = {k: values.pop(k) for k in list(values) if k.startswith("by_")}
    out(pairs(values))
    for name, rows in groups.items():
        if any(r["name"] is not None for r in rows):
            out(f"\n{name.replace('_', ' ')}\n{table(rows)}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(query)
    app.command()(shell)
    app.command()(info)
