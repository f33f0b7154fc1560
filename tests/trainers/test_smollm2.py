"""A small real model, once through each algorithm; see :mod:`tests.smollm2`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.smollm2 import smollm2_folder
from tests.trainers.test_trainer import arguments
from trajstore.errors import TrainingError
from trajstore.rollouts.templates import template_of
from trajstore.schema import Observation, Step, ToolCall, Trajectory, finish
from trajstore.store import Store
from trajstore.trainers.jobs.grpo import run_grpo
from trajstore.trainers.jobs.start import open_job
from trajstore.trainers.logprobs import score, with_logprobs
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.objectives import Dpo, Grpo, Objective, Pair, Sft
from trajstore.trainers.rows import TokenRow
from trajstore.trainers.tokenise import Facts, tokenise
from trajstore.trainers.trainer import METRICS_FILE, Lora, make_trainer, with_lora

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytest.importorskip("peft")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smollm2_folder(tmp_path_factory)


@pytest.fixture(scope="module")
def smollm2(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def model(folder: Path) -> Any:
    """Float32 with small adapters, the same each time."""
    torch.manual_seed(0)
    bare = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return with_lora(bare, Lora(rank=8, alpha=16))


def _run(result: str, answer: str) -> Trajectory:
    steps = (
        Step(actor="user", text="What is 12 * 7?"),
        Step(
            actor="agent",
            tool_calls=(ToolCall.of("multiply", {"a": 12, "b": 7}, "c"),),
            observations=(Observation(call_id="c", text=result),),
        ),
        Step(actor="agent", text=answer),
    )
    return Trajectory(trajectory_id=answer, task_id="q", source="hand", steps=steps)


@pytest.fixture(scope="module")
def rows(smollm2: Any) -> list[TokenRow]:
    """Two attempts at one task: a good and a bad one, with advantages."""
    attempts = ((_run("84", "It is 84."), 1.0), (_run("84", "I do not know, sorry."), -1.0))
    return [row for run, a in attempts for row in tokenise(run, smollm2, facts=Facts(advantages=a))]


def _train(
    model: Any, examples: Any, objective: Objective, folder: Path, rate: float = 1e-3
) -> list[dict[str, Any]]:
    options = arguments(
        folder,
        optim="adamw_torch",
        learning_rate=rate,
        max_steps=4,
        per_device_train_batch_size=2,
    )
    make_trainer(model, examples, objective, options).train()
    return [m for m in read_metrics(folder / METRICS_FILE) if "loss" in m]


def test_its_own_template_cannot_say_tools(smollm2: Any) -> None:
    with pytest.raises(TrainingError, match="chatml-tools"):
        template_of(smollm2)


def test_our_template_trains_on_its_turns_alone(smollm2: Any, rows: list[TokenRow]) -> None:
    assert smollm2.decode(rows[0].token_ids[rows[0].action_mask]) == (
        '<tool_call>\n{"name": "multiply", "arguments": {"a":12,"b":7}}\n</tool_call><|im_end|>'
        "It is 84.<|im_end|>"
    )


def test_sft_loss_falls(model: Any, rows: list[TokenRow], tmp_path: Path) -> None:
    told = _train(model, rows, Sft(), tmp_path)
    assert told[-1]["loss"] < 0.7 * told[0]["loss"]


def test_dpo_margin_rises_from_zero(model: Any, rows: list[TokenRow], tmp_path: Path) -> None:
    good, bad = with_logprobs(rows, model, "ref_logprobs")
    told = _train(model, [Pair(chosen=good, rejected=bad)], Dpo(), tmp_path)
    assert told[0]["rewards/margins"] == pytest.approx(0.0, abs=1e-3)
    assert told[-1]["rewards/margins"] > 0.1
    assert told[-1]["loss"] < told[0]["loss"]


def test_a_grpo_step_favours_the_better_attempt(
    model: Any, rows: list[TokenRow], tmp_path: Path
) -> None:
    sampled = with_logprobs(rows, model, "old_logprobs")
    told = _train(model, sampled, Grpo(), tmp_path, rate=2e-4)
    assert told[0]["ratio/mean"] == pytest.approx(1.0, abs=1e-3)
    before = [r.old_logprobs.sum() for r in sampled if r.old_logprobs is not None]
    after = [s.sum() for s in score(model, rows)]
    assert after[0] - before[0] > after[1] - before[1]


GRPO_JOB = """
[job]
store = "pool"
output = "job"
[model]
base = "{base}"
[model.lora]
rank = 8
[training]
learning_rate = 2e-4
steps = 2
batch_size = 2
logging_steps = 1
tensorboard = false
[grpo]
mode = "offline"
ratio = "snapshot"
"""


def test_the_job_takes_a_grpo_step_on_stored_runs(folder: Path, tmp_path: Path) -> None:
    """Adapters come out, and the run that was judged better has become likelier."""
    good = replace(_run("84", "It is 84."), success=True, reward=1.0)
    bad = replace(_run("84", "I do not know, sorry."), success=False, reward=0.0)
    Store(tmp_path / "pool", create=True).append([finish(good), finish(bad)])
    file = tmp_path / "grpo.toml"
    file.write_text(GRPO_JOB.format(base=folder), encoding="utf-8")
    job = open_job("grpo", file)
    rows = job.examples([good, bad]).rows
    before = [s.sum() for s in score(job.fresh_model(), rows)]
    report = run_grpo(job)
    assert report.model is not None
    assert (report.model / "adapter_config.json").is_file()
    after = [s.sum() for s in score(job.fresh_model(report.model), rows)]
    assert after[0] - before[0] > after[1] - before[1]


def test_stored_and_live_reference_agree(model: Any, rows: list[TokenRow], tmp_path: Path) -> None:
    """Stored before training; computed again after it, with the adapters off."""
    stored = with_logprobs(rows, model, "ref_logprobs")
    _train(model, rows, Sft(), tmp_path)
    live = with_logprobs([replace(r, ref_logprobs=None) for r in rows], model, "ref_logprobs")
    for a, b in zip(stored, live, strict=True):
        assert a.ref_logprobs is not None
        assert b.ref_logprobs is not None
        assert abs(a.ref_logprobs - b.ref_logprobs).max() < 1e-4
