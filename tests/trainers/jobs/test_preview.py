from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from trajstore_cli.main import app
from typer.testing import CliRunner

from tests.trainers.jobs.conftest import TRAINING, WriteJob
from trajstore.schema import Step, Trajectory, finish
from trajstore.store import Store
from trajstore.trainers.jobs import preview_job, run_job
from trajstore.trainers.jobs.plot import curves_of, write_plot
from trajstore.trainers.sampled import FOREIGN

pytest.importorskip("transformers")


def test_it_shows_rows_with_their_mask_and_writes_nothing(
    write_job: WriteJob, scripted: Path
) -> None:
    file = write_job()
    pins = Store(scripted).pins()
    found = preview_job("sft", file)
    first = found.shown[0]
    assert (found.runs, found.rows, len(found.shown)) == (24, 24, 10)
    assert not first.spans[0].trained
    assert first.spans[0].text.startswith("<|im_start|>user\n")
    assert all(s.text.endswith("<|im_end|>") for s in first.spans if s.trained)
    assert found.trained < found.tokens
    assert not (file.parent / "job").exists()
    assert Store(scripted).pins() == pins


def test_refused_runs_are_counted_by_reason(write_job: WriteJob) -> None:
    found = preview_job("sft", write_job(TRAINING + "max_tokens = 30\n"))
    assert sum(found.refused.values()) + found.rows == 24
    assert any("no step fits 30 tokens" in reason for reason in found.refused)


def foreign_pool(folder: Path) -> Path:
    """Two runs, one with token ids that no small tokenizer has."""
    asked = Step(actor="user", text="2 + 3?")
    said = Step(actor="agent", text="It is 5.")
    far = replace(said, prompt_token_ids=(5, 6), completion_token_ids=(151_643, 7))
    runs = [
        finish(Trajectory(trajectory_id=name, task_id="t", source="s", steps=(asked, step)))
        for name, step in (("near", said), ("far", far))
    ]
    Store(folder, durable=False).append(runs)
    return folder


def test_tokens_that_are_not_used_are_counted_before_and_after(
    write_job: WriteJob, tmp_path: Path
) -> None:
    file = write_job(store=foreign_pool(tmp_path / "pool"))
    assert preview_job("sft", file).unused == {FOREIGN: 1}
    told = CliRunner().invoke(app, ["train", "sft", str(file), "--dry-run"])
    assert f"not used in 1 runs: {FOREIGN}" in told.stderr
    assert run_job("sft", file).results == {"runs": 2, "rows": 2, "refused": 0, "foreign_tokens": 1}


def test_the_plot_draws_rates_and_the_loss_of_each_round(tmp_path: Path) -> None:
    (tmp_path / "iteration-2").mkdir()
    (tmp_path / "iteration-10").mkdir()
    for name in ("iteration-10", "iteration-2"):
        lines = '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n'
        (tmp_path / name / "metrics.jsonl").write_text(lines)
    (tmp_path / "metrics.jsonl").write_text(
        '{"version": "a<b", "held_out/success_rate": 0.25}\n{"version": "c", "train/kept": 3}\n'
    )
    titles = [c.title for c in curves_of(tmp_path)]
    made = write_plot(tmp_path)
    assert titles[0] == "success rate on held-out tasks"
    assert titles[1:] == ["loss of iteration-2 by step", "loss of iteration-10 by step"]
    assert made is not None
    assert "a&lt;b" in made.read_text()


def test_no_metrics_no_plot(tmp_path: Path) -> None:
    assert write_plot(tmp_path) is None
