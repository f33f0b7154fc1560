"""Tables, cells and reports: aligned, short, safe."""

from __future__ import annotations

import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from trajstore_cli._cells import cell, columns_taken, count_of, pairs, safe, safe_lines, table

from tests.cli.conftest import HOSTILE

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@given(st.text())
def test_nothing_in_a_line_can_steer_a_terminal(text: str) -> None:
    shown = safe(text)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not set(shown) & set(BIDI)


@given(st.text())
def test_in_lines_only_breaks_and_tabs_stay(text: str) -> None:
    shown = safe_lines(text)
    control = {c for c in shown if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}}
    assert control <= {"\n", "\t"}
    assert not set(shown) & set(BIDI)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert safe(text) == text
    assert safe_lines(text) == text


def test_what_steers_is_shown_as_a_sign() -> None:
    assert safe("a\x1b[31mb\x07\x7f\x9b\u202e") == "a␛[31mb␇␡\\x9b\\u202e"


def test_line_breaks_become_a_sign_and_a_lone_return_does_not_pass_for_one() -> None:
    assert safe("a\nb\r\nc\rd\te") == "a⏎b⏎c␍d␉e"
    assert safe_lines("a\nb\r\nc\rd\te") == "a\nb\nc␍d\te"


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("日本語", 6), ("e\u0301", 1), ("가", 2), ("😀", 2), ("🇬🇧", 2), ("…⏎␛─→✗", 6)],
)
def test_columns_taken_on_a_terminal(text: str, columns: int) -> None:
    assert columns_taken(text) == columns


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        ("", ""),
        (True, "true"),
        (1234567, "1234567"),
        (1 / 3, "0.333333"),
        (1234567.25, "1234567.25"),
        (float("nan"), "nan"),
        (Decimal("1.50"), "1.50"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (b"\x01\xff", "01ff"),
    ],
)
def test_values_as_cells(value: object, text: str) -> None:
    assert cell(value, null="NULL") == text


def test_a_long_cell_is_cut_to_its_columns() -> None:
    assert cell("x" * 100, width=10) == "xxxxxxxxx…"
    assert cell("日本語日本語", width=6) == "日本 …"


@given(st.text(), st.integers(2, 30))
def test_no_cell_is_wider_than_it_may_be(text: str, width: int) -> None:
    assert cell_len(cell(text, width=width)) <= width


def test_a_megabyte_of_text_is_cut_quickly_and_says_so() -> None:
    assert cell("\x1b" * 1_000_000, width=10) == "␛" * 9 + "…"


def test_a_table_is_aligned_with_numbers_to_the_right() -> None:
    rows: list[dict[str, object]] = [
        {"name": "a", "n": 5},
        {"name": "long", "n": 1234},
        {"name": None, "n": None},
    ]
    assert table(rows, null="NULL").split("\n") == [
        "name     n",
        "────  ────",
        "a        5",
        "long  1234",
        "NULL  NULL",
    ]


def test_wide_and_combining_characters_keep_columns_aligned() -> None:
    rows = [{"t": t, "x": "|"} for t in ("日本語", "cafe\u0301", "😀", "plain")]
    lines = table(rows).split("\n")
    assert {cell_len(line.partition("|")[0]) for line in lines[2:]} == {8}


def test_column_names_are_data_too() -> None:
    assert "\x1b" not in table([{HOSTILE: 1}])


def test_a_table_without_rows_shows_its_columns() -> None:
    assert table([], ["a", "bc"]) == "a  bc\n─  ──"


def test_a_table_too_wide_to_read_has_one_value_a_line() -> None:
    rows = [{f"column_{i}": "x" * 40 for i in range(5)} | {"last": None}]
    lines = table(rows, null="NULL").split("\n")
    assert lines[0].startswith("── row 1 ─")
    assert lines[1] == "column_0  " + "x" * 40
    assert lines[-1] == "last      NULL"


def test_the_form_of_a_table_does_not_depend_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [{"a": "x" * 50, "b": "y" * 50}]
    before = table(rows)
    monkeypatch.setenv("COLUMNS", "20")
    assert table(rows) == before


def test_a_report_leaves_out_what_is_unknown_and_counts_in_thousands() -> None:
    report = {"files": 1200, "ok": True, "name": None, "pins": (), "kinds": {"a b": 1500, "c": 2}}
    assert pairs(report) == "files  1,200\nok     yes\nkinds  a b 1,500, c 2"


def test_a_snapshot_number_can_be_copied() -> None:
    assert pairs({"snapshot": 12345}) == "snapshot  12345"


def test_text_in_a_report_is_safe() -> None:
    assert "\x1b" not in pairs({"agent": HOSTILE, "tags": [HOSTILE], "by": {HOSTILE: 1}})


def test_a_number_with_its_noun() -> None:
    assert count_of(1, "trajectory", "trajectories") == "1 trajectory"
    assert count_of(0, "row") == "0 rows"
