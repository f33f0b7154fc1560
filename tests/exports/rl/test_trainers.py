"""TRL's and verl's own code reads the prompts, where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.exports.trl_model import byte_tokenizer, tiny_config
from trajstore.exports.rl import PromptOptions, export_prompts
from trajstore.schema import Step, Trajectory

Run = Callable[..., Trajectory]

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def _tasks(run: Run, n: int) -> list[list[Trajectory]]:
    return [
        [
            run(
                Step(actor="system", text="Add."),
                Step(actor="user", text=f"{i}+{i}?"),
                Step(actor="agent", text=str(2 * i)),
                task_id=f"sums/{i}",
                trajectory_id=str(i),
                metadata=f'{{"answer":"{2 * i}"}}',
            )
        ]
        for i in range(n)
    ]


def test_grpo_samples_from_the_prompts_and_judges_by_the_columns(tmp_path: Path, run: Run) -> None:
    trl = pytest.importorskip("trl")
    datasets = pytest.importorskip("datasets")
    transformers = pytest.importorskip("transformers")
    options = PromptOptions(ground_truth="answer")
    export_prompts(_tasks(run, 2), tmp_path / "set", options=options)
    rows = datasets.load_dataset(
        str(tmp_path / "set"), split="train", cache_dir=str(tmp_path / "cache")
    )
    seen: set[tuple[str, str, str]] = set()

    def reward(prompts: Any, ground_truth: Any, task_id: Any, **_: Any) -> list[float]:
        asked = [p[-1]["content"] for p in prompts]
        seen.update(zip(asked, ground_truth, task_id, strict=True))
        return [0.0] * len(prompts)

    tokenizer = byte_tokenizer()
    config = trl.GRPOConfig(
        output_dir=str(tmp_path / "out"),
        max_completion_length=4,
        num_generations=2,
        per_device_train_batch_size=4,
        max_steps=1,
        use_cpu=True,
        bf16=False,
        report_to="none",
        gradient_checkpointing=False,
    )
    trl.GRPOTrainer(
        transformers.LlamaForCausalLM(tiny_config(tokenizer)),
        reward_funcs=reward,
        args=config,
        train_dataset=rows,
        processing_class=tokenizer,
    ).train()
    assert seen == {("0+0?", "0", "sums/0"), ("1+1?", "2", "sums/1")}


def test_verl_reads_the_prompts(tmp_path: Path, run: Run) -> None:
    module = pytest.importorskip("verl.utils.dataset.rl_dataset")
    omegaconf = pytest.importorskip("omegaconf")
    options = PromptOptions(ground_truth="answer")
    export_prompts(_tasks(run, 3), tmp_path / "set", to="verl", options=options)
    config = omegaconf.OmegaConf.create(
        {"cache_dir": str(tmp_path / "cache"), "filter_overlong_prompts_workers": 1}
    )
    rows = module.RLHFDataset(str(tmp_path / "set" / "train.parquet"), byte_tokenizer(), config)
    assert len(rows) == 3
    row = rows[1]
    assert [m["content"] for m in row["raw_prompt"]] == ["Add.", "1+1?"]
    assert row["reward_model"] == {"style": "rule", "ground_truth": "2"}
    assert (row["index"], row["agent_name"]) == (1, "single_turn_agent")
    assert row["tools_kwargs"] == {}
