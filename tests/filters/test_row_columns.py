from __future__ import annotations

import pyarrow as pa
import pytest

from trajstore.errors import SelectionError
from trajstore.filters.row_columns import column_named, numbers_named, with_column

ROWS = pa.table({"id": ["a", "b", "c"], "n": [1, None, 3], "x": [0.5, float("nan"), float("inf")]})


def test_a_column_is_found_by_its_name() -> None:
    assert column_named(ROWS, "id").to_pylist() == ["a", "b", "c"]


def test_an_unknown_name_is_answered_with_the_real_ones() -> None:
    with pytest.raises(SelectionError, match="Columns here: id, n, x"):
        column_named(ROWS, "size")


def test_numbers_come_as_doubles_and_what_is_not_finite_is_unknown() -> None:
    assert numbers_named(ROWS, "n").to_pylist() == [1.0, None, 3.0]
    assert numbers_named(ROWS, "x").to_pylist() == [0.5, None, None]


def test_words_are_no_numbers() -> None:
    with pytest.raises(SelectionError, match="'id' should hold numbers, not string"):
        numbers_named(ROWS, "id")


def test_a_column_is_added_behind_the_others_or_replaced() -> None:
    added = with_column(ROWS, "y", pa.array([1, 2, 3]))
    assert added.column_names == ["id", "n", "x", "y"]
    again = with_column(added, "y", pa.array([4, 5, 6]))
    assert again.column_names == ["id", "n", "x", "y"]
    assert again.column("y").to_pylist() == [4, 5, 6]
