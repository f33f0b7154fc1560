"""``trajstore skills``, from the first file to the search that finds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, Ran
from tests.pipeline.chat_server import chat_server, says
from trajstore import open as open_store
from trajstore.memory import record_uses

GOOD = 'def double(n: int) -> int:\n    """Twice the number."""\n    return 2 * n\n'
BAD = "def double(n):\n    return n + 1\n"
Add = Callable[..., Ran]


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    open_store(tmp_path / "pool")
    return tmp_path / "pool"


@pytest.fixture
def add(cli: Cli, pool: Path, tmp_path: Path) -> Add:
    """Add code under a name, with a check."""

    def run(name: str, code: str, check: str, *more: object) -> Ran:
        (tmp_path / f"{name}.py").write_text(code)
        (tmp_path / "check.py").write_text(check)
        given = ("--check", tmp_path / "check.py", "--description", f"what {name} does")
        return cli("skills", "add", pool, tmp_path / f"{name}.py", *given, *more)

    return run


@pytest.fixture
def filled(add: Add, pool: Path) -> Path:
    assert add("double", GOOD, "assert double(2) == 4").code == 0
    code = "def quadruple(n):\n    return double(double(n))\n"
    assert add("quadruple", code, "assert quadruple(1) == 4").code == 0
    return pool


def lines(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


def test_code_that_passes_is_added(add: Add, cli: Cli, pool: Path) -> None:
    ran = add("double", GOOD, "assert double(2) == 4", "--json")
    told = json.loads(ran.out)
    assert ran.code == 0
    assert told["skill"].startswith("double@")
    assert (told["version"], told["attempts"], told["failures"]) == (1, 1, [])
    (listed,) = lines(cli("skills", "list", pool, "--json"))
    assert listed["signature"] == "def double(n: int) -> int"
    assert (listed["not_served"], listed["uses"]) == (None, 0)


def test_code_that_fails_is_not_added_and_the_exit_code_is_1(
    add: Add, cli: Cli, pool: Path
) -> None:
    ran = add("double", BAD, "assert double(2) == 4")
    assert ran.code == 1
    assert "AssertionError" in ran.err
    assert "no skills" in cli("skills", "list", pool).err


def test_a_model_behind_an_endpoint_mends_it(add: Add) -> None:
    with chat_server(lambda _: says(f"```python\n{GOOD}```")) as server:
        model = ("--endpoint", server.url, "--model", "m")
        ran = add("double", BAD, "assert double(2) == 4", *model, "--json")
    told = json.loads(ran.out)
    assert (ran.code, told["attempts"]) == (0, 2)
    assert "AssertionError" in told["failures"][0]


def test_an_endpoint_without_a_model_is_wrong_usage(add: Add) -> None:
    ran = add("double", GOOD, "pass", "--endpoint", "http://127.0.0.1:9/v1")
    assert ran.code == 2
    assert "--model" in ran.err


def test_show_has_code_check_and_both_directions(filled: Path, cli: Cli) -> None:
    told = json.loads(cli("skills", "show", filled, "double", "--json").out)
    assert told["code"] == GOOD
    assert told["check"] == "assert double(2) == 4"
    assert [c.partition("@")[0] for c in told["called_by"]] == ["quadruple"]
    assert "return double(double(n))" in cli("skills", "show", filled, "quadruple").out


def test_an_unknown_skill_is_answered_with_close_ones(filled: Path, cli: Cli) -> None:
    ran = cli("skills", "show", filled, "doubel")
    assert ran.code == 1
    assert "Close: double" in ran.err


def test_search_prints_code_that_runs(filled: Path, cli: Cli) -> None:
    ran = cli("skills", "search", filled, "quadruple", "-k", "1", "--code")
    namespace: dict[str, Any] = {}
    exec(ran.out, namespace)
    assert namespace["quadruple"](3) == 12


def test_search_says_what_it_left_out(filled: Path, cli: Cli) -> None:
    ran = cli("skills", "search", filled, "double", "--token-budget", "1", "--json")
    told = json.loads(ran.out)
    assert told["hits"] == []
    assert len(told["left_out"]) == 1


def test_what_a_replacement_breaks_is_said_and_not_served(filled: Path, add: Add, cli: Cli) -> None:
    ran = add("double", "def double(n):\n    return 3 * n\n", "assert double(1) == 3")
    assert ran.code == 0
    assert "quadruple@" in ran.err
    assert "failed" in ran.err
    states = {
        r["skill"].partition("@")[0]: r["not_served"]
        for r in lines(cli("skills", "list", filled, "--json"))
    }
    assert states["double"] is None
    assert states["quadruple"].startswith("pending")
    assert cli("skills", "verify", filled).code == 1


def test_verify_in_a_new_environment_version(filled: Path, cli: Cli) -> None:
    flag = ("--environment-version", "2")
    stale = lines(cli("skills", "list", filled, *flag, "--json"))
    assert {r["not_served"] for r in stale} == {"stale: verified in version None, now 2"}
    ran = cli("skills", "verify", filled, *flag, "--json")
    assert ran.code == 0
    assert [r["ok"] for r in lines(ran)] == [True, True]
    assert {r["not_served"] for r in lines(cli("skills", "list", filled, *flag, "--json"))} == {
        None
    }


def test_remove_refuses_what_is_called(filled: Path, cli: Cli) -> None:
    ran = cli("skills", "remove", filled, "double")
    assert ran.code == 1
    assert "quadruple call it" in ran.err
    assert cli("skills", "remove", filled, "quadruple").code == 0
    assert cli("skills", "remove", filled, "double", "--json").code == 0
    assert lines(cli("skills", "list", filled, "--json")) == []
    assert len(lines(cli("skills", "list", filled, "--all", "--json"))) == 2


def test_uses_are_shown_as_they_were_recorded(filled: Path, cli: Cli) -> None:
    store = open_store(filled)
    (skill,) = store.sql("SELECT skill_id FROM skills WHERE name = 'double'").fetchall()[0]
    record_uses(store, "r1", [skill], "skill")
    uses = {r["skill"]: r["uses"] for r in lines(cli("skills", "list", filled, "--json"))}
    assert uses[skill] == 1


@pytest.mark.parametrize(("trial", "skills", "calling"), [("trial1", 51, 7), ("trial2", 52, 8)])
def test_import_of_a_voyager_library(
    trial: str, skills: int, calling: int, cli: Cli, tmp_path: Path, real_data: Path
) -> None:
    folder = real_data / "voyager" / "skill_library" / trial / "skill"
    told = json.loads(cli("skills", "import", tmp_path / "new", folder, "--json").out)
    assert (told["skills"], told["added"], told["calling"]) == (skills, skills, calling)
    listed = lines(cli("skills", "list", tmp_path / "new", "--json"))
    assert len(listed) == skills
    assert {r["not_served"] for r in listed} == {"never verified"}
    found = cli("skills", "search", tmp_path / "new", "mine coal", "--unverified", "--json")
    assert "Coal" in json.loads(found.out)["hits"][0]["skill"]


def test_a_folder_without_a_library_is_an_error(cli: Cli, pool: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = cli("skills", "import", pool, tmp_path / "empty")
    assert ran.code == 1
    assert "empty" in ran.err


def test_a_folder_that_is_not_there_is_an_error_and_makes_no_store(
    cli: Cli, tmp_path: Path
) -> None:
    ran = cli("skills", "import", tmp_path / "new", tmp_path / "nowhere")
    assert ran.code == 2
    assert "nowhere" in ran.err
    assert not (tmp_path / "new").exists()
