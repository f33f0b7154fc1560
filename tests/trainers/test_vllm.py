"""A real vLLM: rollouts, a step on them, new weights while it runs, rollouts of those.

vLLM pins other packages than a trainer, so it has a Python of its own, which
``TRAJSTORE_VLLM_PYTHON`` names (``make vllm`` makes one). The model is SmolLM2 in float32.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.smollm2 import smollm2_folder
from tests.trainers.test_trainer import arguments
from tests.trainers.vllm_rollouts import SAMPLING, talk
from trajstore import open as open_store
from trajstore.rollouts import (
    EndpointPolicy,
    Limits,
    VllmServer,
    VllmServerPolicy,
    record_rollouts,
    shipped,
)
from trajstore.rollouts.dialect import Dialect
from trajstore.schema import Trajectory
from trajstore.trainers.logprobs import score
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.objectives import Grpo
from trajstore.trainers.rows import TokenRow
from trajstore.trainers.tokenise import Facts, RowOptions, tokenise
from trajstore.trainers.trainer import METRICS_FILE, Lora, make_trainer, with_lora

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytest.importorskip("accelerate")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).resolve().parents[2]
MOST = 1e-3
"""Difference of two log-probabilities of one token, in nats; measured: below 5e-5."""


@dataclass(kw_only=True)
class Learner:
    """What the tests share, in the order in which it comes to be."""

    policy: VllmServerPolicy
    model: Any
    before: list[Trajectory]
    adapter: Path
    metrics: list[dict[str, Any]]
    after: list[Trajectory]


@pytest.fixture(scope="module")
def python() -> str:
    """The Python that has vLLM; must be there in CI."""
    found = os.environ.get("TRAJSTORE_VLLM_PYTHON")
    if found:
        return found
    message = "no vLLM: run 'make vllm' and set TRAJSTORE_VLLM_PYTHON to .venv/vllm/bin/python"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smollm2_folder(tmp_path_factory)


@pytest.fixture(scope="module")
def dialect(folder: Path) -> Dialect:
    return Dialect(transformers.AutoTokenizer.from_pretrained(folder))


@pytest.fixture(scope="module")
def server(python: str, folder: Path) -> Iterator[VllmServer]:
    started = VllmServer(
        model=str(folder),
        python=python,
        dtype="float32",
        lora_rank=8,
        max_model_len=1536,
        eager=True,
        environment={"HF_HUB_OFFLINE": "1"},
    )
    with started:
        yield started


@pytest.fixture(scope="module")
def learner(
    server: VllmServer, dialect: Dialect, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Learner:
    """Rollouts, one step of GRPO on an adapter, a reload of the adapter, rollouts again."""
    out = tmp_path_factory.mktemp("grpo")
    policy = VllmServerPolicy(
        server.url, dialect, model=server.served_as, version="v0", sampling=SAMPLING
    )
    policy.check()
    before = talk(policy, attempts=4)
    torch.manual_seed(0)
    bare = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = with_lora(bare, Lora(rank=8, alpha=16))
    options = arguments(out, optim="adamw_torch", learning_rate=1e-3, per_device_train_batch_size=8)
    trainer = make_trainer(model, _with_advantages(before, dialect), Grpo(), options)
    trainer.train()
    trainer.save_model(str(out / "v1"))
    policy.update(out / "v1", "talk-s0/v1")
    return Learner(
        policy=policy,
        model=model,
        before=before,
        adapter=out / "v1",
        metrics=list(read_metrics(out / METRICS_FILE)),
        after=talk(policy, attempts=4, seed=1),
    )


def _with_advantages(runs: Sequence[Trajectory], dialect: Dialect) -> list[TokenRow]:
    """Rows with the advantage of each run in its group."""
    groups: dict[str | None, list[float]] = defaultdict(list)
    for run in runs:
        groups[run.task_id].append(float(run.reward or 0.0))
    rows = []
    for run in runs:
        rewards = groups[run.task_id]
        spread = statistics.stdev(rewards) + 1e-4
        advantage = (float(run.reward or 0.0) - statistics.mean(rewards)) / spread
        facts = Facts(advantages=advantage, group_id=run.task_id)
        rows += tokenise(run, dialect.tokenizer, dialect.template, facts=facts)
    return rows


def gap(model: Any, rows: Sequence[TokenRow]) -> float:
    """Largest difference between stored log-probabilities and those of the model."""
    differences = []
    for row, live in zip(rows, score(model, rows), strict=True):
        assert row.stored
        assert row.old_logprobs is not None
        differences.append(float(abs(live - row.old_logprobs)[row.action_mask].max()))
    return max(differences)


def rows_of(runs: Sequence[Trajectory], dialect: Dialect) -> list[TokenRow]:
    options = RowOptions(train_format_errors=True)
    return [
        row
        for run in runs
        for row in tokenise(run, dialect.tokenizer, dialect.template, options=options)
    ]


def versions(runs: Sequence[Trajectory]) -> set[tuple[str | None, str]]:
    """Of the run, and of each of its steps."""
    return {
        (run.policy_version, json.loads(str(step.metadata))["policy_version"])
        for run in runs
        for step in run.steps
        if step.actor == "agent"
    }


def test_each_run_is_one_row_of_the_tokens_that_were_sampled(
    learner: Learner, dialect: Dialect
) -> None:
    for run in learner.before:
        (row,) = tokenise(run, dialect.tokenizer, dialect.template)
        first, second = (s for s in run.steps if s.actor == "agent")
        assert first.completion_token_ids is not None
        assert second.prompt_token_ids is not None
        continued = (*(first.prompt_token_ids or ()), *first.completion_token_ids)
        assert second.prompt_token_ids[: len(continued)] == continued
        assert row.n_action_tokens == sum(
            len(s.completion_token_ids or ()) for s in (first, second)
        )


def test_the_trainer_finds_the_logprobs_that_the_server_sampled_with(
    learner: Learner, dialect: Dialect
) -> None:
    with learner.model.disable_adapter():
        assert gap(learner.model, rows_of(learner.before, dialect)) < MOST


def test_the_step_began_on_policy(learner: Learner) -> None:
    (told,) = (m for m in learner.metrics if "loss" in m)
    assert told["ratio/mean"] == pytest.approx(1.0, abs=MOST)
    assert told["grad_norm"] > 0


def test_after_the_reload_the_new_version_samples_and_is_recorded(
    learner: Learner, dialect: Dialect
) -> None:
    """The weights did change: the old ones would have given other log-probabilities."""
    assert versions(learner.before) == {("v0", "v0")}
    assert versions(learner.after) == {("talk-s0/v1", "talk-s0/v1")}
    rows = rows_of(learner.after, dialect)
    assert gap(learner.model, rows) < MOST
    with learner.model.disable_adapter():
        assert gap(learner.model, rows) > 10 * MOST


def test_a_shipped_environment_with_tools_is_stored_with_its_tokens(
    learner: Learner, dialect: Dialect, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "pool")
    place = shipped("calculator")
    done = record_rollouts(
        store,
        place.make,
        [learner.policy],
        place.tasks(2, 0),
        attempts=2,
        limits=Limits(max_steps=3),
    )
    assert (done.added, done.first_error) == (4, None)
    (row,) = store.sql(
        "select count(*), count(prompt_token_ids), count(logprobs), "
        "sum(len(completion_token_ids) - len(logprobs)) from steps where actor = 'agent'"
    ).fetchall()
    assert row[0] == row[1] == row[2] > 4
    assert row[3] == 0
    assert gap(learner.model, rows_of(list(store.scan()), dialect)) < MOST


def test_a_chat_endpoint_tells_the_tokens_that_it_read_and_wrote(
    server: VllmServer, learner: Learner, dialect: Dialect
) -> None:
    """By chat completions the server renders; the base answers under the server's own name."""
    chat = EndpointPolicy(
        base_url=server.url,
        model=server.served_as,
        max_tokens=16,
        token_ids=True,
        logprobs_mode=server.logprobs_mode,
    )
    chat.check()
    rows = rows_of(talk(chat, attempts=2), dialect)
    with learner.model.disable_adapter():
        assert gap(learner.model, rows) < MOST


def test_full_weights_are_reloaded_while_the_server_runs(
    learner: Learner, dialect: Dialect, tmp_path: Path
) -> None:
    merged = peft.PeftModel.from_pretrained(
        transformers.AutoModelForCausalLM.from_pretrained(
            learner.model.config._name_or_path, dtype=torch.float32
        ),
        str(learner.adapter),
    ).merge_and_unload()
    merged.save_pretrained(tmp_path)
    dialect.tokenizer.save_pretrained(tmp_path)
    learner.policy.update(tmp_path, "v2")
    runs = talk(learner.policy, attempts=2, seed=2)
    assert versions(runs) == {("v2", "v2")}
    assert gap(merged, rows_of(runs, dialect)) < MOST


def test_an_engine_in_process_samples_with_the_logprobs_of_the_trainer(
    python: str, learner: Learner, folder: Path
) -> None:
    paths = [str(ROOT), str(ROOT / "cli")]
    variables = {
        "PYTHONPATH": os.pathsep.join(paths),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [python, "-m", "tests.trainers.vllm_worker", str(folder), str(learner.adapter)],
        env={**os.environ, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    bare, adapted = json.loads(done.stdout.splitlines()[-1])
    assert ({t["version"] for t in bare}, {t["version"] for t in adapted}) == ({"v0"}, {"v1"})
    assert gap(learner.model, _rows_of_turns(adapted)) < MOST
    with learner.model.disable_adapter():
        assert gap(learner.model, _rows_of_turns(bare)) < MOST


def _rows_of_turns(turns: Sequence[dict[str, Any]]) -> list[TokenRow]:
    np = pytest.importorskip("numpy")
    rows = []
    for turn in turns:
        read, written = turn["prompt"], turn["produced"]
        mask = [False] * len(read) + [True] * len(written)
        rows.append(
            TokenRow(
                token_ids=np.array([*read, *written]),
                action_mask=np.array(mask),
                trajectory_id="t",
                step_from=0,
                step_to=0,
                old_logprobs=np.array([0.0] * len(read) + turn["logprobs"], np.float32),
                stored=True,
            )
        )
    return rows
