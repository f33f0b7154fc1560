"""SQL over Arrow rows at hand, on a connection that can reach nothing else."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from trajstore.errors import QueryError


def over_rows(query: str, rows: pa.Table) -> pa.Table:
    """The result of one SELECT over ``rows``, which the query calls ``rows_at_hand``.

    Raises:
        QueryError: it is not one SELECT, or DuckDB refuses it.
    """
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone='UTC'")
        connection.execute("SET python_enable_replacements=false")
        connection.register("rows_at_hand", rows)
        connection.execute("SET enable_external_access=false")
        connection.execute("SET lock_configuration=true")
        try:
            statements = connection.extract_statements(query)
            if [s.type for s in statements] != [duckdb.StatementType.SELECT]:
                raise QueryError(f"One SELECT was expected, not: {query}")
            return connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise QueryError(f"The query over the rows at hand failed: {error}") from error
