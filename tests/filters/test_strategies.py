from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.filters.frames import bash, call, run, said, stored
from trajstore import Step, ToolCall
from trajstore.filters import Frame
from trajstore.filters.strategies import (
    bigram_similarity,
    bigrams,
    edit_similarity,
    levenshtein,
    strategies,
)

A = ["search", "open", "edit", "test", "submit"]
B = ["search", "open", "edit", "edit", "test", "submit"]
C = ["ls", "cat", "edit", "test", "submit"]


@pytest.mark.parametrize(
    ("one", "other", "distance", "similarity"),
    [(A, B, 1, 0.8333), (A, C, 2, 0.6), (B, C, 3, 0.5)],
)
def test_the_worked_example_of_edits(
    one: list[str], other: list[str], distance: int, similarity: float
) -> None:
    assert levenshtein(one, other) == distance
    assert edit_similarity(one, other) == pytest.approx(similarity, abs=5e-5)


@pytest.mark.parametrize(
    ("one", "other", "plain", "padded"),
    [(A, B, 0.8, 0.8571), (A, C, 0.3333, 0.3333), (B, C, 0.2857, 0.3)],
)
def test_the_worked_example_of_bigrams(
    one: list[str], other: list[str], plain: float, padded: float
) -> None:
    assert bigram_similarity(one, other, padded=False) == pytest.approx(plain, abs=5e-5)
    assert bigram_similarity(one, other) == pytest.approx(padded, abs=5e-5)


def test_a_run_of_one_call_has_bigrams_only_with_padding() -> None:
    assert bigrams(["ask"], padded=False) == set()
    assert len(bigrams(["ask"])) == 2
    assert bigram_similarity(["ask"], ["guess"]) == 0.0


def test_two_runs_that_did_nothing_did_the_same() -> None:
    assert (bigram_similarity([], []), edit_similarity([], [])) == (1.0, 1.0)
    assert (bigram_similarity([], ["a"]), edit_similarity([], ["a"])) == (0.0, 0.0)


WORDS = st.lists(st.sampled_from("abc"), max_size=7)


@given(WORDS, WORDS, WORDS)
def test_the_levenshtein_distance_is_a_metric(a: list[str], b: list[str], c: list[str]) -> None:
    assert levenshtein(a, b) == levenshtein(b, a)
    assert (levenshtein(a, b) == 0) == (a == b)
    assert levenshtein(a, c) <= levenshtein(a, b) + levenshtein(b, c)
    assert abs(len(a) - len(b)) <= levenshtein(a, b) <= max(len(a), len(b))


def words(frame: Frame, kind: Any = "programs") -> list[list[str]]:
    found: list[list[str]] = strategies(frame, kind).to_pylist()
    return found


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("grep -rn x src", "bash grep"),
        ("cd /repo && python -m pytest", "bash python"),
        ("cd /repo; cd src; ls", "bash ls"),
        ("cd /repo\nls", "bash ls"),
        ("cd /repo", "bash cd"),
        ("  LANG=C sudo /usr/bin/env python", "bash env"),
        ("./run.sh | tail", "bash run.sh"),
        ("(make)", "bash"),
        ("", "bash"),
        ("x" * 60, "bash " + "x" * 40),
    ],
)
def test_a_shell_command_stands_for_the_program_it_starts(
    tmp_path: Path, command: str, word: str
) -> None:
    assert words(stored(tmp_path, run("a", bash(command)))) == [[word]]


def test_a_command_as_a_list_is_read_too(tmp_path: Path) -> None:
    frame = stored(
        tmp_path,
        run(
            "a",
            call("shell", {"command": ["bash", "-lc", "cd x && git diff"]}),
            call("shell", {"command": ["ls", "-la"]}),
            call("shell", {"command": []}),
            call("shell", {"command": 5}),
            call("edit", {"command": "edit 1:5"}),
        ),
    )
    assert words(frame) == [["shell git", "shell ls", "shell", "shell", "edit"]]
    assert words(frame, "tools") == [["shell"] * 4 + ["edit"]]


def test_arguments_that_are_no_json_leave_the_name(tmp_path: Path) -> None:
    assert words(stored(tmp_path, run("a", call("bash", '{"command": ls')))) == [["bash"]]


def test_words_come_in_the_order_of_steps_and_calls(tmp_path: Path) -> None:
    two = Step(actor="agent", tool_calls=(ToolCall.of("z", {}, "1"), ToolCall.of("a", {}, "2")))
    frame = stored(tmp_path, run("r", call("m", {}), two, call("b", {})))
    assert words(frame) == [["m", "z", "a", "b"]]


def test_copied_context_and_the_calls_of_others_are_left_out(tmp_path: Path) -> None:
    copied = Step(actor="agent", is_copied=True, tool_calls=(ToolCall.of("old", {}, "1"),))
    user = Step(actor="user", tool_calls=(ToolCall.of("theirs", {}, "2"),))
    frame = stored(tmp_path, run("r", copied, user, call("own", {})))
    assert words(frame) == [["own"]]


def test_rows_keep_their_order_and_runs_without_calls_are_empty(tmp_path: Path) -> None:
    frame = stored(tmp_path, run("a", call("x", {})), run("b", said("hi")), run("c", call("y", {})))
    part = Frame(frame.rows.take([2, 1, 0]), frame.steps)
    assert words(part) == [["y"], [], ["x"]]


def test_real_runs_differ_by_the_programs_they_start(real_data: Path, tmp_path: Path) -> None:
    from trajstore import open as open_store
    from trajstore.pipeline.selecting import summary_frame

    pool = open_store(tmp_path / "pool", durable=False)
    pool.import_files(real_data / "mini_swe_agent")
    found = {w for run_ in words(summary_frame(pool.reader())) for w in run_}
    assert {"bash cat", "bash grep", "bash python", "bash sed"} <= found
    tools = {w for run_ in words(summary_frame(pool.reader()), "tools") for w in run_}
    assert tools == {"bash"}
