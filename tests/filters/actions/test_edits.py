"""Edits and patches: which lines went, which came."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.filters.actions.file_action import edit
from trajstore.filters.actions.patches import patch_actions

LINES = st.lists(st.sampled_from(["a", "b", "c", "  d", ""]), max_size=6)


@given(LINES, LINES)
def test_an_edit_removes_exactly_the_lines_that_are_not_there_any_more(
    before: list[str], after: list[str]
) -> None:
    made = edit("x", "\n".join(before), "\n".join(after))
    gone = {line for line in before if line.strip()} - set(after)
    come = {line for line in after if line.strip()} - set(before)
    assert set(made.removed.splitlines()) == gone
    assert set(made.added.splitlines()) == come
    assert made.removes is bool(gone)


def test_moving_lines_about_removes_nothing() -> None:
    assert not edit("x", "a\nb", "b\na").removes


def test_blank_lines_do_not_count() -> None:
    assert not edit("x", "a\n\n\n", "a").removes


def test_changing_white_space_of_a_line_changes_it() -> None:
    assert edit("x", "    a", "a").removes


@given(LINES, LINES)
def test_a_diff_says_what_difflib_says(before: list[str], after: list[str]) -> None:
    """Oracle: the lines that difflib marks with minus and plus."""
    diff = list(difflib.unified_diff(before, after, "a/x.py", "b/x.py", lineterm=""))
    found = list(patch_actions("\n".join(diff)))
    if not diff:
        assert found == []
        return
    (made,) = found
    body = diff[3:]
    assert made.path == "x.py"
    assert made.removed == "\n".join(line[1:] for line in body if line.startswith("-"))
    assert made.added == "\n".join(line[1:] for line in body if line.startswith("+"))


def test_a_diff_with_times_names_the_file_without_them() -> None:
    text = "--- x.py\t2026-01-01 00:00:00\n+++ x.py\t2026-01-02 00:00:00\n@@ -1 +1 @@\n-a\n+b\n"
    assert [a.path for a in patch_actions(text)] == ["x.py"]


def test_a_diff_of_several_files_gives_one_action_each() -> None:
    one = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-old {0}\n+new {0}\n"
    found = list(patch_actions(one.format("x.py") + one.format("tests/y.py")))
    assert [(a.path, a.removed) for a in found] == [
        ("x.py", "old x.py"),
        ("tests/y.py", "old tests/y.py"),
    ]


def test_a_diff_that_only_adds_removes_nothing() -> None:
    text = "--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n a\n+b\n"
    assert [a.removes for a in patch_actions(text)] == [False]


@pytest.mark.parametrize(
    "text", ["", "no patch at all", "*** Begin Patch\n*** End Patch", "@@ -1 +1 @@\n-a"]
)
def test_text_without_a_file_gives_nothing(text: str) -> None:
    assert list(patch_actions(text)) == []


def test_a_moved_file_of_an_envelope_is_edited_first() -> None:
    text = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n-x\n+y\n*** End Patch"
    found = list(patch_actions(text))
    assert [(a.kind, a.path, a.target) for a in found] == [
        ("edit", "a.py", None),
        ("move", "a.py", "b.py"),
    ]
