"""``trajstore rollout --search lats``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from trajstore import open as open_store
from trajstore.rollouts import SHIPPED

SEARCH = ("--env", "web-shop", "--policy", "hasty", "--tasks", 4, "--search", "lats")
SMALL = ("--expand", 2, "--policy-calls", 60, "--reflect")


def runs(folder: Path) -> list[dict[str, Any]]:
    query = """select count(*) runs, sum(list_contains(tags, 'lats-best')::int)::int best,
        sum((list_contains(tags, 'lats-best') and success)::int)::int solved,
        max(n_agent_steps) longest from trajectories where agent = 'lats'"""
    found: list[dict[str, Any]] = open_store(folder).query(query).read_all().to_pylist()
    return found


def test_trees_are_stored_and_the_numbers_told_are_those_of_the_store(
    cli: Cli, tmp_path: Path
) -> None:
    ran = cli("rollout", tmp_path / "pool", *SEARCH, *SMALL, "--json")
    (told,) = json.loads(ran.out)["policies"]
    (kept,) = runs(tmp_path / "pool")
    assert ran.code == 0
    assert (told["searches"], told["runs"], told["solved"]) == (4, kept["runs"], kept["solved"])
    assert kept["best"] == 4
    assert told["calls"] <= 4 * 60


def test_the_same_search_adds_nothing_and_a_longer_one_does(cli: Cli, tmp_path: Path) -> None:
    call = ("rollout", tmp_path / "pool", *SEARCH, "--json", "--policy-calls")
    added = [json.loads(cli(*call, calls).out)["added"] for calls in (20, 20, 40)]
    assert added[0] > 0
    assert added[1] == 0
    assert added[2] > 0


def test_depth_and_iterations_bound_the_tree(cli: Cli, tmp_path: Path) -> None:
    bounds = ("--depth", 2, "--iterations", 1, "--expand", 1)
    ran = cli("rollout", tmp_path / "pool", *SEARCH, *bounds)
    assert "4 new in the store" in ran.err
    assert runs(tmp_path / "pool") == [{"runs": 4, "best": 4, "solved": 0, "longest": 2}]


def test_another_method_is_refused_with_those_there_are(cli: Cli, tmp_path: Path) -> None:
    ran = cli("rollout", tmp_path / "pool", *SEARCH[:-1], "beam")
    assert ran.code == 2
    assert "lats" in ran.err


def test_attempts_say_nothing_of_a_search_and_are_refused(cli: Cli, tmp_path: Path) -> None:
    ran = cli("rollout", tmp_path / "pool", *SEARCH, "--attempts", 2)
    assert ran.code == 2
    assert "it does not go with --attempts" in " ".join(ran.err.split())
    assert not (tmp_path / "pool").exists()


def test_resuming_searches_only_where_there_is_no_tree_yet(cli: Cli, tmp_path: Path) -> None:
    call = ("rollout", tmp_path / "pool", *SEARCH, *SMALL, "--resume")
    assert "were there already" not in cli(*call).err
    assert json.loads(cli(*call, "--json").out) == {
        "policies": [],
        "added": 0,
        "skipped": 4,
        "error": None,
    }
    more = cli(*call, "--tasks", 5)
    assert more.code == 0
    assert "4 searches were there already" in " ".join(more.err.split())


def test_where_every_search_fails_the_exit_code_says_so(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(SHIPPED["web-shop"].make()), "reset", lambda *_: 1 / 0)
    ran = cli("rollout", tmp_path / "pool", *SEARCH)
    assert ran.code == 1
    assert "environment.reset: ZeroDivisionError" in ran.err
