"""Columns of the rows at hand by their names, with an error that names the real ones."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError

NO_REASON = pa.nulls(1, pa.string())[0]
"""The null text; ``pa.scalar(None)`` would load pandas where it is installed."""


def column_named(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A column of the rows.

    Raises:
        SelectionError: there is none of that name; the message lists those that there are.
    """
    if name not in rows.column_names:
        message = f"There is no column '{name}'. Columns here: {', '.join(rows.column_names)}"
        raise SelectionError(message)
    return rows.column(name)


def numbers_named(rows: pa.Table, name: str) -> pa.Array:
    """A column of numbers as doubles, null where it is null or not finite.

    Raises:
        SelectionError: there is no such column, or it holds something else.
    """
    column = column_named(rows, name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise SelectionError(f"The column '{name}' should hold numbers, not {column.type}.")
    numbers = column.cast(pa.float64()).combine_chunks()
    return pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))


def with_column(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows with a column added, or replaced where it is there already."""
    others = rows.drop_columns(name) if name in rows.column_names else rows
    return others.append_column(name, values)
