from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import (
    asked,
    bash,
    call,
    details,
    run,
    selected,
    stored,
    summaries,
    why,
)
from trajstore import Step, Trajectory
from trajstore.errors import SelectionError
from trajstore.filters import stage
from trajstore.filters.sequences import masked
from trajstore.schema import mask_volatile


def calls(identity: str, letters: str, **fields: Any) -> Trajectory:
    """A run that makes one call a letter; the result of each differs."""
    steps = [call(name, {"x": 1}, f"result {i}") for i, name in enumerate(letters)]
    return run(identity, *steps, **fields)


def longest_cycle(letters: str, times: int, longest: int) -> bool:
    """Whether some sequence of up to ``longest`` letters stands ``times`` times in a row."""
    return any(
        letters[start : start + period] * times == letters[start : start + period * times]
        for period in range(1, longest + 1)
        for start in range(len(letters) - period * times + 1)
    )


def test_failed_calls_are_bounded_by_number_and_by_share() -> None:
    frame = summaries(
        {"n_tool_calls": 10, "n_tool_errors": 2},
        {"n_tool_calls": 4, "n_tool_errors": 2},
        {"n_tool_calls": 9, "n_tool_errors": 3},
        {},
    )
    assert selected(frame, stage("tool-errors", most=2)).ids() == ["a", "b", "d"]
    selection = selected(frame, stage("tool-errors", most_share=0.2))
    assert selection.ids() == ["a", "d"]
    assert details(selection)["b"] == "2 of 4"
    assert why(selection)["b"] == "too-many-failed-calls"


def test_failed_calls_need_a_bound_that_makes_sense() -> None:
    with pytest.raises(SelectionError, match="needs most, most_share or both"):
        stage("tool-errors")
    with pytest.raises(SelectionError, match=r"from 0 to 1, not 20\.0"):
        stage("tool-errors", most_share=20)


def test_format_errors_are_bounded() -> None:
    frame = summaries({"n_format_errors": 0}, {"n_format_errors": 1}, {"n_format_errors": 2})
    assert selected(frame, stage("format-errors")).ids() == ["a"]
    assert why(selected(frame, stage("format-errors", most=1))) == {"c": "format-errors"}


def test_the_same_call_again_and_again_is_a_repeat(tmp_path: Path) -> None:
    frame = stored(tmp_path, calls("a", "xyyz"), calls("b", "xyyyz"))
    selection = selected(frame, stage("repeats"))
    assert selection.ids() == ["a"]
    assert details(selection) == {"b": "y 3 times in a row from step 1"}


def test_other_arguments_are_another_call(tmp_path: Path) -> None:
    pages = [call("read", {"page": n}) for n in range(5)]
    assert selected(stored(tmp_path, run("a", *pages)), stage("repeats")).ids() == ["a"]


def test_key_order_and_volatile_values_make_no_other_call(tmp_path: Path) -> None:
    """Volatile values (uuid, timestamp, temp path) are masked before calls are compared."""
    again = [
        call("go", '{"a": 1, "b": "/tmp/x1/log 2026-01-02T03:04:05Z"}'),
        call("go", '{"b": "/tmp/zz/log 2026-05-06T07:08:09Z", "a": 1}'),
        call("go", '{"b":"/tmp/q/log 2025-01-01T00:00:00Z","a":1}'),
    ]
    assert why(selected(stored(tmp_path, run("a", *again)), stage("repeats"))) == {
        "a": "repeated-call"
    }


def test_paging_is_no_repeat_where_results_must_be_the_same_too(tmp_path: Path) -> None:
    paging = run("a", *(call("scroll_down", {}, f"lines {i}") for i in range(6)))
    stuck = run("b", *(call("scroll_down", {}, "end of file") for _ in range(6)))
    frame = stored(tmp_path, paging, stuck)
    assert selected(frame, stage("repeats", same_result=True)).ids() == ["a"]
    assert selected(frame, stage("repeats")).ids() == []


def test_what_a_user_says_in_between_ends_a_repeat(tmp_path: Path) -> None:
    turns = [step for _ in range(5) for step in (call("finish", {}), asked("more, please"))]
    assert selected(stored(tmp_path, run("a", *turns)), stage("repeats")).ids() == ["a"]


def test_copied_context_is_not_the_agents_own(tmp_path: Path) -> None:
    copied = [
        Step(actor="agent", tool_calls=s.tool_calls, is_copied=True)
        for s in (call("x", {}), call("x", {}))
    ]
    frame = stored(tmp_path, run("a", *copied, call("x", {})))
    assert selected(frame, stage("repeats", most=2)).ids() == ["a"]


def test_a_sequence_made_again_and_again_is_a_loop(tmp_path: Path) -> None:
    frame = stored(tmp_path, calls("a", "pqrpqrpq"), calls("b", "0pqrpqrpqr1"))
    selection = selected(frame, stage("loops"))
    assert selection.ids() == ["a"]
    expected = "3 calls that begin with p made 3 times in a row from step 1"
    assert details(selection) == {"b": expected}


def test_the_shortest_sequence_is_told(tmp_path: Path) -> None:
    selection = selected(stored(tmp_path, calls("a", "yyyyyy")), stage("loops", times=2))
    assert details(selection) == {"a": "y 6 times in a row from step 0"}


def test_a_loop_does_not_reach_from_one_run_into_the_next(tmp_path: Path) -> None:
    frame = stored(tmp_path, calls("a", "xx"), calls("b", "xx"), calls("c", "x"))
    assert len(selected(frame, stage("loops"))) == 3


def test_parallel_calls_of_one_step_count_in_order(tmp_path: Path) -> None:
    step = call("x", {})
    both = Step(actor="agent", tool_calls=step.tool_calls * 3, observations=step.observations * 3)
    assert why(selected(stored(tmp_path, run("a", both)), stage("repeats"))) == {
        "a": "repeated-call"
    }


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.text("xyz", max_size=12), min_size=1, max_size=5),
    st.integers(2, 4),
    st.integers(1, 4),
)
def test_loops_are_those_that_a_plain_search_finds(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], times: int, longest: int
) -> None:
    runs = [calls(chr(97 + i), word) for i, word in enumerate(words)]
    frame = stored(tmp_path_factory.mktemp("loops"), *runs)
    selection = selected(frame, stage("loops", times=times, longest=longest))
    expected = [not longest_cycle(word, times, longest) for word in words]
    assert selection.ids() == [chr(97 + i) for i, stays in enumerate(expected) if stays]


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SelectionError, match="times of at least 2"):
        stage("loops", times=1)
    with pytest.raises(SelectionError, match="1 call or more, not 0"):
        stage("repeats", most=0)


@pytest.mark.parametrize(
    "text",
    [
        "plain words, 12:30, 0x12",
        "id 123e4567-e89b-12d3-a456-426614174000 of 0xDEADBEEF12",
        "at 2026-01-02 03:04, 2026-01-02T03:04:05.678Z and 2026-01-02T03:04:05+02:00",
        "/tmp/tmpabc-1/x /var/folders/zz.9/y /home/tmp/z",
    ],
)
def test_sql_masks_what_the_schema_masks(text: str) -> None:
    expected = mask_volatile(text)
    query = f"SELECT {masked('$text')}"
    assert duckdb.execute(query, {"text": text}).fetchone() == (expected,)


def test_required_tools_must_all_be_called(tmp_path: Path) -> None:
    frame = stored(tmp_path, calls("a", "xy"), calls("b", "x"), run("c", asked("hi")))
    selection = selected(frame, stage("tools", required=["x", "y"]))
    assert selection.ids() == ["a"]
    assert why(selection) == {"b": "missing-tool", "c": "missing-tool"}
    assert details(selection) == {"b": "y", "c": "x"}


def test_a_forbidden_tool_is_named(tmp_path: Path) -> None:
    frame = stored(tmp_path, calls("a", "xy"), calls("b", "xz"))
    selection = selected(frame, stage("tools", forbidden=["q", "z"]))
    assert (selection.ids(), details(selection)) == (["a"], {"b": "z"})


def test_only_these_tools_may_be_called(tmp_path: Path) -> None:
    frame = stored(tmp_path, run("a", bash("ls")), run("b", bash("ls"), call("web", {})))
    selection = selected(frame, stage("tools", only=["bash"]))
    assert (selection.ids(), details(selection)) == (["a"], {"b": "web"})


def test_no_tool_to_look_for_is_refused() -> None:
    with pytest.raises(SelectionError, match="needs required, forbidden or only"):
        stage("tools")
