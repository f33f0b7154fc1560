"""``trajstore index``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.retrieval.conftest import GOALS, run
from trajstore import open as open_store


@pytest.fixture
def goals(tmp_path: Path) -> Path:
    """A store of five runs without an index."""
    folder = tmp_path / "goals"
    open_store(folder, durable=False).append([run(n, g) for n, g in GOALS.items()])
    return folder


def test_it_says_what_it_did_by_level(cli: Cli, goals: Path) -> None:
    ran = cli("index", goals, "--embedder", "hashing")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "trajectory (hashing): 5 items, 5 added, 0 removed, 0 unchanged, 5 encoded",
        "step (hashing): 10 items, 10 added, 0 removed, 0 unchanged, 10 encoded",
    ]


def test_a_second_time_it_keeps_the_embedder_and_encodes_nothing(cli: Cli, goals: Path) -> None:
    cli("index", goals, "--embedder", "hashing", "--level", "trajectory")
    ran = cli("index", goals, "--level", "trajectory", "--json")
    assert json.loads(ran.out)["levels"]["trajectory"] == {
        "embedder": "hashing", "items": 5, "added": 0, "removed": 0, "unchanged": 5, "encoded": 0,
    }  # fmt: skip


def test_another_embedder_needs_a_rebuild(cli: Cli, goals: Path) -> None:
    cli("index", goals, "--embedder", "hashing")
    ran = cli("index", goals, "--embedder", "none")
    assert ran.code == 1
    assert "--embedder none --rebuild" in ran.err
    assert cli("index", goals, "--embedder", "none", "--rebuild").code == 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--level", "tool"], "There is no level 'tool'. Levels: trajectory, step"),
        (["--embedder", "openai:m"], "named openai:MODEL@URL"),
    ],
)
def test_what_cannot_be_is_explained(
    cli: Cli, goals: Path, option: list[str], message: str
) -> None:
    ran = cli("index", goals, *option)
    assert ran.code == 1
    assert message in ran.err
    assert ran.out == ""
