"""Pairs, groups and exports behind a selection are those of the functions with that selection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trajstore
from trajstore import Pool, Trajectory
from trajstore.errors import ExportError, QueryError
from trajstore.filters import Selection, stage
from trajstore.pipeline import StoreSelection, build_groups, build_pairs
from trajstore.testing import generate

KINDS = ("sft", "dpo", "reward", "kto", "prompts", "grpo")


@pytest.fixture
def mixed(pool: Pool) -> Pool:
    pool.append(list(generate(64)))
    return pool


def rows(folder: Path) -> list[dict[str, object]]:
    return [json.loads(x) for x in (folder / "train.jsonl").read_text().splitlines()]


def test_pairs_and_groups_are_of_these_runs(mixed: Pool) -> None:
    short = mixed.select([stage("steps", most=25)])
    pairs, report = short.pairs()
    assert 0 < pairs.num_rows < mixed.pairs()[0].num_rows
    assert pairs.equals(build_pairs(mixed, short)[0])
    assert report.runs == len(short)
    assert short.groups()[0].equals(build_groups(mixed, short)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_exported_with_its_lineage(kind: str, mixed: Pool, tmp_path: Path) -> None:
    short = mixed.select([stage("steps", most=25)])
    done = short.export(kind, tmp_path / kind, format="jsonl")  # type: ignore[arg-type]
    assert done.rows == len(rows(tmp_path / kind)) > 0
    assert done.manifest["selection_funnel"][0]["stage"] == "steps"
    whole = mixed.export(kind, tmp_path / "all", format="jsonl")  # type: ignore[arg-type]
    assert done.rows < whole.rows or kind == "prompts"


def test_runs_go_out_as_atif(mixed: Pool, tmp_path: Path) -> None:
    short = mixed.select([stage("success")])
    short.export("atif", tmp_path / "atif")
    assert len(list((tmp_path / "atif").glob("*.trajectory.json"))) == len(short)


def test_a_kind_that_is_none_is_answered_with_those_there_are(mixed: Pool) -> None:
    with pytest.raises(ExportError, match=r"no export 'ppo'. There are: sft, dpo, reward"):
        mixed.export("ppo", None)  # type: ignore[arg-type]


def test_a_selection_without_a_store_says_where_to_get_one(mixed: Pool) -> None:
    lost = StoreSelection(rows=mixed.select().rows)
    with pytest.raises(ExportError, match=r"store\.select"):
        lost.pairs()


@pytest.mark.parametrize("kind", [*KINDS, "atif"])
def test_no_selected_run_is_left_out_in_silence(kind: str, mixed: Pool, tmp_path: Path) -> None:
    """One was deleted after it was selected; the snapshot of the selection hides it, too."""
    chosen = mixed.select()
    gone = chosen.ids()[0]
    mixed.delete(f"trajectory_id = '{gone}'")
    with pytest.raises(ExportError, match=f"1 of the selected trajectories .* such as {gone}"):
        chosen.export(kind, tmp_path / kind)  # type: ignore[arg-type]


def test_a_selection_of_another_store_is_refused(mixed: Pool, tmp_path: Path) -> None:
    mixed.select().write(tmp_path / "s.parquet")
    other = trajstore.open(tmp_path / "other", create=True)
    other.append([Trajectory(trajectory_id="x", task_id="t", source="hand")])
    with pytest.raises(ExportError, match="64 of the selected trajectories are not in snapshot"):
        other.export_sft(None, selection=Selection.read(tmp_path / "s.parquet"))


@pytest.mark.parametrize("where", ["true) or (not success", "success; select 1", "success)"])
def test_a_condition_must_be_one_by_itself(where: str, mixed: Pool) -> None:
    with pytest.raises(QueryError):
        mixed.export_sft(None, where=where)
