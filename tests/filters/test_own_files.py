from __future__ import annotations

import pytest

from trajstore.filters.actions import FileAction
from trajstore.filters.actions.file_action import ActionKind
from trajstore.filters.own_files import Files


def act(files: Files, kind: ActionKind, path: str, **more: object) -> bool:
    """Take one action; whether its file was known to be there."""
    action = FileAction(kind=kind, path=path, **more)  # type: ignore[arg-type]  # fields by name
    known = files.is_known(action)
    files.note(action, known=known)
    return known


def test_a_file_that_was_written_first_is_one_s_own() -> None:
    files = Files()
    assert not act(files, "write", "/repo/new.py")
    assert files.is_own("/repo/new.py")
    assert files.is_own("new.py")
    assert not act(files, "write", "/repo/new.py")


def test_a_file_that_was_read_first_is_not() -> None:
    files = Files()
    act(files, "read", "src/a.py")
    assert act(files, "write", "src/a.py")
    assert not files.is_own("src/a.py")


def test_a_file_that_a_result_named_was_there() -> None:
    files = Files()
    files.hear("total 3\n./src/a.py:12: x\ndrwxr-xr-x src")
    assert act(files, "write", "/repo/src/a.py")


@pytest.mark.parametrize("result", ["my_a.py", "a.pyc", "lib/a.py", "src/a-py", "data.py", ""])
def test_a_result_that_names_another_file_says_nothing(result: str) -> None:
    files = Files()
    files.hear(result)
    assert not act(files, "write", "/repo/src/a.py")


def test_a_result_behind_the_write_says_nothing() -> None:
    files = Files()
    act(files, "write", "a.py")
    files.hear("a.py")
    assert not act(files, "edit", "a.py", removes=True)
    assert files.is_own("a.py")


def test_an_edit_says_that_the_file_was_there() -> None:
    files = Files()
    assert act(files, "edit", "a.py", by_editor=True)
    assert act(files, "edit", "b.py", removes=True)
    assert not files.is_own("a.py")


def test_adding_to_a_file_that_nobody_saw_makes_it() -> None:
    files = Files()
    assert not act(files, "edit", "log.txt")
    assert files.is_own("log.txt")


def test_everything_in_an_own_folder_is_own() -> None:
    files = Files()
    act(files, "make-folder", "/repo/scratch")
    assert files.is_own("/repo/scratch/tests/test_a.py")
    assert not files.is_own("/repo/scratchy/a.py")


def test_an_own_file_is_own_wherever_it_is_moved() -> None:
    files = Files()
    act(files, "write", "a.py")
    act(files, "move", "a.py", target="tests/test_a.py", removes=True)
    assert files.is_own("tests/test_a.py")


def test_moving_a_file_that_was_there_makes_nothing_own() -> None:
    files = Files()
    files.hear("tests/test_a.py")
    act(files, "move", "tests/test_a.py", target="old.py", removes=True)
    assert not files.is_own("old.py")
    assert not files.is_own("tests/test_a.py")
