"""The folder of a build appears whole or not at all, and never takes what is not its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trajstore.errors import RecipeError
from trajstore.pipeline.recipe_folder import OutputFolder, differences, files_below

HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
"""SHA-256 of ``hello``, as everybody's example has it."""


def fill(folder: Path, **texts: str) -> None:
    """Files of one set and a manifest that names them."""
    (folder / "a").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / "a" / name).write_text(text)
    listed = ", ".join(f'{{"name": "a/{n}"}}' for n in texts)
    (folder / "manifest.json").write_text(f'{{"sets": [{{"files": [{listed}]}}]}}')


def publish(place: Path, **texts: str) -> None:
    folder = OutputFolder(place)
    with folder.staging() as staged:
        fill(staged, **texts)
        folder.publish()


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def test_files_are_told_by_path_with_hash_and_size(tmp_path: Path) -> None:
    fill(tmp_path, x="hello")
    file = files_below(tmp_path)["a/x"]
    assert (file.name, file.sha256, file.bytes) == ("a/x", HELLO, 5)


def test_differences_are_new_changed_and_missing(tmp_path: Path) -> None:
    fill(tmp_path / "old", same="1", other="2", gone="3")
    fill(tmp_path / "new", same="1", other="4", more="5")
    old, new = files_below(tmp_path / "old"), files_below(tmp_path / "new")
    found = differences(old, new)
    found.pop("manifest.json")
    assert found == {"a/gone": "missing", "a/more": "new", "a/other": "changed"}
    assert differences(old, old) == {}


def test_the_new_folder_takes_the_place_of_the_old_one_whole(tmp_path: Path) -> None:
    publish(tmp_path / "sets", x="1", gone="2")
    publish(tmp_path / "sets", x="3")
    assert (tmp_path / "sets/a/x").read_text() == "3"
    assert names(tmp_path) == ["sets", "sets/a", "sets/a/x", "sets/manifest.json"]


def test_an_error_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    publish(tmp_path / "sets", x="1")
    with pytest.raises(FileNotFoundError), OutputFolder(tmp_path / "sets").staging() as staged:
        (staged / "half").write_text("2", encoding="utf-8") and (staged / "no/where").read_text()
    assert (tmp_path / "sets/a/x").read_text() == "1"
    assert names(tmp_path) == ["sets", "sets/a", "sets/a/x", "sets/manifest.json"]


def test_a_file_that_no_build_wrote_is_not_taken_away(tmp_path: Path) -> None:
    publish(tmp_path / "sets", x="1")
    (tmp_path / "sets/a/notes.txt").write_text("mine")
    with pytest.raises(RecipeError, match=r"sets holds a/notes\.txt, which no build wrote"):
        publish(tmp_path / "sets", x="2")
    assert (tmp_path / "sets/a/notes.txt").read_text() == "mine"
    assert (tmp_path / "sets/a/x").read_text() == "1"


@pytest.mark.parametrize("text", ['{"files": []}', "[]", "no JSON"])
def test_a_manifest_of_somebody_else_is_not_taken_away(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RecipeError, match=r"holds manifest\.json, which no build wrote"):
        OutputFolder(tmp_path).check()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "sets").write_text("x")
    with pytest.raises(RecipeError, match="is a file; sets go into a folder"):
        OutputFolder(tmp_path / "sets").check()


def test_a_second_build_of_the_same_place_is_refused(tmp_path: Path) -> None:
    first, second = OutputFolder(tmp_path / "sets"), OutputFolder(tmp_path / "sets")
    with (
        first.staging(),
        pytest.raises(RecipeError, match="Another build is writing"),
        second.staging(),
    ):
        pass
    with second.staging():
        pass


def test_a_link_stays_and_its_aim_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "sets").symlink_to(tmp_path / "real")
    publish(tmp_path / "sets", x="1")
    assert (tmp_path / "sets").is_symlink()
    assert (tmp_path / "real/a/x").read_text() == "1"


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.pipeline.test_recipe_folder import fill
from trajstore.pipeline.recipe_folder import OutputFolder
folder, at = OutputFolder(Path(sys.argv[1])), sys.argv[2]
rename = Path.rename
def dies(path, target):
    if at == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    rename(path, target)
    os.kill(os.getpid(), signal.SIGKILL)
Path.rename = dies
with folder.staging() as staged:
    fill(staged, x="new")
    folder.publish()
"""


@pytest.mark.parametrize("at", ["before", "between"])
def test_what_a_kill_leaves_is_cleared_and_the_old_sets_are_put_back(
    at: str, tmp_path: Path
) -> None:
    place = tmp_path / "sets"
    publish(place, x="old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(place), at], check=False)
    assert done.returncode == -signal.SIGKILL
    assert place.exists() == (at == "before")
    with OutputFolder(place).staging() as staged:
        assert (place / "a/x").read_text() == "old"
        assert os.listdir(staged) == []  # noqa: PTH208
    assert names(tmp_path) == ["sets", "sets/a", "sets/a/x", "sets/manifest.json"]
