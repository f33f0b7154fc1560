"""What holds for every command: help, exit codes, streams, weight."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from trajstore_cli.main import app

import trajstore
from tests.cli.conftest import Cli, Terminals, command, environment

NAMES = ["demo", "import", "formats", "query", "shell", "info", "report", "show", "label"]
NAMES += ["judge", "credit", "rewards", "evaluators"]
NAMES += ["select", "stages", "pairs", "groups", "build"]
NAMES += ["index", "search", "rollout", "train"]
NAMES += ["snapshots", "verify", "compact", "vacuum", "delete", "expire", "export"]
NAMES += ["skills", "reflections", "workflows", "insights"]
GROUPS = {"export", "skills", "reflections", "workflows", "insights"}
COMMANDS = [[n] for n in NAMES if n not in GROUPS]
COMMANDS += [["export", "sft"], ["export", "atif"]]
COMMANDS += [["skills", n] for n in ["add", "list", "show", "search", "verify", "import", "remove"]]
COMMANDS += [["reflections", n] for n in ["add", "list", "show", "search", "import", "write"]]
COMMANDS += [["reflections", "prune"]]
COMMANDS += [["workflows", n] for n in ["add", "list", "show", "search", "induce"]]
COMMANDS += [["insights", n] for n in ["list", "show", "search", "update", "prune"]]
HEAVY = "duckdb pyarrow deltalake polars rich.console trajstore.store trajstore.importers"


def test_help_lists_every_command(cli: Cli) -> None:
    ran = cli("--help")
    listed = ran.out.partition("Commands:")[2]
    assert ran.code == 0
    assert [line.split()[0] for line in listed.strip().splitlines()] == NAMES


def test_the_first_sentence_of_each_command_fits_its_line(cli: Cli) -> None:
    assert "..." not in cli("--help").out.partition("Commands:")[2]


def test_no_arguments_show_the_help_as_wrong_usage(cli: Cli) -> None:
    ran = cli()
    assert ran.code == 2
    assert "Commands:" in ran.out + ran.err


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"{trajstore.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_help_has_one_example_that_can_be_pasted(name: list[str], cli: Cli) -> None:
    ran = cli(*name, "-h")
    example = ran.out.partition("Example:\n")[2].splitlines()[0].strip()
    assert ran.code == 0
    assert example.startswith(f"trajstore {' '.join(name)}")
    assert len(example) < 100


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_does(name: list[str]) -> None:
    group = typer.main.get_command(app)
    for part in name:
        group = group.commands[part]  # type: ignore[attr-defined]
    assert [p.name for p in group.params if not p.help] == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [["--help"], ["query", "--help"], ["export", "sft", "--help"]])
def test_help_loads_nothing_heavy(name: list[str], tmp_path: Path) -> None:
    program = f"""
import sys
from trajstore_cli.main import app
try:
    app({name!r})
except SystemExit:
    print([m for m in {HEAVY!r}.split() if m in sys.modules])"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        env=environment(tmp_path),
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_trajstore_is_the_command(process: Cli) -> None:
    words = [sys.executable, "-m", "trajstore", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == process("--version").out


def test_an_unknown_command_is_wrong_usage(cli: Cli) -> None:
    ran = cli("frobnicate")
    assert ran.code == 2
    assert "frobnicate" in ran.err
    assert ran.out == ""


def test_a_missing_store_is_named_with_what_to_do(cli: Cli, tmp_path: Path) -> None:
    ran = cli("info", tmp_path / "nowhere")
    assert ran.code == 1
    assert ran.err.startswith("error: There is no trajectory store at")
    assert "nowhere" in ran.err
    assert "trajstore import" in ran.err
    assert not (tmp_path / "nowhere").exists()


def test_a_file_is_no_store(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text("{}")
    ran = cli("import", file, file)
    assert ran.code == 2
    assert f"{file} is a file" in ran.err


def test_an_error_has_no_traceback(process: Cli, tmp_path: Path) -> None:
    ran = process("info", tmp_path / "nowhere")
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("place", [0, 1, 2])
def test_debug_shows_the_traceback_wherever_it_stands(
    place: int, process: Cli, tmp_path: Path
) -> None:
    arguments = ["info", str(tmp_path / "nowhere")]
    arguments.insert(place, "--debug")
    ran = process(*arguments)
    assert ran.code == 1
    assert "Traceback" in ran.err
    assert "StoreNotFoundError" in ran.err


def test_an_error_of_ours_that_nobody_foresaw_has_no_traceback_either(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("out of cheese")

    monkeypatch.setattr("trajstore.pipeline.describe", broken)
    ran = cli("info", small)
    assert ran.code == 1
    assert "error: RuntimeError: out of cheese" in ran.err
    assert "--debug" in ran.err


def test_control_characters_in_an_error_are_made_visible(cli: Cli, small: Path) -> None:
    ran = cli("query", small, "select error('x' || chr(27) || '[31m')")
    assert ran.code == 1
    assert "x␛[31m" in ran.err
    assert "\x1b" not in ran.err


QUIET_READERS = [
    ["formats"],
    ["formats", "--json"],
    ["query", "POOL", "select * from trajectories, range(100000)", "--format", "csv"],
    ["query", "POOL", "select * from trajectories, range(100000)", "--json"],
    ["show", "POOL", "a1"],
]


@pytest.mark.parametrize("arguments", QUIET_READERS, ids=lambda a: " ".join(a[::3]))
def test_a_reader_that_leaves_early_is_no_error(
    arguments: list[str], small_pool: Path, tmp_path: Path
) -> None:
    filled = [str(small_pool) if a == "POOL" else a for a in arguments]
    with subprocess.Popen(
        command(*filled),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(1)
        child.stdout.close()
        said = child.stderr.read().decode()
    assert child.returncode == 0
    assert "error" not in said.lower()
    assert "Exception" not in said


def test_nothing_is_lost_when_the_output_cannot_be_written(
    small_pool: Path, tmp_path: Path
) -> None:
    if not os.path.exists("/dev/full"):  # noqa: PTH110
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            command("query", small_pool, "select 1", "--json"),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
            env=environment(tmp_path),
        )
    assert done.returncode != 0
    assert "No space left" in done.stderr


LONG = "select count(*) from range(100000000) a, range(100000) b where hash(a.range + b.range) = 1"


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["table", "json"])
def test_ctrl_c_stops_a_query_with_130(
    more: list[str], terminal: Terminals, small_pool: Path
) -> None:
    screen = terminal("query", small_pool, LONG, *more)
    screen.wait_until_busy()
    screen.interrupt()
    assert screen.ended() == 130
    assert screen.seen.strip().endswith("interrupted")
