from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.schema import STEP_SCHEMA
from trajstore.store import thrift
from trajstore.store.footer import Footer, read_footer
from trajstore.store.layout import parquet_options
from trajstore.store.pages import Range, excerpts

ROWS = 600


def table() -> pa.Table:
    """Columns of every kind, cut into pages in different places."""
    chance = random.Random(3)

    def some(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    calls = [
        some([{"call_id": "1", "name": str(n), "arguments": None, "arguments_raw": "x" * (n % 90)}])
        for n in range(ROWS)
    ]
    return pa.table(
        {
            "trajectory_id": [f"run-{n // 7}" for n in range(ROWS)],
            "step_index": pa.array([n % 7 for n in range(ROWS)], pa.int32()),
            "actor": [some("agent") for _ in range(ROWS)],
            "text": [some("é" * chance.randrange(400)) for _ in range(ROWS)],
            "unique": [f"{chance.random()}" for _ in range(ROWS)],
            "reward": [some(n / 2) for n in range(ROWS)],
            "is_copied": [n % 3 == 0 for n in range(ROWS)],
            "nothing": pa.nulls(ROWS, pa.string()),
            "tokens": pa.array([some([n] * (n % 5)) for n in range(ROWS)], pa.list_(pa.int32())),
            "calls": pa.array(calls, STEP_SCHEMA.field("tool_calls").type),
            "rewards": pa.array(
                [some([("a", n / 3)]) for n in range(ROWS)], pa.map_(pa.string(), pa.float64())
            ),
        }
    )


WHOLE = table()


def written(**changes: object) -> bytes:
    options = {**parquet_options(WHOLE), "max_rows_per_page": 50, "data_page_size": 2000}
    options |= {"use_dictionary": ["trajectory_id", "actor", "unique"]}
    out = io.BytesIO()
    pq.write_table(WHOLE, out, row_group_size=250, **{**options, **changes})
    return out.getvalue()


FILE = written()


def footer_of(raw: bytes) -> Footer:
    return read_footer(lambda size, at: raw[at : at + size], len(raw))


def read(raw: bytes, ranges: list[Range], columns: list[str] = WHOLE.column_names) -> pa.Table:
    groups = excerpts(footer_of(raw), lambda size, at: raw[at : at + size], columns, ranges)
    tables = []
    for count, reads in groups:
        found = {name: column for part in reads for name, column in part().items()}
        given = [
            found[n].cast(WHOLE.field(n).type)
            if n in found
            else pa.nulls(count, WHOLE.field(n).type)
            for n in columns
        ]
        tables.append(pa.table(given, names=columns))
    return pa.concat_tables(tables)


def expected(ranges: list[Range]) -> pa.Table:
    return pa.concat_tables([WHOLE.slice(start, end - start) for start, end in ranges])


_RANGES = st.lists(st.integers(0, ROWS), min_size=2, max_size=12, unique=True).map(
    lambda cuts: [*zip(sorted(cuts)[::2], sorted(cuts)[1::2], strict=False)]
)


@settings(max_examples=60, deadline=None)
@given(_RANGES)
def test_rows_of_any_ranges_are_those_that_pyarrow_reads(ranges: list[Range]) -> None:
    assert read(FILE, ranges).to_pylist() == expected(ranges).to_pylist()


@pytest.mark.parametrize(
    "changes",
    [
        {"write_page_index": False},
        {"use_dictionary": False, "column_encoding": None},
        {"use_dictionary": True, "column_encoding": None, "dictionary_pagesize_limit": 300},
        {"compression": "SNAPPY", "compression_level": None},
        {"write_statistics": False},
        {"data_page_version": "2.0"},
    ],
    ids=["no-index", "plain", "dictionary-overflows", "snappy", "no-statistics", "page-v2"],
)
def test_files_of_other_writers_are_read_too(changes: dict[str, object]) -> None:
    ranges = [(3, 4), (240, 260), (599, 600)]
    assert read(written(**changes), ranges).to_pylist() == expected(ranges).to_pylist()


def test_only_the_pages_of_the_rows_are_read() -> None:
    asked: list[int] = []

    def read_at(size: int, at: int) -> bytes:
        asked.append(size)
        return FILE[at : at + size]

    footer = footer_of(FILE)
    for _, reads in excerpts(footer, read_at, ["text"], [(100, 101)]):
        for part in reads:
            part()
    chunk = pq.read_metadata(io.BytesIO(FILE)).row_group(0).column(3)
    assert chunk.path_in_schema == "text"
    assert sum(asked) < chunk.total_compressed_size / 5


def test_a_column_of_nulls_is_not_read() -> None:
    ((count, reads),) = excerpts(footer_of(FILE), lambda _size, _at: b"", ["nothing"], [(0, 9)])
    assert (count, reads) == (9, [])


def test_a_flipped_byte_in_a_page_is_an_error() -> None:
    raw = bytearray(FILE)
    start = pq.read_metadata(io.BytesIO(FILE)).row_group(0).column(3).data_page_offset
    raw[start + 60] ^= 0xFF
    with pytest.raises((OSError, pa.ArrowException)):
        read(bytes(raw), [(0, 1)], ["text"])


@pytest.mark.parametrize("cut", [0, 4, 11, 200, len(FILE) // 2, len(FILE) - 1])
def test_a_file_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"Parquet file|footer"):
        footer_of(FILE[:cut])


def test_a_footer_of_garbage_is_refused() -> None:
    chance = random.Random(5)
    for _ in range(50):
        raw = chance.randbytes(300) + (292).to_bytes(4, "little") + b"PAR1"
        try:
            footer_of(raw)
        except pa.ArrowInvalid:
            continue


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_written_as_they_are_read(value: int) -> None:
    assert thrift.Cursor(thrift.signed(value)).signed() == value


def test_the_worked_examples_of_the_specification_hold() -> None:
    """Zigzag: 0, -1, 1, -2 are 0, 1, 2, 3; 50399 as a variable-length number is DF 89 03."""
    assert [thrift.signed(n) for n in (0, -1, 1, -2)] == [b"\x00", b"\x01", b"\x02", b"\x03"]
    assert thrift.number(50399) == b"\xdf\x89\x03"


def test_a_struct_holds_what_was_written() -> None:
    raw = thrift.struct(
        [
            (1, thrift.I32, thrift.signed(-7)),
            (4, thrift.BINARY, thrift.text(b"x" * 200)),
            (9, thrift.LIST, thrift.listed(thrift.I64, [thrift.signed(n) for n in range(20)])),
        ]
    )
    assert thrift.Cursor(raw).value(thrift.STRUCT) == {1: -7, 4: b"x" * 200, 9: [*range(20)]}
