from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from trajstore.errors import QueryError, SelectionError
from trajstore.filters.relations import need_columns, numbered, relation

TABLE = pa.table({"a": [3, 1, 2]})


def test_a_query_sees_its_tables_and_parameters() -> None:
    found = relation("SELECT a FROM t WHERE a > $least ORDER BY a", tables={"t": TABLE}, least=1)
    assert found.column("a").to_pylist() == [2, 3]


def test_it_sees_no_other_value_of_the_program() -> None:
    with pytest.raises(QueryError, match="TABLE"):
        relation("SELECT a FROM TABLE_ELSEWHERE", tables={"t": TABLE})


def test_it_reads_no_file() -> None:
    with pytest.raises(QueryError):
        relation("SELECT * FROM read_csv('/etc/hostname')", tables={})


def test_numbered_rows_remember_their_place() -> None:
    assert numbered(TABLE, "a").column("place").to_pylist() == [0, 1, 2]


def test_missing_columns_are_named() -> None:
    with pytest.raises(SelectionError, match="The input 't' lacks the columns b, c; it has a"):
        need_columns(TABLE, "t", ["a", "b", "c"])


TABLES = {"rows_at_hand": pa.table({"a": [1, 2, 3]})}


def test_rows_are_asked_by_name() -> None:
    found = relation("SELECT sum(a) AS s FROM rows_at_hand", tables=TABLES)
    assert found.column("s").to_pylist() == [6]


def test_a_later_query_does_not_see_the_tables_of_an_earlier_one() -> None:
    relation("SELECT a FROM mine", tables={"mine": TABLE})
    with pytest.raises(QueryError, match="mine"):
        relation("SELECT a FROM mine", tables={})


def test_nothing_is_read_that_python_holds() -> None:
    secret = pa.table({"x": [1]})
    with pytest.raises(QueryError, match="secret"):
        relation("SELECT * FROM secret", tables=TABLES)
    assert secret.num_rows == 1


def test_no_file_is_read_or_written(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    for query in (
        f"SELECT * FROM '{tmp_path}/x.csv'",
        f"SELECT * FROM read_text('{tmp_path}/x.csv')",
        f"COPY rows_at_hand TO '{tmp_path}/y.csv'",
        f"ATTACH '{tmp_path}/z.db'",
    ):
        with pytest.raises(QueryError):
            relation(query, tables=TABLES)
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize("query", ["SELECT 1; SELECT 2", "SET threads=1", "", "SELEC 1"])
def test_one_select_is_expected(query: str) -> None:
    with pytest.raises(QueryError):
        relation(query, tables=TABLES)


def test_times_are_in_utc() -> None:
    query = "SELECT CAST(TIMESTAMPTZ '2026-01-01 00:00:00+02' AS VARCHAR) AS t FROM rows_at_hand"
    assert relation(query, tables=TABLES).column("t")[0].as_py().startswith("2025-12-31 22:00:00")
