from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore import Pool
from trajstore.errors import SelectionError
from trajstore.filters import Expression, col
from trajstore.testing import sample_trajectories

NUMBERS = [None, 0.0, -0.0, 0.5, 1.0, -3.0, math.nan, math.inf, -math.inf]
WHOLE = [None, 0, 1, -1, 7, 2**40, -(2**62)]
TEXTS = [None, "", "react", "Re'act", 'plan"ner', "é√", "a%b_"]
TIMES = [None, datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 0, 0, 0, 1, tzinfo=UTC)]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "reward": (pa.float64(), NUMBERS),
    "n_steps": (pa.int64(), WHOLE),
    "agent": (pa.string(), TEXTS),
    "started_at": (pa.timestamp("us", tz="UTC"), TIMES),
    "success": (pa.bool_(), [None, True, False]),
}
Row = dict[str, Any]
Truth = Callable[[Row], bool | None]
Case = tuple[Expression, Truth]


def total_order(value: Any) -> Any:
    """DuckDB's order of numbers: NaN equals NaN and is above all."""
    if isinstance(value, bool | str | datetime):
        return value
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def comparison(sign: Callable[[Any, Any], Any], name: str, value: Any) -> Case:
    def truth(row: Row) -> bool | None:
        return None if row[name] is None else sign(total_order(row[name]), total_order(value))

    expression: Expression = sign(col(name), value)
    return expression, truth


def among(name: str, values: list[Any]) -> Case:
    def truth(row: Row) -> bool | None:
        if not values:
            return False
        if row[name] is None:
            return None
        return total_order(row[name]) in [total_order(v) for v in values]

    return col(name).is_in(values), truth


def is_null(name: str) -> Case:
    return col(name).is_null(), lambda row: row[name] is None


def text(name: str, part: str, method: str) -> Case:
    test = {"contains": lambda t: part in t, "starts_with": lambda t: t.startswith(part)}[method]
    expression: Expression = getattr(col(name), method)(part)
    return expression, lambda row: None if row[name] is None else test(row[name])


def both(left: Case, right: Case) -> Case:
    def truth(row: Row) -> bool | None:
        one, other = left[1](row), right[1](row)
        if one is False or other is False:
            return False
        return None if one is None or other is None else True

    return left[0] & right[0], truth


def either(left: Case, right: Case) -> Case:
    def truth(row: Row) -> bool | None:
        one, other = left[1](row), right[1](row)
        if one is True or other is True:
            return True
        return None if one is None or other is None else False

    return left[0] | right[0], truth


def negated(inner: Case) -> Case:
    def truth(row: Row) -> bool | None:
        value = inner[1](row)
        return None if value is None else not value

    return ~inner[0], truth


SIGNS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
LEAVES = st.one_of(
    *(
        st.one_of(
            st.builds(
                comparison,
                st.sampled_from(SIGNS),
                st.just(name),
                st.sampled_from([v for v in values if v is not None]),
            ),
            st.builds(
                among,
                st.just(name),
                st.lists(st.sampled_from([v for v in values if v is not None]), max_size=3),
            ),
            st.builds(is_null, st.just(name)),
        )
        for name, (_, values) in COLUMNS.items()
    ),
    st.builds(
        text,
        st.just("agent"),
        st.sampled_from(["", "re", "'", "%", "é"]),
        st.sampled_from(["contains", "starts_with"]),
    ),
)
CASES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(both, inner, inner), st.builds(either, inner, inner), st.builds(negated, inner)
    ),
    max_leaves=6,
)
TABLES = st.lists(
    st.fixed_dictionaries({n: st.sampled_from(values) for n, (_, values) in COLUMNS.items()}),
    max_size=8,
)


@settings(deadline=None, max_examples=300)
@given(CASES, TABLES)
def test_mask_sql_and_a_plain_loop_agree_also_on_what_is_unknown(
    case: Case, rows: list[Row]
) -> None:
    expression, truth = case
    table = pa.table({n: pa.array([r[n] for r in rows], t) for n, (t, _) in COLUMNS.items()})
    expected = [truth(row) for row in rows]
    assert expression.mask(table).to_pylist() == expected
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone='UTC'")
        connection.register("rows", table)
        found = connection.sql(f"SELECT {expression.to_sql()} FROM rows").fetchall()
    assert [value for (value,) in found] == expected


def test_columns_can_be_compared_with_each_other() -> None:
    table = pa.table({"a": [1, 2, None], "b": [1.0, 3.0, 2.0]})
    assert (col("a") < col("b")).mask(table).to_pylist() == [False, True, None]


def test_a_true_or_false_column_is_a_condition_by_itself() -> None:
    table = pa.table({"success": [True, False, None]})
    assert (~col("success")).mask(table).to_pylist() == [False, True, None]


def test_between_holds_both_ends() -> None:
    table = pa.table({"n": [1, 2, 3, 4]})
    assert col("n").between(2, 3).mask(table).to_pylist() == [False, True, True, False]


def test_lists_have_items_in_arrow_and_in_sql() -> None:
    tags = pa.table({"tags": pa.array([["x", None], [], None, ["y", "x"], ["y"]])})
    expected = [True, False, None, True, False]
    assert col("tags").has("x").mask(tags).to_pylist() == expected
    with duckdb.connect(":memory:") as connection:
        connection.register("tags_of_runs", tags)
        sql = f"SELECT {col('tags').has('x').to_sql()} FROM tags_of_runs"
        found = connection.sql(sql).fetchall()
    assert [v for (v,) in found] == expected


def test_lists_in_chunks_are_counted_through() -> None:
    chunks = pa.chunked_array([[["x"]], [["y"], ["x"]]])
    mask = col("tags").has("x").mask(pa.table({"tags": chunks}))
    assert mask.to_pylist() == [True, False, True]


def test_a_store_scans_with_an_expression(pool: Pool) -> None:
    pool.append(sample_trajectories(6))
    expected = [t.trajectory_id for t in pool.reader().scan("reward > 0.5 AND agent = 'react'")]
    found = pool.reader().scan((col("reward") > 0.5) & (col("agent") == "react"))
    assert [t.trajectory_id for t in found] == expected


def test_sql_is_what_a_person_would_write() -> None:
    expression = (col("n_steps") >= 3) & ~col("agent").is_in(["a", "b'c"])
    assert expression.to_sql() == """(("n_steps" >= 3) AND (NOT ("agent" IN ('a', 'b''c'))))"""
    assert repr(expression) == f"<{expression.to_sql()}>"


def test_a_column_name_cannot_break_out_of_its_quotes() -> None:
    assert (col('a" OR true --') == 1).to_sql() == '("a"" OR true --" = 1)'


def test_and_or_not_and_chains_are_refused() -> None:
    with pytest.raises(SelectionError, match=r"Join with &, \| and ~"):
        col("a") > 1 and col("b") > 1
    with pytest.raises(SelectionError, match="not true or false by itself"):
        1 < col("a") < 3  # noqa: B015


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, r"Use is_null\(\)"),
        (datetime(2026, 1, 1), "has no time zone"),  # noqa: DTZ001
        (2**70, "does not fit into 64 bits"),
        (["a"], "cannot be compared with"),
    ],
)
def test_values_that_no_column_holds_are_refused(value: Any, what: str) -> None:
    with pytest.raises(SelectionError, match=what):
        col("a") == value  # noqa: B015


def test_an_unknown_column_is_answered_with_the_real_ones() -> None:
    with pytest.raises(SelectionError, match=r"no column 'rewards'. Columns here: reward"):
        (col("rewards") > 1).mask(pa.table({"reward": [1.0]}))


def test_a_value_is_no_condition() -> None:
    with pytest.raises(SelectionError, match="of type int64, and no condition"):
        col("n").mask(pa.table({"n": [1]}))


def test_types_that_do_not_compare_are_named() -> None:
    with pytest.raises(SelectionError, match="string cannot be compared with int64"):
        (col("agent") > 1).mask(pa.table({"agent": ["a"]}))


def test_text_and_list_conditions_want_text_and_lists() -> None:
    table = pa.table({"n": [1]})
    with pytest.raises(SelectionError, match="int64 is no text"):
        col("n").contains("1").mask(table)
    with pytest.raises(SelectionError, match="int64 is no list"):
        col("n").has("1").mask(table)
