"""``trajstore train``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Terminals
from tests.trainers.jobs.conftest import MODEL, TRAINING, WriteJob, scripted, write_job

__all__ = ["scripted", "write_job"]


@pytest.fixture(autouse=True)
def _packages() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")


def test_a_dry_run_marks_what_is_trained_on(cli: Cli, write_job: WriteJob) -> None:
    file = write_job()
    ran = cli("train", "sft", file, "--dry-run")
    assert ran.code == 0
    assert ran.out.count(" trained on\n") == 11  # ten rows, and the sum
    assert "<|im_start|>assistant\n{+" in ran.out
    assert "<|im_end|>+}" in ran.out
    assert "rows      24, 0 of them cut to max_tokens" in ran.out
    assert not (file.parent / "job").exists()


@pytest.mark.slow
def test_on_a_terminal_the_mask_is_a_colour_and_no_mark(
    terminal: Terminals,
    write_job: WriteJob,
) -> None:
    screen = terminal("train", "sft", write_job(), "--dry-run")
    assert screen.ended() == 0
    assert "\x1b[32m" in screen.seen
    assert "{+" not in screen.seen


def test_a_dry_run_says_what_is_refused_and_why(cli: Cli, write_job: WriteJob) -> None:
    ran = cli("train", "sft", write_job(TRAINING + "max_tokens = 30\n"), "--dry-run")
    assert "no step fits 30 tokens" in ran.err
    assert ran.out.rstrip().endswith("runs")


def test_the_report_is_json_for_programs(cli: Cli, write_job: WriteJob) -> None:
    ran = cli("train", "sft", write_job(), "--json")
    told = json.loads(ran.out)
    assert (told["job"], told["rows"]) == ("sft", 24)
    assert (Path(told["model"]) / "model.safetensors").is_file()


def test_another_seed_makes_another_folder_where_the_file_says_so(
    cli: Cli,
    write_job: WriteJob,
) -> None:
    file = write_job(name="job-s{seed}")
    made = [json.loads(cli("train", "sft", file, "--json", "--seed", n).out) for n in (1, 2)]
    assert [Path(m["output"]).name for m in made] == ["job-s1", "job-s2"]


def test_wrong_usage_is_2_and_a_wrong_file_is_1(cli: Cli, write_job: WriteJob) -> None:
    assert cli("train", "sftt", write_job()).code == 2
    assert cli("train", "sft", write_job(), "--resume", "--fresh").code == 2
    ran = cli("train", "sft", write_job(TRAINING.replace("steps = 6", "stepz = 6")))
    assert ran.code == 1
    assert "There is no 'stepz' in [training]. Did you mean 'steps'?" in ran.err
    ran = cli("train", "sft", write_job(model=MODEL), "--resume")
    assert ran.code == 1
    assert "no job to go on from" in ran.err
