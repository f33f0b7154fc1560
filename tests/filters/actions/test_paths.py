from __future__ import annotations

import pytest

from trajstore.filters.actions import (
    is_among,
    is_answer_path,
    is_test_path,
    named_paths,
    same_file,
)

TESTS = [
    "test_x.py",
    "src/pkg/x_test.go",
    "/testbed/astropy/modeling/tests/test_separable.py",
    "tests",
    "tests/",
    "./tests/fixtures/a.yml",
    "conftest.py",
    "web/button.spec.tsx",
    "web/button.test.js",
    "src/__tests__/a.js",
    "UserServiceTest.java",
    "spec/models/user_spec.rb",
    "t/test_it.sh",
    "tests.py",
]
OTHERS = [
    "src/latest.py",
    "contest.py",
    "attest/verify.go",
    "/tmp/test_x.py",
    "/dev/null",
    "docs/pytest.md",
    "src/test_output.txt",
    "protest/a.py",
    "",
    "Contest.java",
]


@pytest.mark.parametrize("path", TESTS)
def test_tests_are_known_by_their_names(path: str) -> None:
    assert is_test_path(path)


@pytest.mark.parametrize("path", OTHERS)
def test_other_files_are_no_tests(path: str) -> None:
    assert not is_test_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "answer.txt",
        "/oracle/solve.sh",
        "task/solution.sh",
        "solutions/3.py",
        "gold_patch.diff",
        "test.patch",
        "data/ground_truth.json",
        "hidden_tests/test_a.py",
        "expected_answer.json",
        "answer_key.md",
        ".solution",
    ],
)
def test_answers_are_known_by_their_names(path: str) -> None:
    assert is_answer_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "src/solver.py",
        "golden/out.txt",
        "answering.py",
        "resolution.py",
        "marigold.py",
        "a/b/answers/deep/down/x.py",
        "tests/expected/out.txt",
    ],
)
def test_other_files_hold_no_answer(path: str) -> None:
    assert not is_answer_path(path)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a.py", "a.py", True),
        ("./a.py", "a.py", True),
        ("/repo/tests/a.py", "tests/a.py", True),
        ("tests/*.py", "/repo/tests/a.py", True),
        ("/repo/a.py", "/repo/tests/a.py", False),
        ("x/a.py", "y/a.py", False),
        ("a.py", "b.py", False),
        ("", "a.py", False),
    ],
)
def test_same_file_compares_the_ends_of_paths(one: str, other: str, same: bool) -> None:  # noqa: FBT001
    assert same_file(one, other) is same
    assert same_file(other, one) is same


def test_a_file_is_among_its_folder() -> None:
    assert is_among("/repo/new/a.py", ["/repo/new"])
    assert not is_among("/repo/newer/a.py", ["/repo/new"])


def test_named_paths_stop_at_line_numbers_and_quotes() -> None:
    text = 'File "/repo/tests/test_a.py", line 3; ./b/c.go:12:3 and `conf.d/x.yml` (see d.js).'
    assert named_paths(text) == {"/repo/tests/test_a.py", "b/c.go", "conf.d/x.yml", "d.js"}
