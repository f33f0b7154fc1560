from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from trajstore import open as open_store
from trajstore.testing import generate

COMMAND = [sys.executable, "-m", "trajstore_cli.main"]


def run(
    *arguments: str, stdin: bytes | None = None, code: int = 0
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run([*COMMAND, *arguments], input=stdin, capture_output=True, check=False)
    assert done.returncode == code, done.stderr.decode()
    return done


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("store") / "pool"
    open_store(folder, durable=False).append(generate(120, seed=5))
    return str(folder)


def test_select_prints_ids_and_the_funnel_beside(store: str) -> None:
    done = run("select", store, "--stage", "success", "--stage", "steps most=20")
    ids = done.stdout.decode().split()
    expected = open_store(store).sql(
        "select trajectory_id from trajectories where success and n_steps <= 20 order by 1"
    )
    assert ids == [i for (i,) in expected.fetchall()]
    assert b"too-many-steps" in done.stderr


def test_select_explains_every_run_that_it_dropped(store: str) -> None:
    done = run("select", store, "--stage", "success", "--explain")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    expected = open_store(store).sql(
        "select coalesce(success::varchar, 'unknown'), count(*) from trajectories group by 1"
    )
    counts = dict(expected.fetchall())
    reasons = [r["reason"] for r in rows]
    assert reasons.count("failure") == counts["false"]
    assert reasons.count("unknown-outcome") == counts["unknown"] == len(rows) - counts["false"]


def test_a_recipe_file_and_options_say_the_same(store: str, tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('[[select]]\nstage = "success"\n[[select]]\nstage = "top-n"\nn = 1\n')
    by_file = run("select", store, "--recipe", str(recipe)).stdout
    assert by_file == run("select", store, "--stage", "success", "--stage", "top-n n=1").stdout
    assert by_file


def test_select_and_export_join_by_a_pipe(store: str) -> None:
    selection = run("select", store, "--stage", "success", "--stage", "format-errors", "-o", "-")
    export = ("export", "sft", store, "--selection", "-", "-o", "-")
    rows = run(*export, stdin=selection.stdout).stdout.splitlines()
    ids = run("select", store, "--stage", "success", "--stage", "format-errors").stdout.split()
    assert {json.loads(r)["trajectory_id"] for r in rows} <= {i.decode() for i in ids}
    assert rows


@pytest.mark.parametrize(
    ("given", "said"), [(b"id-1\nid-2\n", b"holds text, such as ids"), (b"", b"stdin is empty")]
)
def test_what_is_no_selection_is_answered_with_how_to_make_one(
    given: bytes, said: bytes, store: str
) -> None:
    done = run("export", "sft", store, "--selection", "-", "-o", "-", stdin=given, code=2)
    assert said in done.stderr
    assert b"select STORE ... -o -" in b" ".join(done.stderr.split())


def test_an_unknown_stage_is_answered_with_the_real_ones(store: str) -> None:
    done = run("select", store, "--stage", "stps most=3", code=1)
    assert b"Did you mean 'steps'?" in done.stderr
    assert done.stdout == b""


def test_a_setting_that_is_no_pair_is_wrong_usage(store: str) -> None:
    assert b"KEY=VALUE" in run("select", store, "--stage", "steps 3", code=2).stderr


def test_stages_lists_every_stage_with_its_parameters() -> None:
    text = run("stages").stdout.decode()
    assert "near-duplicates\n" in text
    assert "threshold (float" in text


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["pairs"], 26),
        (["pairs", "--policy", "all_margin"], 88),
        (["pairs", "--level", "step"], 0),
        (["groups"], 200),
    ],
)
def test_the_recorded_airline_runs_give_the_known_numbers(
    real_data: Path, tmp_path: Path, arguments: list[str], count: int
) -> None:
    pool = str(tmp_path / "pool")
    run("import", pool, str(real_data / "tau_bench/gpt-4o-airline.json"))
    out = tmp_path / "out.parquet"
    command, *rest = arguments
    done = run(command, pool, *rest, "-o", str(out))
    assert pq.read_metadata(out).num_rows == count
    assert done.stderr


def test_no_pair_at_all_can_fail_the_command(store: str) -> None:
    run("pairs", store, "--where", "false", "--fail-empty", code=1)
