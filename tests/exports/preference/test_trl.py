"""Preference and KTO sets go through TRL's own trainers: what they render and what carries loss.

The oracle is written out by hand for a run of an agent with a simulated user and a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.exports.preference.pairs import pair_of, runs_of, two_runs
from tests.exports.trl_model import byte_tokenizer, module_of, tiny_config
from trajstore.exports.kto import Judged, export_kto
from trajstore.exports.preference import export_pairs
from trajstore.schema import Step

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CALL = '<tool_call>add {"a": 2}</tool_call><|im_end|>'


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return byte_tokenizer()


def _rows(folder: Path) -> Any:
    cache = str(folder / "cache")
    return datasets.load_dataset(str(folder / "set"), split="train", cache_dir=cache)


def _config(kind: Any, folder: Path) -> Any:
    return kind(
        output_dir=str(folder / "out"),
        max_length=None,
        use_cpu=True,
        bf16=False,
        report_to="none",
        max_steps=1,
        per_device_train_batch_size=2,
        gradient_checkpointing=False,
    )


def _trainer(kind: Any, config: Any, folder: Path, tokenizer: Any) -> Any:
    model = transformers.LlamaForCausalLM(tiny_config(tokenizer))
    reference = transformers.LlamaForCausalLM(tiny_config(tokenizer))
    return kind(
        model,
        ref_model=reference,
        args=_config(config, folder),
        train_dataset=_rows(folder),
        processing_class=tokenizer,
    )


def _texts(batch: Mapping[str, Any], tokenizer: Any, prefix: str = "") -> list[str]:
    """Of each sequence, the tokens under the mask."""
    both = zip(batch[f"{prefix}input_ids"], batch[f"{prefix}completion_mask"], strict=True)
    return [tokenizer.decode(ids[mask.bool()].tolist()) for ids, mask in both]


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_dpo_loss_falls_on_the_turns_of_the_agent_and_on_nothing_else(
    tmp_path: Path, tokenizer: Any, format_: Any, run: Callable[..., Any]
) -> None:
    good, bad = two_runs(run)
    export_pairs(pair_of(good, bad), runs_of(good, bad), tmp_path / "set", format=format_)
    masks = module_of(tmp_path / "set" / "trl_masks.py")
    trainer = _trainer(masks.MaskedDPOTrainer, trl.DPOConfig, tmp_path, tokenizer)
    batch = next(iter(trainer.get_train_dataloader()))
    assert _texts(batch, tokenizer) == [f"{CALL}5<|im_end|>", "4<|im_end|>"]
    trainer.train()


def test_plain_dpo_reads_the_rows_and_puts_loss_on_what_others_said(
    tmp_path: Path, tokenizer: Any, run: Callable[..., Any]
) -> None:
    good, bad = two_runs(run)
    export_pairs(pair_of(good, bad), runs_of(good, bad), tmp_path / "set")
    trainer = _trainer(trl.DPOTrainer, trl.DPOConfig, tmp_path, tokenizer)
    batch = next(iter(trainer.get_train_dataloader()))
    chosen, _ = _texts(batch, tokenizer)
    assert "2+?" in chosen, "the reason why the card names another trainer"
    assert "<tools>" in tokenizer.decode(batch["input_ids"][0].tolist())


def test_pairs_of_steps_carry_the_same_loss_with_either_trainer(
    tmp_path: Path, tokenizer: Any, run: Callable[..., Any]
) -> None:
    good, bad = two_runs(run)
    pairs = pair_of(good, bad, level="step", n_prompt_steps=2, chosen_step=2, rejected_step=2)
    export_pairs(pairs, runs_of(good, bad), tmp_path / "set")
    masks = module_of(tmp_path / "set" / "trl_masks.py")
    plain = _trainer(trl.DPOTrainer, trl.DPOConfig, tmp_path, tokenizer)
    ours = _trainer(masks.MaskedDPOTrainer, trl.DPOConfig, tmp_path, tokenizer)
    expected = [CALL, "4<|im_end|>"]
    found = _texts(next(iter(ours.get_train_dataloader())), tokenizer)
    assert found == expected
    whole = _texts(next(iter(plain.get_train_dataloader())), tokenizer)
    assert [text.rstrip("\n") for text in whole] == expected


def test_a_prompt_that_ends_with_a_tool_result_is_read(
    tmp_path: Path, tokenizer: Any, run: Callable[..., Any]
) -> None:
    """Case 8: trainers have refused such pairs."""
    shared = two_runs(run)[0].steps[:3]
    sides = [
        run(*shared, Step(actor="agent", text=text), trajectory_id=text, success=text == "5")
        for text in ("5", "7")
    ]
    pairs = pair_of(*sides, level="step", n_prompt_steps=3, chosen_step=3, rejected_step=3)
    export_pairs(pairs, runs_of(*sides), tmp_path / "set")
    assert _rows(tmp_path)[0]["prompt"][-1]["role"] == "tool"
    plain = _trainer(trl.DPOTrainer, trl.DPOConfig, tmp_path, tokenizer)
    whole = _texts(next(iter(plain.get_train_dataloader())), tokenizer)
    assert [text.rstrip("\n") for text in whole] == ["5<|im_end|>", "7<|im_end|>"]


def test_the_reward_trainer_reads_both_sides_whole(
    tmp_path: Path, tokenizer: Any, run: Callable[..., Any]
) -> None:
    good, bad = two_runs(run)
    export_pairs(pair_of(good, bad), runs_of(good, bad), tmp_path / "set", kind="reward")
    trainer = trl.RewardTrainer(
        transformers.LlamaForSequenceClassification(tiny_config(tokenizer)),
        args=_config(trl.RewardConfig, tmp_path),
        train_dataset=_rows(tmp_path),
        processing_class=tokenizer,
    )
    (row,) = trainer.train_dataset
    assert tokenizer.decode(row["rejected_ids"]).endswith(
        "<|im_start|>user\n2 plus?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n"
    )
    trainer.train()


def test_kto_loss_and_its_kl_term_run_over_the_turns_of_the_agent(
    tmp_path: Path, tokenizer: Any, run: Callable[..., Any]
) -> None:
    good, bad = two_runs(run)
    judged = [Judged(run=good, value=1.0, good=True), Judged(run=bad, value=0.0, good=False)]
    export_kto(judged, tmp_path / "set")
    masks = module_of(tmp_path / "set" / "trl_masks.py")
    trainer = _trainer(masks.MaskedKTOTrainer, trl.KTOConfig, tmp_path, tokenizer)
    batch = trainer.data_collator(list(trainer.train_dataset))
    own = [f"{CALL}5<|im_end|>", "4<|im_end|>"]
    assert _texts(batch, tokenizer) == own
    assert _texts(batch, tokenizer, "KL_") == own[::-1]
    assert batch["label"].tolist() == [True, False]
    trainer.train()
