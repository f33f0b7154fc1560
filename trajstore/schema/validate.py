"""A table in, a list of problems out: row, column, what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SchemaError
from trajstore.schema.columns import TABLES, Column


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
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    problems += [
        SchemaProblem(name, extra, None, f"unknown column; known are {', '.join(declared)}")
        for extra in types
        if extra not in declared
    ]
    for column in declared.values():
        if column.name not in types:
            problems.append(SchemaProblem(name, column.name, None, "missing"))
        elif types[column.name] != column.type:
            what = f"type {types[column.name]}, expected {column.type}"
            problems.append(SchemaProblem(name, column.name, None, what))
        elif (not column.nullable or column.allowed) and table.num_rows:
            problems += _bad_values(table.column(column.name), column, name)
    return problems[:most]


def _bad_values(values: pa.ChunkedArray, column: Column, table: str) -> Iterator[SchemaProblem]:
    if not column.nullable and values.null_count:
        row = _first(pc.is_null(values))
        yield SchemaProblem(table, column.name, row, "null is not allowed here")
    if column.allowed:
        known = pc.is_in(values, value_set=_allowed(column.allowed))
        if not pc.all(known).as_py():
            row = _first(pc.and_(pc.is_valid(values), pc.invert(known)))
            if row is not None:
                what = f"{values[row].as_py()!r} is not one of {', '.join(column.allowed)}"
                yield SchemaProblem(table, column.name, row, what)


@cache
def _allowed(values: tuple[str, ...]) -> pa.Array:
    return pa.array(values)


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
