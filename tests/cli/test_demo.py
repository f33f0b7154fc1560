"""``trajstore demo``: the whole flow, in seconds, anywhere, again and again."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli, Ran, environment
from trajstore import open as open_store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("a path with spaces") / "demo pool"


@pytest.fixture(scope="module")
def first(folder: Path) -> Ran:
    """The demo with stdout and stderr in one pipe, as ``2>&1`` has it."""
    done = subprocess.run(
        [sys.executable, "-m", "trajstore_cli.main", "demo", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        env=environment(folder.parent),
    )
    return Ran(done.returncode, done.stdout)


def test_it_runs_to_the_end(first: Ran) -> None:
    assert first.code == 0, first.out
    assert "400 attempts by 5 agents at 40 tasks, 316 solved.\n" in first.out
    assert "400 of them new" in first.out
    assert "error:" not in re.sub(r"error: (the|there)", "", first.out)


def test_the_store_and_the_training_set_are_there(first: Ran, folder: Path) -> None:
    assert first.code == 0
    counts = open_store(folder).query(
        "select count(*) n, count(*) filter (success) wins from trajectories"
    )
    assert counts.read_all().to_pylist() == [{"n": 400, "wins": 316}]
    assert pq.read_table(folder / "sft" / "train.parquet").num_rows == 287


def test_it_walks_the_whole_flow(first: Ran) -> None:
    verbs = re.findall(r"^\$ trajstore (\w+)", first.out, re.MULTILINE)
    assert verbs == ["info", *["query"] * 5, "show", "show", "export"]


def test_output_and_messages_come_in_order_also_in_a_pipe(first: Ran) -> None:
    _, found, rest = first.out.partition("\nWhich tool fails most?\n")
    assert found
    after_command = rest.partition('desc, name"\n')[2].splitlines()
    assert after_command[0].split() == ["name", "calls", "errors"]
    assert after_command[6] == "4 rows"


def test_the_commands_it_shows_can_be_pasted(first: Ran, process: Cli) -> None:
    shown = re.findall(r"^\$ trajstore (query .*?\")$", first.out, re.MULTILINE | re.DOTALL)
    assert len(shown) == 5
    words = shlex.split(shown[0])
    pasted = process(*words)
    assert pasted.code == 0
    assert pasted.out in first.out


def test_it_tells_agents_apart(first: Ran) -> None:
    table = re.search(r"^policy_version +attempts.*?\n\n", first.out, re.MULTILINE | re.DOTALL)
    assert table is not None
    rows = [line.split() for line in table[0].splitlines()[2:7]]
    assert [r[0] for r in rows] == ["careful", "thorough", "clumsy", "stubborn", "hasty"]
    assert [float(r[2]) for r in rows] == sorted((float(r[2]) for r in rows), reverse=True)


def test_its_own_lines_fit_a_terminal(first: Ran, folder: Path) -> None:
    shown = first.out.replace(str(folder), "demo-pool")
    texts = re.sub(r"^  .*$", "", shown, flags=re.MULTILINE)  # what is indented is quoted from runs
    assert [line for line in texts.splitlines() if len(line) > 100] == []


def test_a_second_run_adds_nothing(first: Ran, folder: Path, process: Cli) -> None:
    again = process("demo", folder)
    assert again.code == 0
    assert "none of them new" in again.out
    snapshots = open_store(folder).snapshots()
    assert [s["operation"] for s in snapshots if s["operation"] == "append"] == ["append"]
    assert first.code == 0


def test_it_cannot_be_put_where_a_file_is(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    ran = cli("demo", file)
    assert ran.code == 2
    assert f"{file} is a file" in ran.err
    assert file.read_text() == "mine"


def test_it_goes_to_demo_pool_unless_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("demo").code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["demo-pool"]
