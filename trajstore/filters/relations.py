"""SQL over Arrow tables in memory: what the rules that look at steps are written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from trajstore.errors import SelectionError


def relation(query: str, /, *, tables: dict[str, pa.Table], **parameters: Any) -> pa.Table:
    """Rows of one SELECT over the given tables; it can see nothing else.

    Args:
        query: the SELECT; it should order its rows, as DuckDB keeps no order by itself.
        tables: by the name that the query uses.
        parameters: values of the query's ``$name``.

    Raises:
        SelectionError: a value cannot be used, such as a regular expression that is none.
    """
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET python_enable_replacements=false")
        connection.execute("SET enable_external_access=false")
        for name, table in tables.items():
            connection.register(name, table)
        try:
            return connection.sql(query, params=parameters).to_arrow_table()
        except duckdb.InvalidInputException as error:
            message = f"A parameter cannot be used: {error}. Parameters: {parameters}"
            raise SelectionError(message) from error


def numbered(rows: pa.Table, *names: str) -> pa.Table:
    """Some columns of the rows with their position as ``place``, to put an answer in order."""
    return rows.select(list(names)).append_column("place", pa.arange(0, rows.num_rows))


def need_columns(table: pa.Table, name: str, columns: Sequence[str]) -> None:
    """Check that an input has its columns.

    Raises:
        SelectionError: some are missing; the message names them.
    """
    missing = [c for c in columns if c not in table.column_names]
    if missing:
        message = (
            f"The input '{name}' lacks the columns {', '.join(missing)}; it has "
            f"{', '.join(table.column_names)}. See trajstore.filters.rewards.INPUTS."
        )
        raise SelectionError(message)
