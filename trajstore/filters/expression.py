"""Conditions in Python: ``(col("reward") > 0.5) & ~col("agent").is_in(["react"])``.

An expression says itself as SQL (:meth:`Expression.to_sql`, so a store's ``scan`` takes it) and as
a mask over an Arrow table (:meth:`Expression.mask`). Both follow SQL's three-valued logic: what is
unknown stays unknown, and a filter keeps only what is true. As in DuckDB, NaN equals NaN and is
greater than every other number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.schema import clean_text

Scalar = bool | int | float | str | datetime
"""What a column can be compared with; a datetime needs a time zone."""

_Values: TypeAlias = pa.Array | pa.ChunkedArray | pa.Scalar
_Sign: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
_LARGEST = 2**63 - 1


class Expression(ABC):
    """A condition, or a value to make one of."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == makes a condition, so equality says nothing

    @abstractmethod
    def to_sql(self) -> str:
        """The condition as SQL, without WHERE."""

    @abstractmethod
    def values(self, rows: pa.Table) -> _Values:
        """Its value for each row."""

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """True, false or null (unknown) for each row; ``rows.filter(mask)`` keeps what is true.

        Raises:
            SelectionError: the table lacks a column, or the value is no condition.
        """
        found = self.values(rows)
        if not pa.types.is_boolean(found.type):
            raise SelectionError(f"{self.to_sql()} is of type {found.type}, and no condition.")
        if isinstance(found, pa.Scalar):
            found = pa.repeat(found, rows.num_rows)
        return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])

    def __and__(self, other: Expression) -> Expression:
        """Both hold."""
        return _Junction("AND", self, other)

    def __or__(self, other: Expression) -> Expression:
        """One holds."""
        return _Junction("OR", self, other)

    def __invert__(self) -> Expression:
        """It does not hold."""
        return _Not(self)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]  # makes a condition
        """Equal."""
        return _Comparison("=", self, _value(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]  # makes a condition
        """Not equal; unknown where either is."""
        return _Comparison("<>", self, _value(other))

    def __lt__(self, other: Scalar | Expression) -> Expression:
        """Less."""
        return _Comparison("<", self, _value(other))

    def __le__(self, other: Scalar | Expression) -> Expression:
        """Less or equal."""
        return _Comparison("<=", self, _value(other))

    def __gt__(self, other: Scalar | Expression) -> Expression:
        """Greater."""
        return _Comparison(">", self, _value(other))

    def __ge__(self, other: Scalar | Expression) -> Expression:
        """Greater or equal."""
        return _Comparison(">=", self, _value(other))

    def is_null(self) -> Expression:
        """Unknown or not there; never unknown itself."""
        return _IsNull(self)

    def is_in(self, values: Iterable[Scalar]) -> Expression:
        """One of some values; of no values it is false."""
        return _IsIn(self, tuple(_value(v) for v in values))

    def between(self, least: Scalar, most: Scalar) -> Expression:
        """From ``least`` to ``most``, both ends included."""
        return (self >= least) & (self <= most)

    def contains(self, text: str) -> Expression:
        """The text has ``text`` in it; upper and lower case differ."""
        return _Text("contains", self, text)

    def starts_with(self, text: str) -> Expression:
        """The text begins with ``text``."""
        return _Text("starts_with", self, text)

    def has(self, item: str) -> Expression:
        """The list (such as ``tags``) has ``item`` in it."""
        return _Has(self, item)

    def __bool__(self) -> NoReturn:
        """Refused: ``and``, ``or``, ``not`` and ``a < b < c`` cannot be told apart here."""
        message = "An expression is not true or false by itself. Join with &, | and ~ in brackets."
        raise SelectionError(message)

    def __repr__(self) -> str:
        """The SQL."""
        return f"<{self.to_sql()}>"


def col(name: str) -> Expression:
    """The column ``name`` of the summary rows.

    >>> (col("reward") > 0.5).to_sql()
    '("reward" > CAST(0.5 AS DOUBLE))'
    """
    return _Column(name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Column(Expression):
    name: str

    def to_sql(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'

    def values(self, rows: pa.Table) -> _Values:
        if self.name not in rows.column_names:
            message = (
                f"There is no column '{self.name}'. Columns here: {', '.join(rows.column_names)}"
            )
            raise SelectionError(message)
        return rows.column(self.name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Constant(Expression):
    value: Scalar

    def to_sql(self) -> str:
        value = self.value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return f"CAST({value} AS BIGINT)" if value < 0 else str(value)
        if isinstance(value, float):
            text = repr(value) if math.isfinite(value) and value >= 0 else f"'{value!r}'"
            return f"CAST({text} AS DOUBLE)"
        if isinstance(value, datetime):
            return f"TIMESTAMPTZ '{value.astimezone(UTC).isoformat(sep=' ')}'"
        return _quoted(value)

    def values(self, rows: pa.Table) -> _Values:  # noqa: ARG002  the same for every table
        if isinstance(self.value, datetime):
            return pa.scalar(self.value, pa.timestamp("us", tz="UTC"))
        return pa.scalar(self.value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _value(value: object) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        return _Constant(clean_text(value))
    if isinstance(value, datetime) and value.tzinfo is None:
        raise SelectionError(f"{value!r} has no time zone; give one, such as tzinfo=UTC.")
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise SelectionError(f"{value} does not fit into 64 bits.")
    if isinstance(value, bool | int | float | datetime):
        return _Constant(value)
    hint = " Use is_null() to find what is unknown." if value is None else ""
    raise SelectionError(f"A column cannot be compared with {value!r}.{hint}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Junction(Expression):
    word: Literal["AND", "OR"]
    left: Expression
    right: Expression

    def to_sql(self) -> str:
        return f"({self.left.to_sql()} {self.word} {self.right.to_sql()})"

    def values(self, rows: pa.Table) -> _Values:
        join = pc.and_kleene if self.word == "AND" else pc.or_kleene
        return join(self.left.mask(rows), self.right.mask(rows))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Not(Expression):
    inner: Expression

    def to_sql(self) -> str:
        return f"(NOT {self.inner.to_sql()})"

    def values(self, rows: pa.Table) -> _Values:
        return pc.invert(self.inner.mask(rows))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _IsNull(Expression):
    inner: Expression

    def to_sql(self) -> str:
        return f"({self.inner.to_sql()} IS NULL)"

    def values(self, rows: pa.Table) -> _Values:
        return pc.is_null(self.inner.values(rows))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Comparison(Expression):
    sign: _Sign
    left: Expression
    right: Expression

    def to_sql(self) -> str:
        return f"({self.left.to_sql()} {self.sign} {self.right.to_sql()})"

    def values(self, rows: pa.Table) -> _Values:
        left, right = self.left.values(rows), self.right.values(rows)
        try:
            return _compared(self.sign, left, right)
        except pa.ArrowException as error:
            message = f"{self.to_sql()}: {left.type} cannot be compared with {right.type}."
            raise SelectionError(message) from error


def _compared(sign: _Sign, left: _Values, right: _Values) -> _Values:
    if sign in {">", ">="}:
        return _compared("<" if sign == ">" else "<=", right, left)
    if sign == "<>":
        return pc.invert(_compared("=", left, right))
    if not (pa.types.is_floating(left.type) or pa.types.is_floating(right.type)):
        return {"=": pc.equal, "<": pc.less, "<=": pc.less_equal}[sign](left, right)
    left_nan, right_nan = _is_nan(left), _is_nan(right)
    if sign == "=":
        return pc.or_(pc.equal(left, right), pc.and_(left_nan, right_nan))
    if sign == "<":
        return pc.and_(pc.invert(left_nan), pc.or_(right_nan, pc.less(left, right)))
    return pc.or_(right_nan, pc.less_equal(left, right))


def _is_nan(values: _Values) -> _Values:
    return pc.is_nan(values if pa.types.is_floating(values.type) else values.cast(pa.float64()))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _IsIn(Expression):
    inner: Expression
    among: tuple[Expression, ...]

    def to_sql(self) -> str:
        if not self.among:
            return "false"
        return f"({self.inner.to_sql()} IN ({', '.join(v.to_sql() for v in self.among)}))"

    def values(self, rows: pa.Table) -> _Values:
        if not self.among:
            return pa.scalar(False)
        found = self.inner.values(rows)
        constants = [v.value for v in self.among if isinstance(v, _Constant)]
        if pa.types.is_string(found.type) and all(isinstance(c, str) for c in constants):
            among = pc.is_in(found, value_set=pa.array(constants, pa.string()))
            return pc.if_else(pc.is_null(found), pa.scalar(None, pa.bool_()), among)
        either: Expression = self.inner == self.among[0]
        for value in self.among[1:]:
            either = either | (self.inner == value)
        return either.values(rows)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Text(Expression):
    function: Literal["contains", "starts_with"]
    inner: Expression
    text: str

    def to_sql(self) -> str:
        return f"{self.function}({self.inner.to_sql()}, {_quoted(self.text)})"

    def values(self, rows: pa.Table) -> _Values:
        found = self.inner.values(rows)
        if not pa.types.is_string(found.type):
            raise SelectionError(f"{self.to_sql()}: {found.type} is no text.")
        look = pc.match_substring if self.function == "contains" else pc.starts_with
        return look(found, self.text)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Has(Expression):
    inner: Expression
    item: str

    def to_sql(self) -> str:
        return f"list_contains({self.inner.to_sql()}, {_quoted(self.item)})"

    def values(self, rows: pa.Table) -> _Values:
        found = self.inner.values(rows)
        if not pa.types.is_list(found.type):
            raise SelectionError(f"{self.to_sql()}: {found.type} is no list.")
        lists = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        equal = pc.fill_null(pc.equal(pc.list_flatten(lists), self.item), False)
        owners = pc.list_parent_indices(lists).filter(equal)
        places = pa.array(range(len(lists)), pa.int64())
        having = pc.is_in(places, value_set=owners)
        return pc.if_else(pc.is_null(lists), pa.scalar(None, pa.bool_()), having)
