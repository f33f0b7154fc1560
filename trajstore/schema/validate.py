"""A table in, a list of problems out: row, column, what."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SchemaError
from trajstore.schema.columns import TABLES


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One thing that is wrong with a table."""

    table: str
    column: str
    row: int | None
    """Row number from 0, or None where the whole column is meant."""
    what: str

    def __str__(self) -> str:
        """Read as one line: table, row, column, what."""
        where = f"row {self.row}, " if self.row is not None else ""
        return f"{self.table}: {where}column '{self.column}': {self.what}"


def validate(table: pa.Table, name: str, *, most: int = 20) -> list[SchemaProblem]:
    """Check a table against the declared columns.

    Args:
        table: the rows to check; extra columns are a problem, order is not.
        name: table of record, a key of :data:`trajstore.schema.columns.TABLES`.
        most: stop after this many problems.

    Returns:
        Problems in column order; empty when the table fits.
    """
    problems: list[SchemaProblem] = []
    declared = {c.name: c for c in TABLES[name]}
    problems += [
        SchemaProblem(name, extra, None, f"unknown column; known are {', '.join(declared)}")
        for extra in table.column_names
        if extra not in declared
    ]
    for column in declared.values():
        if column.name not in table.column_names:
            problems.append(SchemaProblem(name, column.name, None, "missing"))
            continue
        values = table.column(column.name)
        if values.type != column.type:
            what = f"type {values.type}, expected {column.type}"
            problems.append(SchemaProblem(name, column.name, None, what))
            continue
        if not column.nullable and values.null_count:
            row = _first(pc.is_null(values))
            problems.append(SchemaProblem(name, column.name, row, "null is not allowed here"))
        if column.allowed:
            known = pc.is_in(values, value_set=pa.array(column.allowed))
            bad = pc.and_(pc.is_valid(values), pc.invert(known))
            row = _first(bad)
            if row is not None:
                what = f"{values[row].as_py()!r} is not one of {', '.join(column.allowed)}"
                problems.append(SchemaProblem(name, column.name, row, what))
    return problems[:most]


def _first(mask: pa.ChunkedArray) -> int | None:
    index = pc.index(mask, pa.scalar(value=True)).as_py()
    return index if index >= 0 else None


def check(table: pa.Table, name: str) -> None:
    """Raise one :class:`SchemaError` that lists every problem found."""
    problems = validate(table, name)
    if problems:
        lines = "\n  ".join(str(p) for p in problems)
        message = f"The {name} table does not fit the schema:\n  {lines}"
        raise SchemaError(message)
