"""Build: the sets of a recipe over five tasks of which two are held out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import trajstore
from tests.pipeline.recipes import PLACES, SPLIT, run, small_store, written
from trajstore import Label, Pool
from trajstore.errors import RecipeError, StoreNotFoundError
from trajstore.filters import Frame, Stage, StageResult, stage
from trajstore.pipeline import build, check_build, plan_build, read_recipe
from trajstore.schema import jsontext

SFT = '[[dataset]]\nkind = "sft"\n'
BOTH = f"""{PLACES}{SPLIT}
{SFT}split = "train"
{SFT}name = "held-out"
split = "val"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the store ``pool``."""
    small_store(tmp_path / "pool")
    return tmp_path


def tasks(data: Path) -> list[str]:
    return sorted(pq.read_table(data, columns=["task_id"])["task_id"].to_pylist())


def shas(folder: Path) -> dict[str, str]:
    files: Iterable[Path] = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def manifest(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return content


def test_each_set_holds_the_successes_of_its_split(folder: Path) -> None:
    report = build(written(folder, BOTH))
    assert [(s.name, s.rows, s.state) for s in report.sets] == [
        ("sft", 3, "new"),
        ("held-out", 2, "new"),
    ]
    assert tasks(folder / "sets/sft/train.parquet") == ["task-1", "task-5", "task-8"]
    assert tasks(folder / "sets/held-out/train.parquet") == ["task-3", "task-7"]


def test_the_manifest_lists_every_other_file_with_its_hash(folder: Path) -> None:
    build(written(folder, BOTH))
    told = {f["name"]: f["sha256"] for s in manifest(folder / "sets")["sets"] for f in s["files"]}
    there = shas(folder / "sets")
    assert told == {n: sha for n, sha in there.items() if n != "manifest.json"}


def test_the_manifest_says_what_the_sets_come_from(folder: Path) -> None:
    path = written(folder, BOTH)
    build(path)
    content = manifest(folder / "sets")
    assert content["snapshot"] == trajstore.open(folder / "pool").snapshot()
    assert content["trajstore_version"] == trajstore.__version__
    assert content["recipe_sha256"] == read_recipe(path).digest
    assert content["recipe"]["split"] == {"shares": {"val": 0.2}, "near_goals": False}
    assert [s["rows"] for s in content["sets"]] == [3, 2]
    counted = {f["name"]: f["rows"] for s in content["sets"] for f in s["files"] if "rows" in f}
    assert counted == {"sft/train.parquet": 3, "held-out/train.parquet": 2}


def test_the_digest_in_the_manifest_can_be_worked_out_from_it(folder: Path) -> None:
    build(written(folder, BOTH))
    content = manifest(folder / "sets")
    text = jsontext.canonical_json(content["recipe"])
    assert hashlib.sha256(text.encode()).hexdigest() == content["recipe_sha256"]


def test_the_funnel_goes_from_all_runs_to_rows(folder: Path) -> None:
    (report, _) = build(written(folder, BOTH)).sets
    assert [(s["stage"], s["in"], s["out"]) for s in report.funnel] == [
        ("split", 10, 10),
        ("leak-check", 10, 10),
        ("only-split", 10, 6),
        ("success", 6, 3),
        ("export sft", 3, 3),
    ]
    own = json.loads((folder / "sets/sft/manifest.json").read_text())
    assert own["selection_funnel"] == list(report.funnel)


def test_stages_of_the_recipe_come_before_those_of_a_set(folder: Path) -> None:
    text = (
        f'{PLACES}[[select]]\nstage = "steps"\nleast = 1\n'
        f'{SFT}[[dataset.select]]\nstage = "top-n"\nn = 1\n{SFT}name = "all"\n'
    )
    first, second = build(written(folder, text)).sets
    assert [s["stage"] for s in first.funnel] == ["steps", "top-n", "success", "export sft"]
    assert [s["stage"] for s in second.funnel] == ["steps", "success", "export sft"]


def test_a_set_holds_what_the_same_stages_select(folder: Path) -> None:
    stages = '[[select]]\nstage = "top-n"\nn = 1\n[[select]]\nstage = "sample"\nn = 2\nseed = 3\n'
    build(written(folder, f"{PLACES}{stages}{SFT}"))
    chosen = trajstore.open(folder / "pool").select(
        [stage("top-n", n=1), stage("sample", n=2, seed=3)]
    )
    data = pq.read_table(folder / "sets/sft/train.parquet")
    assert data["trajectory_id"].to_pylist() == chosen.ids()


def test_shared_stages_draw_inside_each_split(folder: Path) -> None:
    draws = '[[select]]\nstage = "success"\n[[select]]\nstage = "sample"\nn = 2\nseed = 0\n'
    first, second = build(written(folder, BOTH.replace(SFT, draws + SFT, 1))).sets
    assert (first.rows, second.rows) == (2, 2)


def test_a_shared_stage_is_asked_once_a_split(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    kind = type(stage("success"))
    real = kind.apply

    def noted(self: Stage, frame: Frame) -> StageResult:
        asked.append(frame.rows.num_rows)
        return real(self, frame)

    monkeypatch.setattr(kind, "apply", noted)
    more = '[[select]]\nstage = "success"\nfailures = true\n'
    third = f'{SFT}name = "third"\nsplit = "val"\ninclude_failures = true\n'
    build(written(folder, BOTH.replace(SFT, more + SFT, 1) + third))
    assert sorted(asked) == [4, 4, 6, 6]  # once a split, and once by each export of successes


def test_failures_are_in_a_set_that_asks_for_them(folder: Path) -> None:
    (report,) = build(written(folder, f"{PLACES}{SFT}include_failures = true\n")).sets
    assert report.rows == 10


def test_a_second_build_changes_nothing(folder: Path) -> None:
    path = written(folder, BOTH)
    build(path)
    before = {p: p.stat().st_mtime_ns for p in (folder / "sets").rglob("*")}
    again = build(path)
    assert again.changes == {}
    assert {s.state for s in again.sets} == {"unchanged"}
    assert {p: p.stat().st_mtime_ns for p in (folder / "sets").rglob("*")} == before


def test_two_folders_get_the_same_bytes(folder: Path) -> None:
    path = written(folder, BOTH)
    build(path, output=folder / "one")
    build(path, output=folder / "two")
    assert shas(folder / "one") == shas(folder / "two")


def test_an_order_of_appends_says_nothing(folder: Path) -> None:
    other = trajstore.open(folder / "other", durable=False)
    mine = trajstore.open(folder / "pool")
    other.append(list(mine.scan())[::-1])
    path = written(folder, BOTH)
    build(path)
    build(path, store=other, output=folder / "others")
    assert shas(folder / "sets") == shas(folder / "others")


def test_a_changed_recipe_replaces_the_sets_and_says_which(folder: Path) -> None:
    build(written(folder, BOTH))
    report = build(written(folder, BOTH.replace('name = "held-out"', 'name = "test"')))
    assert [(s.name, s.state) for s in report.sets] == [("sft", "unchanged"), ("test", "new")]
    assert report.changes["held-out/train.parquet"] == "missing"
    assert not (folder / "sets/held-out").exists()


def test_the_newest_snapshot_counts_unless_the_recipe_names_one(folder: Path) -> None:
    store = trajstore.open(folder / "pool")
    store.pin("before")
    old = store.snapshot()
    store.append([run("task-1", 7, success=True)])
    (newest,) = build(written(folder, PLACES + SFT)).sets
    assert newest.rows == 6
    for said in ('"before"', str(old)):
        report = build(written(folder, f"snapshot = {said}\n{PLACES}{SFT}"))
        assert (report.sets[0].rows, report.snapshot) == (5, old)
        assert manifest(folder / "sets")["snapshot"] == old


def test_a_late_verdict_counts_and_another_ranking_shows(folder: Path) -> None:
    store = trajstore.open(folder / "pool")
    store.label([Label(trajectory_id="task-1/1", name="outcome", success=True, evaluator="me")])
    store.rank_evaluators(["me"])
    (report,) = build(written(folder, PLACES + SFT)).sets
    assert report.rows == 6
    assert manifest(folder / "sets")["evaluators"] == ["me"]


def test_an_unknown_snapshot_names_its_line(folder: Path) -> None:
    with pytest.raises(RecipeError, match=r"recipe\.toml:1: .*nowhere"):
        build(written(folder, f'snapshot = "nowhere"\n{PLACES}{SFT}'))


def test_an_empty_set_is_an_error_that_shows_the_funnel(folder: Path) -> None:
    text = f'{PLACES}{SFT}[[dataset.select]]\nstage = "steps"\nleast = 99\n'
    with pytest.raises(RecipeError) as caught:
        build(written(folder, text))
    said = str(caught.value)
    assert "recipe.toml:3: The set 'sft' ends without a row:\nsteps" in said
    assert "10 ->         0   too-few-steps 10" in said
    assert "allow_empty = true" in said
    assert not (folder / "sets").exists()


def test_an_empty_set_is_written_where_the_recipe_allows_it(folder: Path) -> None:
    text = f'{PLACES}{SFT}allow_empty = true\n[[dataset.select]]\nstage = "steps"\nleast = 99\n'
    (report,) = build(written(folder, text)).sets
    assert report.rows == 0
    assert pq.read_table(folder / "sets/sft/train.parquet").num_rows == 0


def test_a_split_without_a_task_is_an_error_that_names_the_others(folder: Path) -> None:
    text = BOTH.replace("val = 0.2", "val = 0.001")
    with pytest.raises(RecipeError, match=r"recipe\.toml:10: .*no split 'val'; there are train"):
        build(written(folder, text))


def test_a_leak_stops_the_build(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(stage("split"))
    monkeypatch.setattr(kind, "split_of", lambda _, group: "val" if "3" in group else "train")
    monkeypatch.setattr("trajstore.filters.splits.groups_of", lambda keys, _: keys.task)
    store = trajstore.open(folder / "pool")
    twin = replace(run("task-8", 3, success=True), trajectory_id="t/0", task_id="t", goal="sing")
    store.append([twin])
    with pytest.raises(RecipeError, match=r"toml:3: .*1 leaks between splits: goal 'sing' in"):
        build(written(folder, BOTH))


def test_a_plan_writes_nothing_and_an_empty_set_is_no_error(folder: Path) -> None:
    text = (
        f'{BOTH}{SFT}name = "none"\nsplit = "val"\n[[dataset.select]]\nstage = "steps"\nleast = 9\n'
    )
    report = plan_build(written(folder, text))
    assert [(s.name, s.rows, s.files) for s in report.sets] == [
        ("sft", 3, ()),
        ("held-out", 2, ()),
        ("none", 0, ()),
    ]
    assert sorted(p.name for p in folder.iterdir()) == ["pool", "recipe.toml"]


def test_a_check_tells_what_differs_and_leaves_it(folder: Path) -> None:
    path = written(folder, BOTH)
    build(path)
    assert check_build(path).changes == {}
    (folder / "sets/sft/README.md").write_text("changed by hand")
    (folder / "sets/held-out/train.parquet").unlink()
    before = shas(folder)
    assert check_build(path).changes == {
        "held-out/train.parquet": "new",
        "sft/README.md": "changed",
    }
    assert shas(folder) == before


def test_a_check_before_any_build_finds_everything_new(folder: Path) -> None:
    changes = check_build(written(folder, PLACES + SFT)).changes
    assert changes["manifest.json"] == changes["sft/train.parquet"] == "new"
    assert not (folder / "sets").exists()


def test_files_are_imported_first_and_once(tmp_path: Path) -> None:
    line = {"task_id": "t", "success": True, "steps": [{"actor": "user", "text": "go"}]}
    line["steps"] = [*line["steps"], {"actor": "agent", "text": "done"}]  # type: ignore[misc]
    written(tmp_path / "runs", json.dumps(line) + "\n", "one.jsonl")
    path = written(tmp_path, f'{PLACES}[import]\npaths = ["runs/*.jsonl"]\n{SFT}')
    first, again = build(path), build(path)
    assert first.imported
    assert again.imported
    assert (first.imported.added, again.imported.added, again.imported.already) == (1, 0, 1)
    assert (first.sets[0].rows, again.changes) == (1, {})


def test_nothing_to_import_names_the_line_and_the_path(tmp_path: Path) -> None:
    path = written(tmp_path, f'{PLACES}[import]\npaths = ["nothing"]\n{SFT}')
    with pytest.raises(RecipeError, match=r"recipe\.toml:3: The import failed: .*nothing at"):
        build(path)


def test_without_an_import_a_store_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="no trajectory store"):
        build(written(tmp_path, PLACES + SFT))
    assert not (tmp_path / "pool").exists()


def test_a_foreign_folder_is_refused_before_anything_is_imported(tmp_path: Path) -> None:
    written(tmp_path / "sets", "mine", "notes.txt")
    path = written(tmp_path, f'{PLACES}[import]\npaths = ["runs"]\n{SFT}')
    with pytest.raises(RecipeError, match=r"notes\.txt, which no build wrote"):
        build(path)
    assert not (tmp_path / "pool").exists()


def test_an_export_that_is_refused_names_the_set(folder: Path) -> None:
    text = f'{PLACES}{SFT}to = "verl"\nformat = "jsonl"\n'
    with pytest.raises(RecipeError, match=r"recipe\.toml:3: The set 'sft' cannot be made: verl"):
        build(written(folder, text))


def test_a_store_builds_a_recipe_that_names_none(folder: Path) -> None:
    store: Pool = trajstore.open(folder / "pool")
    report = store.build(written(folder / "elsewhere", SFT), output=folder / "sets")
    assert report.sets[0].rows == 5
    assert report.output == folder / "sets"


def test_a_recipe_that_was_read_can_be_built_twice(folder: Path) -> None:
    recipe = read_recipe(written(folder, BOTH))
    build(recipe)
    trajstore.open(folder / "pool").append([run("task-1", 7, success=True)])
    assert [s.rows for s in build(recipe).sets] == [4, 2]
