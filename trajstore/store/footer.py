"""What the end of a Parquet file says of its columns and pages, and how to write such an end.

Field numbers are those of ``parquet.thrift`` in https://github.com/apache/parquet-format.
"""

from __future__ import annotations

import struct as packing
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from trajstore.store import thrift
from trajstore.store.thrift import BINARY, I32, I64, LIST, STRUCT

MAGIC = b"PAR1"
"""First and last bytes of a Parquet file."""

_TAIL_BYTES = 64 << 10

ReadAt = Callable[[int, int], bytes]
"""Gives bytes of a file: how many, from where."""


@dataclass(slots=True)
class Leaf:
    """One column of one row group."""

    described: thrift.Begun
    """Fields of its metadata that its pages do not change: type, encodings, path, codec."""
    rows: int
    """Rows of the row group."""
    values: int
    """Values, nulls and items of lists included."""
    start: int
    """Where it begins, with the page of its dictionary if it has one."""
    data: int
    """Where its first data page begins."""
    end: int
    """Where it ends."""
    only_nulls: bool
    """Whether it is known to hold nothing but nulls."""
    index: tuple[int, int] | None
    """Length and place of the list of its pages."""
    firsts: array[int] = field(default_factory=lambda: array("q"))
    """First row of each page, then the number of rows; empty until they were read."""
    offsets: array[int] = field(default_factory=lambda: array("q"))
    """Where each page begins, then where the last one ends."""

    def load_pages(self, read_at: ReadAt) -> None:
        """Read the list of pages; without a page index the column counts as one page."""
        if self.firsts:
            return
        pages = [] if self.index is None else _pages(read_at(*self.index))
        pages = pages or [(self.data, 0)]
        self.offsets = array("q", [*(offset for offset, _ in pages), self.end])
        self.firsts = array("q", [*(first for _, first in pages), self.rows])


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group."""

    first: int
    """Its first row in the file."""
    rows: int
    """Number of rows."""
    leaves: Mapping[str, Sequence[Leaf]]
    """Its columns; the fields of a nested one together under the name of that."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    elements: Mapping[str, Sequence[bytes]]
    """Written schema elements by top-level column."""
    groups: Sequence[RowGroup]
    """Row groups in order."""


def read_footer(read_at: ReadAt, size: int) -> Footer:
    """Read the footer of a file of ``size`` bytes.

    Raises:
        ArrowInvalid: it is no whole Parquet file.
    """
    tail = read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    if size < 12 or tail[-4:] != MAGIC:
        raise pa.ArrowInvalid("not a whole Parquet file: it does not end as one")
    (length,) = packing.unpack("<I", tail[-8:-4])
    if length + 12 > size:
        raise pa.ArrowInvalid("not a whole Parquet file: its footer is longer than itself")
    if length + 8 > len(tail):
        tail = read_at(length + 8, size - length - 8)
    try:
        return _footer(tail[-8 - length : -8])
    except (LookupError, ValueError, TypeError) as error:
        raise pa.ArrowInvalid(f"damaged footer: {error}") from error


def _footer(raw: bytes) -> Footer:
    cursor = thrift.Cursor(raw)
    elements: dict[str, list[bytes]] = {}
    groups: list[RowGroup] = []
    for number, kind in cursor.fields():
        if number == 2:
            elements = _elements(cursor)
        elif number == 4:
            first = 0
            for _ in range(cursor.count()[0]):
                groups.append(_row_group(cursor.value(STRUCT), first))
                first += groups[-1].rows
        else:
            cursor.value(kind)
    return Footer(elements, groups)


def _elements(cursor: thrift.Cursor) -> dict[str, list[bytes]]:
    """Schema elements come depth first, the root in front; each says how many children it has."""
    count, _ = cursor.count()
    cursor.value(STRUCT)
    found: dict[str, list[bytes]] = {}
    below: list[bytes] = []
    missing = 0
    for _ in range(count - 1):
        start = cursor.at
        element = cursor.value(STRUCT)
        if not missing:
            below, missing = found.setdefault(element[4].decode(), []), 1
        below.append(cursor.raw[start : cursor.at])
        missing += element.get(5, 0) - 1
    return found


def _row_group(fields: dict[int, Any], first: int) -> RowGroup:
    rows = fields[3]
    leaves: dict[str, list[Leaf]] = {}
    for chunk in fields[1]:
        name = chunk[3][3][0].decode()
        leaves.setdefault(name, []).append(_leaf(chunk, rows))
    return RowGroup(first, rows, leaves)


def _leaf(chunk: dict[int, Any], rows: int) -> Leaf:
    meta = chunk[3]
    data, dictionary = meta[9], meta.get(11)
    start = data if dictionary is None else min(dictionary, data)
    return Leaf(
        described=thrift.begin(
            [
                (1, I32, thrift.signed(meta[1])),
                (2, LIST, thrift.listed(I32, map(thrift.signed, meta[2]))),
                (3, LIST, thrift.listed(BINARY, map(thrift.text, meta[3]))),
                (4, I32, thrift.signed(meta[4])),
            ]
        ),
        rows=rows,
        values=meta[5],
        start=start,
        data=data,
        end=start + meta[7],
        only_nulls=meta.get(12, {}).get(3) == meta[5],
        index=(chunk[5], chunk[4]) if 4 in chunk else None,
    )


def _pages(raw: bytes) -> list[tuple[int, int]]:
    """Place and first row of each page of an offset index."""
    cursor = thrift.Cursor(raw)
    for number, kind in cursor.fields():
        if number == 1:
            count, _ = cursor.count()
            pages = [cursor.value(STRUCT) for _ in range(count)]
            return [(page[1], page[3]) for page in pages]
        cursor.value(kind)
    return []


def written_chunk(leaf: Leaf, *, values: int, start: int, data: int, end: int) -> bytes:
    """Metadata of a column whose pages lie elsewhere now.

    Args:
        leaf: the column as it was.
        values: at least as many as the pages hold; a reader stops at the last page.
        start: where it begins now, with its dictionary.
        data: where its first data page begins.
        end: where it ends.
    """
    size = thrift.signed(end - start)
    fields = [(5, I64, thrift.signed(values)), (6, I64, size), (7, I64, size)]
    fields.append((9, I64, thrift.signed(data)))
    if data > start:
        fields.append((11, I64, thrift.signed(start)))
    meta = thrift.struct(fields, leaf.described)
    return thrift.struct([(2, I64, thrift.signed(start)), (3, STRUCT, meta)])


def written_footer(
    columns: Sequence[Sequence[bytes]], chunks: Sequence[bytes], *, rows: int, size: int
) -> bytes:
    """The end of a file of one row group, magic bytes included.

    Args:
        columns: schema elements of each top-level column.
        chunks: from :func:`written_chunk`.
        rows: number of rows.
        size: bytes of all columns.
    """
    count = thrift.signed(len(columns))
    root = thrift.struct([(4, BINARY, thrift.text(b"schema")), (5, I32, count)])
    elements = [root, *(e for column in columns for e in column)]
    group = thrift.struct(
        [
            (1, LIST, thrift.listed(STRUCT, chunks)),
            (2, I64, thrift.signed(size)),
            (3, I64, thrift.signed(rows)),
        ]
    )
    footer = thrift.struct(
        [
            (1, I32, thrift.signed(2)),
            (2, LIST, thrift.listed(STRUCT, elements)),
            (3, I64, thrift.signed(rows)),
            (4, LIST, thrift.listed(STRUCT, [group])),
        ]
    )
    return footer + packing.pack("<I", len(footer)) + MAGIC
