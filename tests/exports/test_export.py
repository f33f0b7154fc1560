from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trajstore.errors import ExportError
from trajstore.exports import Lineage, SftOptions, SftRow, export_sft, sft_rows
from trajstore.schema import Step, Trajectory
from trajstore.testing import generate

Run = Callable[..., Trajectory]


def _files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def _lines(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


def test_a_folder_holds_data_card_and_manifest(tmp_path: Path, sum_run: Trajectory) -> None:
    report = export_sft([sum_run], tmp_path / "a" / "b")
    assert set(_files(tmp_path / "a" / "b")) == {"train.parquet", "README.md", "manifest.json"}
    assert (report.rows, report.runs, report.folder) == (1, 1, tmp_path / "a" / "b")


def test_rows_are_those_of_sft_rows(tmp_path: Path) -> None:
    runs = list(generate(12, mean_steps=5))
    export_sft(runs, tmp_path, format="jsonl")
    rows = [r.record("messages") for r in sft_rows(runs) if isinstance(r, SftRow)]
    assert _lines(tmp_path) == rows


def test_refused_runs_are_counted_and_named(tmp_path: Path, run: Run, sum_run: Trajectory) -> None:
    report = export_sft([run(trajectory_id="empty"), sum_run], tmp_path)
    assert report.refused == {"no-steps": 1}
    assert report.refused_ids == {"no-steps": ["empty"]}
    assert json.loads((tmp_path / "manifest.json").read_text()) == report.manifest


def test_the_manifest_describes_the_bytes_on_disk(tmp_path: Path, sum_run: Trajectory) -> None:
    (file,) = export_sft([sum_run], tmp_path).files
    written = (tmp_path / file.name).read_bytes()
    assert (file.bytes, file.rows) == (len(written), 1)


def test_the_manifest_tells_the_outcomes_of_what_was_exported(tmp_path: Path, run: Run) -> None:
    outcomes = (True, True, False, None)
    runs = [
        run(Step(actor="agent", text="a"), trajectory_id=str(i), success=success)
        for i, success in enumerate(outcomes)
    ]
    manifest = export_sft(runs, tmp_path).manifest
    assert manifest["outcomes"] == {"failure": 1, "success": 2, "unknown": 1}


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, format_: Any) -> None:
    lineage = Lineage(snapshot=2, filter="success")
    for name in ("a", "b"):
        export_sft(generate(30), tmp_path / name, format=format_, lineage=lineage)
    assert _files(tmp_path / "a") == _files(tmp_path / "b")


def test_bytes_do_not_depend_on_the_process(tmp_path: Path) -> None:
    script = (
        "import sys; from trajstore.exports import export_sft; "
        "from trajstore.testing import generate; export_sft(generate(5), sys.argv[1])"
    )
    for seed in ("1", "2"):
        command = [sys.executable, "-c", script, str(tmp_path / seed)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    assert _files(tmp_path / "1") == _files(tmp_path / "2")


def test_another_selection_shows_in_the_manifest_alone(tmp_path: Path, sum_run: Trajectory) -> None:
    export_sft([sum_run], tmp_path / "a", lineage=Lineage(snapshot=1))
    export_sft([sum_run], tmp_path / "b", lineage=Lineage(snapshot=2))
    first, second = _files(tmp_path / "a"), _files(tmp_path / "b")
    assert {name for name in first if first[name] != second[name]} == {"manifest.json"}


def test_exporting_again_replaces_the_earlier_set(tmp_path: Path, sum_run: Trajectory) -> None:
    export_sft(generate(3), tmp_path, format="jsonl")
    export_sft([sum_run], tmp_path, format="parquet")
    assert set(_files(tmp_path)) == {"train.parquet", "README.md", "manifest.json"}
    assert pq.read_table(tmp_path / "train.parquet").num_rows == 1


def test_a_failure_in_the_middle_leaves_the_earlier_set(
    tmp_path: Path, sum_run: Trajectory
) -> None:
    def broken() -> Iterator[Trajectory]:
        yield sum_run
        raise OSError("disk gone")

    export_sft([sum_run], tmp_path)
    before = _files(tmp_path)
    with pytest.raises(OSError, match="disk gone"):
        export_sft(broken(), tmp_path)
    assert _files(tmp_path) == before


@pytest.mark.parametrize("name", ["train.parquet", "README.md", "manifest.json"])
def test_files_of_somebody_else_are_never_replaced(
    tmp_path: Path, sum_run: Trajectory, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ExportError, match=r"another folder"):
        export_sft([sum_run], tmp_path)
    assert _files(tmp_path) == {name: b"mine"}


def test_other_files_in_the_folder_stay(tmp_path: Path, sum_run: Trajectory) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    export_sft([sum_run], tmp_path)
    export_sft([sum_run], tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_file_is_no_place_for_an_export(tmp_path: Path, sum_run: Trajectory) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(ExportError, match="is a file"):
        export_sft([sum_run], tmp_path / "f")


def test_a_stream_takes_json_lines(sum_run: Trajectory, run: Run) -> None:
    stream = io.StringIO()
    report = export_sft([sum_run, run()], stream, format="jsonl")
    (row,) = stream.getvalue().splitlines()
    assert json.loads(row)["trajectory_id"] == "t"
    assert (report.folder, report.files, report.rows) == (None, (), 1)
    assert report.refused == {"no-steps": 1}


@pytest.mark.parametrize("out", ["-", Path("-")])
def test_a_dash_is_stdout(
    sum_run: Trajectory, capsys: pytest.CaptureFixture[str], out: str | Path
) -> None:
    export_sft([sum_run], out, format="jsonl")
    assert json.loads(capsys.readouterr().out)["task_id"] == "sums/1"


def test_a_stream_does_not_take_parquet(sum_run: Trajectory) -> None:
    with pytest.raises(ExportError, match="a stream takes jsonl, not parquet"):
        export_sft([sum_run], io.StringIO())


def test_an_unknown_format_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="'csv'; known are parquet, jsonl"):
        export_sft([], tmp_path, format="csv")  # type: ignore[arg-type]  # the mistake under test
    assert list(tmp_path.iterdir()) == []


def test_reasoning_is_left_out_and_the_manifest_says_so(
    tmp_path: Path, sum_run: Trajectory
) -> None:
    report = export_sft([sum_run], tmp_path, format="jsonl", include_reasoning=False)
    assert "reasoning_content" not in (tmp_path / "train.jsonl").read_text()
    parameters = report.manifest["selection_funnel"][-1]["parameters"]
    assert parameters["include_reasoning"] is False
    assert report.manifest["rules_applied"] == {"reasoning-left-out": 1}


def test_the_other_layout_has_prompts_and_completions(tmp_path: Path, sum_run: Trajectory) -> None:
    options = SftOptions(layout="prompt-completion")
    export_sft([sum_run], tmp_path, format="jsonl", options=options)
    (row,) = _lines(tmp_path)
    assert [m["role"] for m in row["completion"]] == ["assistant", "tool", "assistant"]


def test_an_export_of_nothing_is_a_set_of_no_rows(tmp_path: Path) -> None:
    report = export_sft([], tmp_path)
    assert report.rows == 0
    assert pq.read_table(tmp_path / "train.parquet").num_rows == 0
