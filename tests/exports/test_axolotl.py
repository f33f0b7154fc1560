"""axolotl's rows: flags on messages, and what is left once axolotl has removed the nulls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajstore.exports import export_sft
from trajstore.schema import Step, Trajectory
from trajstore.testing import generate

Run = Callable[..., Trajectory]

pytestmark = pytest.mark.filterwarnings("ignore")


def _without_nulls(value: Any) -> Any:
    """``remove_none_values`` of axolotl, which it applies to every row."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


def _rows(runs: list[Trajectory], folder: Path, format_: Any = "jsonl") -> list[dict[str, Any]]:
    datasets = pytest.importorskip("datasets")
    export_sft(runs, folder / "set", to="axolotl", format=format_)
    loaded = datasets.load_dataset(
        str(folder / "set"), split="train", cache_dir=str(folder / "cache")
    )
    return list(loaded)


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
def test_null_arguments_survive_that_axolotl_removes_nulls(
    tmp_path: Path, sum_run: Trajectory, format_: Any
) -> None:
    (row,) = map(_without_nulls, _rows([sum_run], tmp_path, format_))
    arguments = row["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"a": 2, "b": 3, "note": None}
    assert json.loads(row["tools"])[0]["function"]["parameters"] == {"type": "object"}


def test_removing_nulls_changes_no_message(tmp_path: Path) -> None:
    rows = _rows(list(generate(8)), tmp_path)
    assert len(rows) > 4
    assert [_without_nulls(r["messages"]) for r in rows] == [r["messages"] for r in rows]


def test_each_message_says_whether_to_train_on_it(tmp_path: Path, run: Run) -> None:
    steps = (
        Step(actor="user", text="q"),
        Step(actor="agent", text="x", format_error=True),
        Step(actor="user", text="again"),
        Step(actor="agent", text="a", reasoning="r"),
    )
    (row,) = _rows([run(*steps)], tmp_path)
    assert [m["training"] for m in row["messages"]] == [False, False, False, True]
    assert row["messages"][3]["reasoning_content"] == "r"
