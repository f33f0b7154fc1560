"""Arrow tables as relations of an in-memory DuckDB: the place where pairs and groups are computed.

Every query orders what it gives back and breaks every tie, so that threads never show.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """One empty database a process: opening one costs more than a query over a few runs.

    A cursor sees only the tables that it made itself, and takes them along when it closes. Tables
    that do not fit into memory spill to the temporary folder.
    """
    del process
    spill = str(Path(tempfile.gettempdir()) / "trajstore-spill")
    return duckdb.connect(":memory:", config={"temp_directory": spill})


class Relations:
    """Named tables under SQL; use it in a ``with`` block and in one thread."""

    def __init__(self, **tables: pa.Table) -> None:
        self._connection = _database(os.getpid()).cursor()
        self._connection.execute("SET python_enable_replacements=false")
        for name, table in tables.items():
            self.put(name, table)

    def put(self, name: str, table: pa.Table | pa.RecordBatchReader) -> None:
        """Show an Arrow table under a name, without a copy; a reader can be read once."""
        self._connection.register(name, table)

    def make(self, name: str, query: str) -> None:
        """Keep the rows of a query under a name."""
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def rows(self, query: str) -> pa.Table:
        """The rows of a query."""
        return self._connection.sql(query).to_arrow_table()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the tables go."""
        self._connection.close()


def literal(value: str | float | None) -> str:
    """A value as an SQL literal.

    >>> literal("it's")
    "'it''s'"
    """
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"({value!r})"


def identifier(name: str) -> str:
    """A column's name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def listed(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """A column as Python values; for the few that a message or a report shows."""
    return list(column.to_pylist())


def counts(table: pa.Table, column: str) -> dict[str, int]:
    """How often each value of a column is there, the most frequent first."""
    found = table.group_by(column).aggregate([([], "count_all")])
    ordered = found.sort_by([("count_all", "descending"), (column, "ascending")])
    return dict(
        zip(listed(ordered.column(column)), listed(ordered.column("count_all")), strict=True)
    )


def with_columns(table: pa.Table, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """The named columns in those types and order; a column that is not there is all null."""
    have = set(table.column_names)
    arrays = [
        table.column(name).cast(type_) if name in have else pa.nulls(table.num_rows, type_)
        for name, type_ in columns.items()
    ]
    return pa.table(arrays, names=list(columns))
