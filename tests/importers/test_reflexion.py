"""Reflexion: which files are its own, and what is told of those that are not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trajstore.importers import lats
from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.reflexion import IMPORTER
from trajstore.importers.source import Source

TRIAL = [{"name": "env_0", "memory": [], "is_success": True}]
STEP_LOG = "\n#####\n\nEnvironment #0:\nYou are in a room.\n> go\n\nSTATUS: OK\n\n#####\n" * 2
WORLD_LOG = "***** Start Trial #0 *****\n\nEnvironment #0 Trial #0: SUCCESS\n"


def write(folder: Path, name: str, content: str) -> Source:
    (folder / name).write_text(content)
    return Source(folder / name)


def test_exactly_the_reflexion_files_are_recognised(real_data: Path) -> None:
    files = [f for f in sorted(real_data.rglob("*")) if f.is_file()]
    found = {f for f in files if IMPORTER.detect(Source(f))}
    assert found == {f for f in files if "reflexion" in f.relative_to(real_data).parts[0]}
    assert len(found) == 22 + 4 + 1 + 2


def test_no_file_is_claimed_by_reflexion_and_lats(real_data: Path) -> None:
    files = [*real_data.glob("reflexion/programming/*"), *real_data.glob("lats/*")]
    for file in files:
        sure = [i.detect(Source(file)) > 0 for i in (IMPORTER, lats.IMPORTER)]
        assert sure.count(True) == 1


def test_trial_files_of_a_folder_are_one_source(tmp_path: Path) -> None:
    for number in (0, 1):
        write(tmp_path, f"env_results_trial_{number}.json", json.dumps(TRIAL))
    write(tmp_path, "env_results_trial_2.json", json.dumps([{"other": 1}]))
    write(tmp_path, "notes.txt", "x")
    names = frozenset(p.name for p in tmp_path.iterdir())
    assert list(IMPORTER.claims(tmp_path, names)) == [
        ("env_results_trial_0.json", "env_results_trial_1.json")
    ]


def test_folder_without_trials_is_not_claimed(tmp_path: Path) -> None:
    write(tmp_path, "env_results_trial_0.json", "[]")
    names = frozenset(p.name for p in tmp_path.iterdir())
    assert list(IMPORTER.claims(tmp_path, names)) == []


def test_folder_of_other_files_is_not_recognised(tmp_path: Path) -> None:
    files = (tmp_path / "results.json", tmp_path / "env_results_trial_0.json")
    assert IMPORTER.detect(Source(tmp_path, files=files)) == 0.0


@pytest.mark.parametrize("content", [STEP_LOG, WORLD_LOG], ids=["trial log", "world log"])
def test_step_logs_beside_the_trials_are_ignored_with_a_reason(
    tmp_path: Path, content: str
) -> None:
    source = write(tmp_path, "trial_0.log", content)
    assert 0.5 < IMPORTER.detect(source) < 0.7
    (found,) = IMPORTER.read(source, ImportOptions())
    assert isinstance(found, Problem)
    assert (found.kind, "env_results_trial" in found.reason) == ("ignored", True)


@pytest.mark.parametrize("content", ["", "plain words", "{}", "[1, 2]", '{"prompt": 1}\n{}\n'])
def test_what_is_not_reflexion_is_not_recognised(tmp_path: Path, content: str) -> None:
    assert IMPORTER.detect(write(tmp_path, "x.txt", content)) == 0.0


def test_empty_file_is_a_problem(tmp_path: Path) -> None:
    (found,) = IMPORTER.read(write(tmp_path, "x.json", ""), ImportOptions())
    assert isinstance(found, Problem)
    assert found.kind == "bad"
