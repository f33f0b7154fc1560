"""Only SELECT over the views: what user SQL may and may not do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb

from trajstore.errors import QueryError
from trajstore.store.views import UNLISTED_VIEWS, VIEW_NAMES

_TABLE_FUNCTIONS = frozenset(
    {"unnest", "range", "generate_series", "json_each", "json_tree", "summary", "regexp_matches"}
)
_INFORMATION = frozenset(
    {"duckdb_columns", "duckdb_views", "duckdb_functions", "pragma_table_info"}
)
_FORBIDDEN_FUNCTIONS = frozenset(
    {
        "getenv",
        "getvariable",
        "current_setting",
        "add_parquet_key",
        "write_log",
        "query",
        "query_table",
    }
)
_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?(\s*\([^)]*\))?\s+", re.IGNORECASE)


def check_query(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Let only one SELECT (or EXPLAIN of one) over the store's views through.

    The connection is locked besides; this adds that files are reached through the views alone, so
    that rows which a delete has hidden stay hidden.

    Raises:
        QueryError: it is something else; the message says what.
    """
    statements = _parse(connection, sql)
    if len(statements) != 1:
        message = f"Give one statement at a time; this text holds {len(statements)}."
        raise QueryError(message)
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        inner = _EXPLAIN.sub("", sql, count=1)
        if _EXPLAIN.match(inner) or inner == sql:
            raise QueryError("EXPLAIN is allowed in front of a SELECT only.")
        check_query(connection, inner)
        return
    if kind != duckdb.StatementType.SELECT:
        message = (
            f"Only SELECT is allowed here, and this is {kind.name}. The store is read-only in SQL; "
            "use `trajstore label` or the Python API to add rows."
        )
        raise QueryError(message)
    _check_tree(connection, statements[0].query)


def _parse(connection: duckdb.DuckDBPyConnection, sql: str) -> list[duckdb.Statement]:
    try:
        return list(connection.extract_statements(sql))
    except duckdb.Error as error:
        message = f"The SQL does not parse: {error}"
        raise QueryError(message) from error


def _check_tree(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    rows = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    tree = json.loads(rows[0][0])
    if tree.get("error"):
        message = f"This form of statement is not allowed: {tree.get('error_message', sql)}"
        raise QueryError(message)
    nodes = list(_nodes(tree))
    named = {str(k).lower() for n in nodes for k in _cte_names(n)}
    for node in nodes:
        if node.get("type") == "TABLE_FUNCTION":
            name = str(node.get("function", {}).get("function_name", "")).lower()
            if name not in _TABLE_FUNCTIONS | _INFORMATION:
                raise QueryError(_refusal("table function", name))
        elif node.get("type") == "BASE_TABLE":
            name = str(node.get("table_name", "")).lower()
            if name not in named and name not in {*VIEW_NAMES, *UNLISTED_VIEWS}:
                raise QueryError(_refusal("table", name))
        elif node.get("class") == "FUNCTION":
            name = str(node.get("function_name", "")).lower()
            if name in _FORBIDDEN_FUNCTIONS:
                raise QueryError(_refusal("function", name))


def _refusal(kind: str, name: str) -> str:
    return (
        f"The {kind} '{name}' may not be used here. The tables are: {', '.join(VIEW_NAMES)}. "
        "Files, settings and extensions are out of reach of SQL."
    )


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _cte_names(node: dict[str, Any]) -> list[str]:
    ctes = node.get("cte_map")
    if not isinstance(ctes, dict):
        return []
    return [str(entry["key"]) for entry in ctes.get("map", [])]
