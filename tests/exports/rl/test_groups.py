from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.exports.preference.pairs import runs_of, two_runs
from tests.exports.rl.test_tokens import turn
from trajstore.errors import ExportError
from trajstore.exports.rl import GROUP_TARGETS, GroupRowOptions, export_groups
from trajstore.schema import Step, Trajectory

Run = Callable[..., Trajectory]

ALL = pytest.mark.parametrize("name", list(GROUP_TARGETS))


def _groups(*advantages: tuple[str, float]) -> pa.Table:
    rows = [
        {
            "group_id": "g",
            "task_id": "sums/1",
            "trajectory_id": name,
            "reward": float(advantage > 0),
            "n": len(advantages),
            "mean": 0.5,
            "std": 0.5,
            "advantage": advantage,
            "variant": "grpo",
            "std_convention": "population",
            "zero_variance": None,
            "staleness": 0,
            "policy_version": "iter-1",
        }
        for name, advantage in advantages
    ]
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="session")
def sampled(run: Run) -> tuple[pa.Table, Any]:
    """Two runs with stored tokens; the second one forks."""
    question = Step(actor="user", text="q")
    a = run(question, turn([1, 2], [3, 4]), trajectory_id="a", environment="sums")
    b = run(question, turn([1, 2], [5]), turn([9], [6]), trajectory_id="b", environment="sums")
    return _groups(("a", 1.0), ("b", -1.0)), runs_of(a, b)


def _lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


def test_messages_carry_the_advantage_of_their_run(tmp_path: Path, run: Run) -> None:
    runs = runs_of(*two_runs(run))
    export_groups(_groups(("good", 1.0), ("bad", -1.0)), runs, tmp_path, format="jsonl")
    good, bad = _lines(tmp_path)
    assert [m["role"] for m in good["messages"]] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert good["trainable"] == [False, False, True, False, True]
    assert (good["advantage"], bad["advantage"]) == (1.0, -1.0)
    assert good["group_id"] == bad["group_id"] == "g"
    assert (good["policy_version"], good["staleness"]) == ("iter-1", 0)


def test_all_that_the_policy_did_is_trainable_and_cut_off_runs_say_so(
    tmp_path: Path, run: Run
) -> None:
    broken = Step(actor="agent", text="?", format_error=True)
    opened = run(broken, Step(actor="user", text="q"), broken, status="truncated")
    export_groups(_groups(("t", 1.0)), runs_of(opened), tmp_path, format="jsonl")
    (row,) = _lines(tmp_path)
    assert row["trainable"] == [True, False, True]
    assert row["truncated"] is True


def test_token_rows_have_the_shape_of_a_training_sample(tmp_path: Path, sampled: Any) -> None:
    report = export_groups(*sampled, tmp_path, to="prime-rl")
    rows = pq.read_table(tmp_path / "train.parquet").to_pylist()
    assert list(rows[0])[:6] == [
        "token_ids", "mask", "logprobs", "temperatures", "env_name", "advantages",
    ]  # fmt: skip
    for row in rows:
        lengths = {len(row[n]) for n in ("mask", "logprobs", "temperatures", "advantages")}
        assert lengths == {len(row["token_ids"])}
    assert rows[0]["advantages"] == [0, 0, 1, 1]
    assert rows[2]["token_ids"] == [9, 6]
    assert (report.rows, report.runs) == (3, 2)
    assert report.manifest["rules_applied"] == {"forked": 1}


def test_runs_without_stored_tokens_are_refused_with_the_way_out(tmp_path: Path, run: Run) -> None:
    good, bad = two_runs(run)
    groups = _groups(("good", 1.0), ("bad", -1.0))
    report = export_groups(groups, runs_of(good, bad), tmp_path, to="prime-rl")
    assert report.refused_ids == {"no-token-ids": ["good", "bad"]}
    assert "export to messages" in report.reasons["no-token-ids"]


def test_a_temperature_can_be_given(tmp_path: Path, run: Run) -> None:
    runs = runs_of(run(turn([1], [2], sampling=None)))
    given = GroupRowOptions(temperature=1.0)
    refused = export_groups(_groups(("t", 1.0)), runs, tmp_path / "a", to="prime-rl")
    assert "temperature=1.0 says it" in refused.reasons["no-temperature"]
    taken = export_groups(_groups(("t", 1.0)), runs, tmp_path / "b", to="prime-rl", options=given)
    assert taken.rows == 1


def test_a_run_that_the_snapshot_does_not_hold_is_refused(tmp_path: Path, sampled: Any) -> None:
    report = export_groups(_groups(("nobody", 1.0)), sampled[1], tmp_path)
    assert report.refused_ids == {"unknown-run": ["nobody"]}


@ALL
@pytest.mark.filterwarnings("ignore")
def test_datasets_loads_the_folder_as_what_went_in(tmp_path: Path, sampled: Any, name: Any) -> None:
    datasets = pytest.importorskip("datasets")
    export_groups(*sampled, tmp_path / "lines", to=name, format="jsonl")
    for format_ in GROUP_TARGETS[name].formats:
        export_groups(*sampled, tmp_path / format_, to=name, format=format_)
        rows = datasets.load_dataset(
            str(tmp_path / format_), split="train", cache_dir=str(tmp_path / "cache" / format_)
        )
        assert list(rows) == _lines(tmp_path / "lines")


@ALL
def test_the_same_groups_give_the_same_bytes(tmp_path: Path, sampled: Any, name: Any) -> None:
    for folder in ("a", "b"):
        export_groups(*sampled, tmp_path / folder, to=name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize("name", ["trl", "verl", "openrlhf"])
def test_trainers_that_sample_for_themselves_are_answered_with_what_to_do(
    tmp_path: Path, sampled: Any, name: str
) -> None:
    with pytest.raises(ExportError, match=r"samples its own completions.*export prompts to it"):
        export_groups(*sampled, tmp_path, to=name)


def test_a_table_of_something_else_is_an_error(tmp_path: Path, sampled: Any) -> None:
    table = sampled[0].drop_columns(["advantage"])
    with pytest.raises(ExportError, match="no column 'advantage'"):
        export_groups(table, sampled[1], tmp_path)
