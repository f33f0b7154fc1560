"""What a job's file may say, and what is answered where it says something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainers.jobs.conftest import WriteJob
from trajstore.errors import TrainingError
from trajstore.trainers.jobs.config import read_config
from trajstore.trainers.jobs.sft import SftTable
from trajstore.trainers.jobs.start import read_job

EXAMPLES = Path(__file__).resolve().parents[3] / "docs/examples/training"
GOOD = '[job]\nstore = "pool"\noutput = "out"\n[model.scratch]\n'

WRONG = {
    "unknown table": (GOOD + "[trainng]\n", 5, "Did you mean 'training'?"),
    "unknown key": (GOOD + "[training]\nlr = 1\n", 6, "There is no 'lr' in [training]"),
    "type": (GOOD + '[training]\nsteps = "ten"\n', 6, "'steps' must be a whole number, not 'ten'"),
    "range": (GOOD + "[training]\nlearning_rate = 0\n", 6, "learning_rate must be above 0"),
    "infinite": (GOOD + "[training]\nlearning_rate = inf\n", 6, "learning_rate must be above 0"),
    "no number": (GOOD + "[training]\nmax_grad_norm = nan\n", 6, "max_grad_norm must be above 0"),
    "negative": (GOOD + "[training]\nweight_decay = -5\n", 6, "weight_decay must be 0 or more"),
    "both": (GOOD + "[training]\nsteps = 1\nepochs = 1\n", 7, "give one of them"),
    "missing": ('[job]\nstore = "pool"\n', 1, "[job] needs 'output'"),
    "no model": ('[job]\nstore = "p"\noutput = "o"\n', 1, "[model] needs base"),
    "two models": (GOOD + '[model]\nbase = "x"\n', 4, "[model] needs base"),
    "base": (
        '[job]\nstore = "p"\noutput = "o"\n[model]\nbase = "nowhere"\n',
        5,
        "it has no config.json",
    ),
    "width": (
        GOOD + "hidden = 30\nheads = 4\n",
        5,
        "hidden = 30 must be a multiple of twice heads = 4",
    ),
    "vocabulary": (GOOD + "vocabulary = 100\n", 5, "give 300 or more"),
    "environment": (GOOD + '[rollouts]\nenvironment = "chess"\n', 6, "no environment 'chess'"),
    "url": (
        GOOD + '[rollouts]\nenvironment = "calculator"\npolicy = "vllm"\n',
        7,
        "url belongs to policy",
    ),
    "two sources": (GOOD + '[data]\nwhere = "success"\nselection = "s"\n', 6, "give one of them"),
    "selection": (GOOD + '[data]\nselection = "s.parquet"\n', 6, "There is no file"),
    "no TOML": ("[job\n", 1, "This is no TOML"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_with_file_line_and_what_to_do(name: str, tmp_path: Path) -> None:
    text, line, said = WRONG[name]
    file = tmp_path / "job.toml"
    file.write_text(text)
    with pytest.raises(TrainingError) as caught:
        read_config(file, "sft", SftTable)
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert said in str(caught.value)
    assert caught.value.line == line


def test_a_table_of_another_kind_of_job_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(GOOD + "[star]\n")
    with pytest.raises(TrainingError, match=r"There is no 'star' in the job"):
        read_config(file, "sft", SftTable)


def test_a_job_that_samples_needs_tasks(write_job: WriteJob) -> None:
    with pytest.raises(TrainingError, match=r"needs a table \[rollouts\]"):
        read_job("star", write_job())
    with pytest.raises(TrainingError, match=r"needs \[rollouts.tasks\]"):
        read_job("star", write_job('[rollouts]\nenvironment = "calculator"\n'))


LOSSES = [
    ("dpo", "beta = -1", "beta must be above 0"),
    ("dpo", "later_beta = 0", "later_beta must be above 0"),
    ("dpo", "nll_weight = nan", "nll_weight must be 0 or more"),
    ("grpo", "clip_low = -3", "clip_low is between 0 and 1"),
    ("grpo", "clip_high = inf", "clip_high must be above 0"),
    ("grpo", "tis_cap = -1", "tis_cap must be above 0"),
    ("grpo", "kl_coef = nan", "kl_coef must be 0 or more"),
]


@pytest.mark.parametrize(("kind", "given", "said"), LOSSES)
def test_a_loss_is_told_no_number_that_makes_no_sense(
    kind: str, given: str, said: str, write_job: WriteJob
) -> None:
    with pytest.raises(TrainingError, match=rf"job\.toml:\d+: {said}"):
        read_job(kind, write_job(f'[{kind}]\nmode = "offline"\n{given}\n'))


def test_tasks_without_end_are_refused_before_they_are_made(write_job: WriteJob) -> None:
    many = '[rollouts]\nenvironment = "calculator"\n[rollouts.tasks]\ncount = 10_000_000\n'
    with pytest.raises(TrainingError, match="count = 10,000,000 is above 1,000,000"):
        read_job("star", write_job(many))


@pytest.mark.parametrize("kind", ["star", "dpo", "grpo"])
def test_a_job_that_samples_says_that_it_reads_no_data(
    kind: str, write_job: WriteJob, tmp_path: Path
) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}")
    tasks = '[rollouts]\nenvironment = "calculator"\n[rollouts.tasks]\ncount = 3\n'
    model = '[model]\nbase = "base"\n'
    file = write_job(tasks, '[data]\nwhere = "this is not sql"\n', model=model)
    with pytest.raises(TrainingError, match="trains on what it samples, so it reads no where"):
        read_job(kind, file)


def test_the_digest_knows_what_decides_the_result_and_not_where_it_lies(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        file = tmp_path / "job.toml"
        file.write_text(text)
        return read_config(file, "sft", SftTable).digest

    known = digest(GOOD)
    assert digest("# a comment\n" + GOOD.replace('"out"', '"elsewhere"')) == known
    assert digest(GOOD + "[training]\nsteps = 3\n") != known
    assert digest(GOOD.replace("[model", "seed = 1\n[model")) != known


@pytest.mark.parametrize(("kind", "name"), [("sft", "warm"), ("star", "star"), ("rft", "rft")])
def test_the_files_of_the_guide_are_sound(kind: str, name: str, tmp_path: Path) -> None:
    """Beside a base, which the job ``warm`` makes."""
    base = tmp_path / "runs" / "warm" / "model"
    base.mkdir(parents=True)
    (base / "config.json").write_text("{}")
    text = (EXAMPLES / f"{name}.toml").read_text()
    (tmp_path / "job.toml").write_text(text)
    made = read_job(kind, tmp_path / "job.toml", seed=7)
    assert made.job.seed == 7
    assert made.located(made.job.output).endswith(("warm", f"{name}-s7"))
    assert made.rollouts is not None
    assert made.rollouts.held_out is not None
