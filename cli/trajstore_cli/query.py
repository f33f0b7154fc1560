"""``trajstore query``, ``shell`` and ``info``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trajstore_cli._cells import pairs, table
from trajstore_cli._command import add
from trajstore_cli._options import (
    AtOption,
    FailEmptyOption,
    JsonOption,
    StoreArgument,
    open_reader,
    open_store,
)
from trajstore_cli._output import out, report
from trajstore_cli._rows import Format, format_of, write_rows


def query(
    store: StoreArgument,
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="One SELECT over the views; - reads it from stdin.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write to a file instead of stdout."),
    ] = None,
    format: Annotated[  # noqa: A002  the name of the flag
        Format | None,
        typer.Option("--format", help="Form of the rows; the file's ending says it, else table."),
    ] = None,
    at: AtOption = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after so many seconds.")
    ] = None,
    fail_empty: FailEmptyOption = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines; the same as jsonl.")] = False,
) -> None:
    """Run one read-only SQL query over the views (DuckDB).

    A table is for reading: it shows the first 1,000 rows, cuts long values with … and writes NULL
    for a missing value (empty text is empty). csv, json, jsonl and parquet hold every row whole.

    Example: trajstore query pool "select agent, avg(success::int) from trajectories group by 1"
    """
    text = sys.stdin.read() if sql == "-" else sql
    if not text.strip():
        raise typer.BadParameter("the query is empty", param_hint="SQL")
    if timeout is not None and not timeout > 0:
        raise typer.BadParameter("a timeout is more than 0 seconds", param_hint="--timeout")
    if json and format not in {None, Format.JSONL}:
        raise typer.BadParameter(f"--json and --format {format} say different things")
    chosen = Format.JSONL if json else format or format_of(output)
    rows = open_reader(store, at).query(text, timeout_s=timeout)
    if not write_rows(rows, chosen, output) and fail_empty:
        raise typer.Exit(1)


def shell(store: StoreArgument, at: AtOption = None) -> None:
    """Open an SQL prompt on the views; a query ends with `;`.

    Reads a script where stdin is no terminal, and stops at its first error.

    Example: trajstore shell pool
    """
    from trajstore_cli._shell import Shell

    pool = open_store(store)
    fixed = None if at is None else pool.at(at)
    Shell(lambda: fixed or pool.reader(), name=store).run()


def info(store: StoreArgument, json: JsonOption = False) -> None:
    """Show what a store holds: counts, outcomes, sources, sizes.

    Example: trajstore info pool
    """
    from trajstore.pipeline import describe

    values = describe(open_store(store))
    if json:
        report(values, json=True)
        return
    groups = {k: values.pop(k) for k in list(values) if k.startswith("by_")}
    out(pairs({k: v for k, v in values.items() if v != 0}))
    for name, rows in groups.items():
        if any(r["name"] is not None for r in rows):
            out(f"\n{name.replace('_', ' ')}\n{table(rows, null='(none)')}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, query)
    add(app, shell)
    add(app, info)
