"""``trajstore export atif``: runs go out as ATIF and come back as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.exports.atif_rules import broken_rules
from trajstore import Label, Trajectory
from trajstore import open as open_store
from trajstore.schema import finish
from trajstore.testing import generate


def runs(store: Path) -> dict[str, Trajectory]:
    return {run.trajectory_id: run for run in open_store(store).scan()}


def names(folder: Path) -> set[str]:
    return {p.name.partition(".")[0] for p in folder.glob("*.trajectory.json")}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "pool"
    open_store(folder, durable=False).append([finish(run) for run in generate(30, seed=3)])
    return folder


def test_a_store_made_of_the_folder_holds_the_same_runs(
    cli: Cli, store: Path, tmp_path: Path
) -> None:
    ran = cli("export", "atif", store, "-o", tmp_path / "atif")
    assert ran.out.splitlines()[0].split() == ["trajectories", "30"]
    assert cli("import", tmp_path / "back", tmp_path / "atif").code == 0
    assert runs(tmp_path / "back") == runs(store)


def test_recorded_runs_come_back_through_a_store(
    cli: Cli, airline_pool: Path, tmp_path: Path
) -> None:
    where = "task_id IN (SELECT min(task_id) FROM trajectories)"
    cli("export", "atif", airline_pool, "-o", tmp_path / "atif", "--where", where)
    assert cli("import", tmp_path / "back", tmp_path / "atif").code == 0
    back, there = runs(tmp_path / "back"), runs(airline_pool)
    assert len(back) == 4
    assert back == {name: there[name] for name in back}


def test_every_document_obeys_the_specification(cli: Cli, small: Path, tmp_path: Path) -> None:
    cli("export", "atif", small, "-o", tmp_path)
    documents = [json.loads(p.read_text()) for p in tmp_path.glob("*.trajectory.json")]
    assert len(documents) == 3
    assert [broken_rules(document) for document in documents] == [[], [], []]


def test_runs_of_every_outcome_go_out_unless_told_otherwise(
    cli: Cli, small: Path, tmp_path: Path
) -> None:
    cli("export", "atif", small, "-o", tmp_path / "all")
    cli("export", "atif", small, "-o", tmp_path / "some", "--where", "NOT success")
    assert names(tmp_path / "all") == {"a1", "a2", "b1"}
    assert names(tmp_path / "some") == {"a2"}


def test_a_selection_goes_out(cli: Cli, small: Path, tmp_path: Path) -> None:
    cli("select", small, "--stage", "success", "-o", tmp_path / "s.parquet")
    cli("export", "atif", small, "-o", tmp_path / "out", "--selection", tmp_path / "s.parquet")
    assert names(tmp_path / "out") == {"a1"}
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [s["stage"] for s in told["selection_funnel"]] == ["success", "export atif"]


def test_an_old_snapshot_goes_out_as_it_was(cli: Cli, small: Path, tmp_path: Path) -> None:
    store = open_store(small)
    before = store.snapshot()
    (first,) = [r for r in store.scan() if r.trajectory_id == "a1"]
    store.append(replace(first, trajectory_id="later"))
    cli("export", "atif", small, "-o", tmp_path, "--at", before)
    assert names(tmp_path) == {"a1", "a2", "b1"}


def test_the_outcome_that_counts_goes_out(cli: Cli, small: Path, tmp_path: Path) -> None:
    open_store(small).append(
        Label(trajectory_id="b1", name="outcome", success=True, value=0.5, evaluator="tests")
    )
    cli("export", "atif", small, "-o", tmp_path / "atif")
    cli("import", tmp_path / "back", tmp_path / "atif")
    back = runs(tmp_path / "back")["b1"]
    assert (back.success, back.reward) == (True, 0.5)


def test_the_manifest_tells_the_condition_and_what_it_left(
    cli: Cli, small: Path, tmp_path: Path
) -> None:
    ran = cli("export", "atif", small, "-o", tmp_path, "--where", "success", "--json")
    told = json.loads(ran.out)
    stage = {"stage": "where", "parameters": {"sql": "success"}, "in": 3, "out": 1}
    dropped = {"does not fit the condition": 2}
    assert told["selection_funnel"][0] == {**stage, "dropped": dropped}
    assert (told["filter"], told["outcomes"]) == ("success", {"success": 1})


def test_no_run_can_be_an_error(cli: Cli, small: Path, tmp_path: Path) -> None:
    ran = cli("export", "atif", small, "-o", tmp_path, "--where", "false", "--fail-empty")
    assert ran.code == 1
    assert "no run fits" in ran.err


def test_a_condition_that_does_not_parse_is_bad_data(cli: Cli, small: Path, tmp_path: Path) -> None:
    ran = cli("export", "atif", small, "-o", tmp_path / "out", "--where", "nosuch = 1")
    assert ran.code == 1
    assert "nosuch" in ran.err
    assert not (tmp_path / "out").exists()
