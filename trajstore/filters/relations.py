"""SQL over Arrow tables in memory: what the rules that look at steps are written in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from trajstore.errors import QueryError, SelectionError


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """One empty database a process, locked: opening one costs more than a query over a few runs.

    A cursor sees only the tables that were registered with it.
    """
    del process
    database = duckdb.connect(":memory:")
    database.execute("SET GLOBAL TimeZone='UTC'")
    database.execute("SET GLOBAL python_enable_replacements=false")
    database.execute("SET GLOBAL enable_external_access=false")
    database.execute("SET GLOBAL lock_configuration=true")
    return database


def relation(query: str, /, *, tables: Mapping[str, pa.Table], **parameters: Any) -> pa.Table:
    """Rows of one SELECT over the given tables; it can see and do nothing else.

    Args:
        query: the SELECT; it should order its rows, as DuckDB keeps no order by itself.
        tables: by the name that the query uses.
        parameters: values of the query's ``$name``.

    Raises:
        SelectionError: a value cannot be used, such as a regular expression that is none.
        QueryError: it is not one SELECT, or DuckDB refuses it.
    """
    with _database(os.getpid()).cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        try:
            statements = connection.extract_statements(query)
            if [s.type for s in statements] != [duckdb.StatementType.SELECT]:
                raise QueryError(f"One SELECT was expected, not: {query}")
            return connection.sql(query, params=parameters).to_arrow_table()
        except duckdb.InvalidInputException as error:
            if not parameters:
                raise QueryError(f"The query over the rows at hand failed: {error}") from error
            message = f"A parameter cannot be used: {error}. Parameters: {parameters}"
            raise SelectionError(message) from error
        except duckdb.Error as error:
            raise QueryError(f"The query over the rows at hand failed: {error}") from error


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
