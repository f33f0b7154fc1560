"""``trajstore build``: sets on disk, the funnel on stderr, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.pipeline.recipes import PLACES, SPLIT, small_store, written

SETS = f"""{PLACES}{SPLIT}
[[dataset]]
kind = "sft"
split = "train"

[[dataset]]
name = "held-out"
kind = "sft"
split = "val"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe of two sets beside its store."""
    small_store(tmp_path / "pool")
    return written(tmp_path, SETS)


def test_the_sets_are_told_on_stdout_and_the_funnel_on_stderr(cli: Cli, recipe: Path) -> None:
    ran = cli("build", recipe)
    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines()]
    assert rows[2:4] == [
        ["sft", "sft", "trl", "train", "3", "new"],
        ["held-out", "sft", "trl", "val", "2", "new"],
    ]
    assert rows[-2] == ["wrote", str(recipe.parent / "sets")]
    assert "only-split         10 ->         6   other-split 4" in ran.err
    assert (recipe.parent / "sets/sft/train.parquet").is_file()


def test_a_second_build_says_unchanged(cli: Cli, recipe: Path) -> None:
    cli("build", recipe)
    ran = cli("build", recipe)
    assert ran.code == 0
    assert ran.out.splitlines()[-2].split() == ["unchanged", str(recipe.parent / "sets")]


def test_json_is_one_object_and_stderr_is_silent(cli: Cli, recipe: Path) -> None:
    ran = cli("build", recipe, "--json")
    told = json.loads(ran.out)
    assert ran.err == ""
    assert [(s["name"], s["rows"], s["state"]) for s in told["sets"]] == [
        ("sft", 3, "new"),
        ("held-out", 2, "new"),
    ]
    assert told["sets"][0]["funnel"][0]["stage"] == "split"
    assert told["changes"]["sft/train.parquet"] == "new"


def test_a_dry_run_shows_the_funnel_and_writes_nothing(cli: Cli, recipe: Path) -> None:
    ran = cli("build", recipe, "--dry-run")
    assert ran.code == 0
    assert "export sft          3 ->         3" in ran.err
    assert ran.out.splitlines()[2].split() == ["sft", "sft", "trl", "train", "3"]
    assert "would write to" in ran.out
    assert not (recipe.parent / "sets").exists()


def test_a_check_is_0_while_the_sets_are_what_the_recipe_gives(cli: Cli, recipe: Path) -> None:
    cli("build", recipe)
    assert cli("build", recipe, "--check").code == 0
    (recipe.parent / "sets/sft/train.parquet").write_bytes(b"")
    ran = cli("build", recipe, "--check")
    assert ran.code == 1
    assert "changed: sft/train.parquet" in ran.err
    assert "differs" in ran.out
    assert (recipe.parent / "sets/sft/train.parquet").read_bytes() == b""


def test_check_and_dry_run_together_are_wrong_usage(cli: Cli, recipe: Path) -> None:
    assert cli("build", recipe, "--check", "--dry-run").code == 2


def test_store_and_output_can_be_given(cli: Cli, tmp_path: Path) -> None:
    small_store(tmp_path / "other")
    recipe = written(tmp_path, SETS)
    ran = cli("build", recipe, "--store", tmp_path / "other", "-o", tmp_path / "out")
    assert ran.code == 0
    assert (tmp_path / "out/manifest.json").is_file()
    assert not (tmp_path / "pool").exists()


@pytest.mark.parametrize("flag", ["--check", "--dry-run"])
def test_what_writes_nothing_imports_nothing_and_says_so(
    flag: str, cli: Cli, recipe: Path, tmp_path: Path
) -> None:
    written(tmp_path, f'{SETS}\n[import]\npaths = ["runs"]\n')
    ran = cli("build", recipe, flag)
    assert "nothing is imported" in ran.err
    assert not (tmp_path / "runs").exists()
    assert ran.code == (1 if flag == "--check" else 0)


def test_an_import_is_told_with_its_bad_records(cli: Cli, tmp_path: Path) -> None:
    run = '{"task_id": "t", "success": true, "steps": [{"actor": "user", "text": "go"}, '
    run += '{"actor": "agent", "text": "done"}]}\n'
    written(tmp_path / "runs", f"{run}{run[:-20]}\n{run.replace('done', 'ok')}", "one.jsonl")
    recipe = written(tmp_path, f'{PLACES}[import]\npaths = ["runs"]\n[[dataset]]\nkind = "sft"\n')
    ran = cli("build", recipe)
    assert ran.code == 0
    assert "import: 2 trajectories in 1 files, 2 new, 1 bad records" in ran.err
    assert "one.jsonl:2:" in ran.err


def test_a_wrong_recipe_is_told_with_its_line_and_exits_with_1(cli: Cli, tmp_path: Path) -> None:
    ran = cli("build", written(tmp_path, f"{PLACES}[[select]]\nstage = 'succes'\n"))
    assert ran.code == 1
    assert ran.err.startswith(f"error: {tmp_path}/recipe.toml:4: There is no stage 'succes'.")
    assert ran.out == ""


def test_an_empty_set_exits_with_1_and_writes_nothing(cli: Cli, recipe: Path) -> None:
    written(recipe.parent, f"{SETS}[[dataset.select]]\nstage = 'steps'\nleast = 99\n")
    ran = cli("build", recipe)
    assert ran.code == 1
    assert "recipe.toml:11: The set 'held-out' ends without a row" in ran.err
    assert not (recipe.parent / "sets").exists()
