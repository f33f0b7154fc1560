"""Read a few rows of a Parquet file: only the pages that hold them.

pyarrow reads whole row groups, of 131,072 rows; an engine that skips pages plans every query anew.
The page index at the end of a file says where each page begins, and with which row. So the pages
that hold the rows are cut out, a small Parquet file is made of them in memory, and pyarrow reads
that: encodings, checksums and types stay its work. Columns may be cut into pages differently; those
cut alike share a small file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from trajstore.store.footer import (
    MAGIC,
    Footer,
    Leaf,
    ReadAt,
    RowGroup,
    written_chunk,
    written_footer,
)

Range = tuple[int, int]
"""First row, and the row behind the last."""

Columns = dict[str, pa.ChunkedArray]
"""Columns by name."""

Read = Callable[[], Columns]
"""Reads some columns of some rows."""


def excerpts(
    footer: Footer, read_at: ReadAt, columns: Sequence[str], ranges: Sequence[Range]
) -> list[tuple[int, list[Read]]]:
    """Reads that together give the rows of some ranges, a list of them a row group.

    They may be called from several threads, if ``read_at`` may. A column that the file lacks, or of
    which a row group has only nulls, is not read.

    Args:
        footer: of the file.
        read_at: reads from it.
        columns: top-level columns.
        ranges: ascending and apart.

    Returns:
        For each row group with rows of the ranges: their number, and the reads.
    """
    found: list[tuple[int, list[Read]]] = []
    for group in footer.groups:
        inside = _within(ranges, group)
        if inside:
            alike = _cut_alike(group, read_at, columns, inside)
            reads: list[Read] = [
                partial(_read, footer, read_at, group, names, covered, inside)
                for covered, names in alike.items()
            ]
            found.append((sum(end - start for start, end in inside), reads))
    return found


def _within(ranges: Iterable[Range], group: RowGroup) -> list[Range]:
    """The part of the ranges that is in a row group, counted from its first row."""
    low, high = group.first, group.first + group.rows
    return [(max(a, low) - low, min(b, high) - low) for a, b in ranges if a < high and b > low]


def _cut_alike(
    group: RowGroup, read_at: ReadAt, columns: Sequence[str], ranges: Sequence[Range]
) -> dict[tuple[Range, ...], list[str]]:
    """Columns to read, by the ranges that their pages cover."""
    alike: dict[tuple[Range, ...], list[str]] = {}
    for name in columns:
        leaves = group.leaves.get(name, ())
        if all(leaf.only_nulls for leaf in leaves):
            continue
        for leaf in leaves:
            leaf.load_pages(read_at)
        alike.setdefault(tuple(_covering(leaves, ranges)), []).append(name)
    return alike


def _covering(leaves: Sequence[Leaf], ranges: Iterable[Range]) -> list[Range]:
    """The least ranges around the given ones that begin and end with a page of every leaf."""
    covered: list[Range] = []
    for wanted in ranges:
        if covered and wanted[1] <= covered[-1][1]:
            continue
        start, end = _pages_around(leaves, wanted)
        if covered and start <= covered[-1][1]:
            covered[-1] = min(start, covered[-1][0]), end
        else:
            covered.append((start, end))
    return covered


def _pages_around(leaves: Sequence[Leaf], wanted: Range) -> Range:
    start, end = wanted
    while True:
        before = start, end
        for leaf in leaves:
            start = leaf.firsts[bisect_right(leaf.firsts, start) - 1]
            end = leaf.firsts[bisect_left(leaf.firsts, end)]
        if len(leaves) == 1 or (start, end) == before:
            return start, end


def _read(
    footer: Footer,
    read_at: ReadAt,
    group: RowGroup,
    names: Sequence[str],
    covered: Sequence[Range],
    ranges: Sequence[Range],
) -> Columns:
    raw = _excerpt(footer, read_at, group, names, covered)
    plain = [name for name in names if len(footer.elements[name]) == 1]
    words = [name for name in plain if _has_dictionary(group.leaves[name][0])]
    file = pq.ParquetFile(
        pa.BufferReader(raw), read_dictionary=words, page_checksum_verification=True
    )
    rows = _picked(file.read(use_threads=False), covered, ranges)
    return {name: _words(column) for name, column in zip(names, rows.columns, strict=True)}


def _has_dictionary(leaf: Leaf) -> bool:
    """Whether values can stay numbers of a dictionary until the rows are chosen."""
    return leaf.data > leaf.start


def _words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_coded = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_coded else column


def _excerpt(
    footer: Footer,
    read_at: ReadAt,
    group: RowGroup,
    names: Sequence[str],
    covered: Sequence[Range],
) -> bytes:
    """A Parquet file in memory that holds only the pages of those columns in those ranges."""
    pieces, at = [MAGIC], len(MAGIC)
    chunks = []
    rows = sum(end - start for start, end in covered)
    for leaf in (leaf for name in names for leaf in group.leaves[name]):
        start = at
        if leaf.data > leaf.start:
            pieces.append(read_at(leaf.data - leaf.start, leaf.start))
            at += leaf.data - leaf.start
        data = at
        for first, behind in covered:
            offset = leaf.offsets[bisect_left(leaf.firsts, first)]
            size = leaf.offsets[bisect_left(leaf.firsts, behind)] - offset
            pieces.append(read_at(size, offset))
            at += size
        values = rows if leaf.values == leaf.rows else leaf.values
        chunks.append(written_chunk(leaf, values=values, start=start, data=data, end=at))
    columns = [footer.elements[name] for name in names]
    return b"".join([*pieces, written_footer(columns, chunks, rows=rows, size=at)])


def _picked(rows: pa.Table, covered: Sequence[Range], ranges: Sequence[Range]) -> pa.Table:
    """The rows of the ranges, of rows that hold the covered ranges one after the other."""
    places: list[Range] = []
    behind, number = 0, 0
    for start, end in ranges:
        while covered[number][1] < end:
            behind += covered[number][1] - covered[number][0]
            number += 1
        place = behind + start - covered[number][0]
        if places and places[-1][1] == place:
            places[-1] = places[-1][0], place + end - start
        else:
            places.append((place, place + end - start))
    if len(places) == 1:
        return rows.slice(places[0][0], places[0][1] - places[0][0])
    chosen = array("q")
    for start, end in places:
        chosen.extend(range(start, end))
    return rows.take(pa.Array.from_buffers(pa.int64(), len(chosen), [None, pa.py_buffer(chosen)]))
