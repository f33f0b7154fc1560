"""Arrow tables under SQL: nothing leaks from one use into the next."""

from __future__ import annotations

import threading

import duckdb
import pyarrow as pa
import pytest

from trajstore.pairs.relations import Relations, counts, identifier, literal, with_columns

TABLE = pa.table({"a": [3, 1, 2]})


def test_tables_are_queried_by_their_names() -> None:
    with Relations(t=TABLE) as made:
        made.make("doubled", "SELECT a * 2 AS a FROM t")
        assert made.rows("SELECT a FROM doubled ORDER BY a").to_pydict() == {"a": [2, 4, 6]}


def test_a_table_can_be_made_anew() -> None:
    with Relations(t=TABLE) as made:
        made.make("x", "SELECT 1 AS one")
        made.make("x", "SELECT 2 AS two")
        assert made.rows("SELECT * FROM x").column_names == ["two"]


def test_what_one_made_another_cannot_see() -> None:
    with Relations(t=TABLE) as made, Relations() as other:
        made.make("x", "SELECT * FROM t")
        with pytest.raises(duckdb.CatalogException):
            other.rows("SELECT * FROM x")


def test_a_reader_is_taken_without_a_table() -> None:
    with Relations(t=TABLE.to_reader()) as made:
        assert made.rows("SELECT sum(a) AS s FROM t").to_pydict() == {"s": [6]}


def test_variables_of_the_caller_are_no_tables() -> None:
    hidden = TABLE
    with Relations() as made, pytest.raises(duckdb.CatalogException):
        made.rows("SELECT * FROM hidden")
    assert hidden.num_rows == 3


def test_several_threads_have_relations_of_their_own() -> None:
    found: list[int] = []

    def work(number: int) -> None:
        with Relations(t=pa.table({"a": [number]})) as made:
            made.make("x", "SELECT a FROM t")
            found.append(made.rows("SELECT a FROM x").column("a")[0].as_py())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(8))


@pytest.mark.parametrize("value", [1, -1, 0.1, 1e-9, 1e300, "it's", "", None])
def test_literals_come_back_as_they_were(value: object) -> None:
    with Relations() as made:
        found = made.rows(f"SELECT {literal(value)}::{_type(value)} AS v")  # type: ignore[arg-type]
        assert found.column("v")[0].as_py() == value


def _type(value: object) -> str:
    return {int: "INT", float: "DOUBLE"}.get(type(value), "VARCHAR")


def test_names_with_quotes_stay_names() -> None:
    name = 'a"b'
    with Relations(t=pa.table({name: [1]})) as made:
        assert made.rows(f"SELECT {identifier(name)} AS v FROM t").num_rows == 1


def test_missing_columns_are_null_and_others_stay_behind() -> None:
    found = with_columns(TABLE, {"b": pa.string(), "a": pa.int32()})
    assert found.to_pydict() == {"b": [None] * 3, "a": [3, 1, 2]}
    assert found.schema.field("a").type == pa.int32()


def test_counts_start_with_the_most_frequent() -> None:
    assert list(counts(pa.table({"r": ["b", "a", "c", "b"]}), "r").items()) == [
        ("b", 2),
        ("a", 1),
        ("c", 1),
    ]
