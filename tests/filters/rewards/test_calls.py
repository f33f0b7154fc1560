from __future__ import annotations

import pytest

from tests.filters.rewards.tables import calls, rows
from trajstore.errors import SelectionError
from trajstore.filters.rewards import judged_calls, process_counts


def flags(made: object, name: str) -> list[bool | None]:
    return judged_calls(made).column(name).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "observation",
    [
        "Error: user not found",
        '{"error": "no such file"}',
        "Traceback (most recent call last):\n  File",
        "HTTP/1.1 404 Not Found",
        "Request failed with status code 503",
        '{"status": 429}',
        "[Exception] x",
    ],
)
def test_an_observation_that_reads_like_an_error_failed(observation: str) -> None:
    assert flags(calls(("a", "{}", observation, None)), "failed") == [True]


@pytest.mark.parametrize(
    "observation",
    ["2 errors were fixed", "flight 404 leaves at 9", '{"status": 200}', "", "an error message"],
)
def test_an_observation_that_only_speaks_of_numbers_or_errors_did_not_fail(
    observation: str,
) -> None:
    assert flags(calls(("a", "{}", observation, None)), "failed") == [False]


def test_the_source_s_own_word_counts_before_the_text() -> None:
    made = calls(("a", "{}", "Error: x", False), ("b", "{}", "fine", True))
    assert flags(made, "failed") == [False, True]


def test_nobody_knows_of_a_call_without_a_result() -> None:
    assert flags(calls(("submit", "{}", None, None)), "failed") == [None]


def test_only_the_same_call_right_before_makes_a_repeat() -> None:
    made = calls(
        ("a", '{"x":1}', "1", False),
        ("a", '{"x":1}', "1", False),
        ("b", '{"x":1}', "1", False),
        ("a", '{"x":1}', "1", False),
        ("a", '{"x":2}', "1", False),
    )
    assert flags(made, "repeats") == [False, True, False, False, False]


def test_a_recovery_is_the_same_tool_with_other_arguments() -> None:
    made = calls(
        ("edit", "1", "bad", True),
        ("look", "1", "ok", False),
        ("edit", "2", "ok", False),
        ("edit", "3", "bad", True),
        ("edit", "3", "ok", False),
    )
    assert flags(made, "recovers") == [False, False, True, False, False]


def test_failures_in_a_row_are_one_fault() -> None:
    made = calls(("e", "1", "bad", True), ("e", "2", "bad", True), ("e", "3", "ok", False))
    counts = process_counts(rows({}, {}), made).to_pylist()
    assert counts[0] == {
        "n_calls": 3,
        "n_effective": 1,
        "n_repeats": 0,
        "n_faults": 1,
        "n_recovered": 1,
    }
    assert set(counts[1].values()) == {0}


def test_a_missing_column_of_the_calls_is_named() -> None:
    with pytest.raises(SelectionError, match="'calls' lacks the columns is_error"):
        judged_calls(calls(("a", "{}", "x", None)).drop_columns("is_error"))
