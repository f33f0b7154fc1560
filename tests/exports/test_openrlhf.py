"""OpenRLHF's rows, loaded with ``datasets`` as OpenRLHF loads a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajstore.exports import Refusal, SftRow, export_sft, sft_rows
from trajstore.schema import Step, Trajectory
from trajstore.testing import generate

Run = Callable[..., Trajectory]

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
def test_the_folder_gives_back_the_messages_without_padding(
    tmp_path: Path, sum_run: Trajectory, format_: Any
) -> None:
    datasets = pytest.importorskip("datasets")
    runs = [sum_run, *generate(8)]
    export_sft(runs, tmp_path / "set", to="openrlhf", format=format_)
    loaded = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    rows = [r for r in sft_rows(runs, to="openrlhf") if isinstance(r, SftRow)]
    assert loaded["train"]["messages"][:] == [r.messages for r in rows]
    assert loaded["train"]["tools"][:] == [r.tools for r in rows]


def test_tools_that_are_not_shown_are_counted(tmp_path: Path, sum_run: Trajectory) -> None:
    report = export_sft([sum_run], tmp_path, to="openrlhf")
    assert report.manifest["rules_applied"] == {"tools-not-shown": 1}


def test_a_run_that_opens_with_the_agent_is_refused(run: Run) -> None:
    (found,) = sft_rows([run(Step(actor="agent", text="Hello."))], to="openrlhf")
    assert isinstance(found, Refusal)
    assert found.reason == "agent-first"
