from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from trajstore.errors import SelectionError
from trajstore.filters.relations import need_columns, numbered, relation

TABLE = pa.table({"a": [3, 1, 2]})


def test_a_query_sees_its_tables_and_parameters() -> None:
    found = relation("SELECT a FROM t WHERE a > $least ORDER BY a", tables={"t": TABLE}, least=1)
    assert found.column("a").to_pylist() == [2, 3]


def test_it_sees_no_other_value_of_the_program() -> None:
    with pytest.raises(duckdb.CatalogException, match="TABLE"):
        relation("SELECT a FROM TABLE_ELSEWHERE", tables={"t": TABLE})


def test_it_reads_no_file() -> None:
    with pytest.raises(duckdb.PermissionException):
        relation("SELECT * FROM read_csv('/etc/hostname')", tables={})


def test_numbered_rows_remember_their_place() -> None:
    assert numbered(TABLE, "a").column("place").to_pylist() == [0, 1, 2]


def test_missing_columns_are_named() -> None:
    with pytest.raises(SelectionError, match="The input 't' lacks the columns b, c; it has a"):
        need_columns(TABLE, "t", ["a", "b", "c"])
