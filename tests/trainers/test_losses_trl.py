"""Our losses against TRL's own, on the same tensors.

TRL computes log-probabilities inside its trainers. Here a stand-in for the model returns given
ones, and TRL's ``_compute_loss`` runs as it is.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainers.scored import batch, scored
from trajstore.trainers.losses import (
    Aggregation,
    dpo_loss,
    grpo_loss,
    kto_loss,
    sft_loss,
)

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytestmark = pytest.mark.filterwarnings("ignore")

LONGEST = 9


def _accelerator() -> Any:
    return SimpleNamespace(
        device="cpu",
        num_processes=1,
        parallelism_config=None,
        gather=lambda x: x,
        gather_for_metrics=lambda x: x,
        reduce=lambda x, reduction: x,  # noqa: ARG005 - TRL's name
    )


def _trainer(**fields: Any) -> Any:
    """What TRL's ``_compute_loss`` asks of its trainer."""
    base = {
        "model": SimpleNamespace(training=True),
        "accelerator": _accelerator(),
        "aux_loss_enabled": False,
        "precompute_ref_logps": True,
        "current_gradient_accumulation_steps": 1,
        "_metrics": {"train": defaultdict(list)},
        "_total_train_tokens": 0,
        "_tp_size": 1,
        "get_tp_size": lambda: 1,
    }
    return SimpleNamespace(**{**base, **fields})


def _outputs(logprobs: Any, mask: Any) -> Any:
    """What TRL's fused output layer returns: one value a predicted token."""
    shifted, kept = logprobs[:, 1:], mask[:, 1:]
    return SimpleNamespace(
        log_probs=shifted.masked_fill(~kept, 0.0),
        entropy=torch.zeros_like(shifted),
        mean_logits=torch.zeros_like(shifted),
        is_top1=torch.zeros_like(shifted, dtype=torch.bool),
        label_mask=kept,
        loss=None,
    )


def _sums(made: dict[str, Any], name: str) -> Any:
    return made[name].masked_fill(~made["mask"], 0.0).sum(-1)


def _ids(mask: Any) -> Any:
    return torch.ones(mask.shape, dtype=torch.long)


def test_sft_equals_trl() -> None:
    trl_sft = pytest.importorskip("trl.trainer.sft_trainer").SFTTrainer
    made = batch(torch)
    ours = sft_loss(scored(made))
    labels = _ids(made["mask"]).masked_fill(~made["mask"], -100)
    trainer = _trainer(
        compute_loss_func=None,
        label_smoother=None,
        args=SimpleNamespace(loss_type="nll", average_tokens_across_devices=False),
    )
    inputs = {"input_ids": _ids(made["mask"]), "labels": labels, "attention_mask": labels}
    theirs = trl_sft.compute_loss(
        trainer, lambda **_: _outputs(made["logprobs"], made["mask"]), inputs
    )
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)


@pytest.mark.parametrize("nll_weight", [0.0, 0.5])
@pytest.mark.parametrize("variant", ["sigmoid", "ipo", "sigmoid_norm"])
def test_dpo_equals_trl(variant: Any, nll_weight: float) -> None:
    trl_dpo = pytest.importorskip("trl.trainer.dpo_trainer").DPOTrainer
    good, bad = batch(torch, seed=1), batch(torch, seed=2)
    logprobs = torch.cat([good["logprobs"], bad["logprobs"]])
    mask = torch.cat([good["mask"], bad["mask"]])
    trainer = _trainer(
        beta=0.3,
        use_weighting=False,
        ld_alpha=None,
        f_divergence_type="reverse_kl",
        loss_types=[variant, "sft"] if nll_weight else [variant],
        loss_weights=[1.0, nll_weight] if nll_weight else [1.0],
        label_smoothing=0.0,
        args=SimpleNamespace(gradient_checkpointing_kwargs=None),
    )
    inputs = {
        "input_ids": _ids(mask),
        "attention_mask": _ids(mask),
        "completion_mask": mask.long(),
        "ref_chosen_logps": _sums(good, "reference"),
        "ref_rejected_logps": _sums(bad, "reference"),
    }
    theirs = trl_dpo._compute_loss(trainer, lambda **_: _outputs(logprobs, mask), inputs, False)
    ours = dpo_loss(scored(good), scored(bad), beta=0.3, variant=variant, nll_weight=nll_weight)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)


def test_kto_equals_trl() -> None:
    trl_kto = pytest.importorskip("trl.trainer.kto_trainer").KTOTrainer
    made, other = batch(torch), batch(torch, seed=5)
    desirable = torch.tensor([True, False, True, True])
    kl = _sums(other, "logprobs").detach()
    trainer = _trainer(
        beta=0.2,
        loss_type="kto",
        calculate_KL=True,
        desirable_weight=1.5,
        undesirable_weight=0.5,
        _compute_kl_logps=lambda model, batch: kl,  # noqa: ARG005 - TRL's names
    )
    inputs = {
        "input_ids": _ids(made["mask"]),
        "attention_mask": _ids(made["mask"]),
        "completion_mask": made["mask"].long(),
        "label": desirable,
        "ref_logps": _sums(made, "reference"),
        "ref_KL_logps": _sums(other, "reference"),
    }
    theirs = trl_kto._compute_loss(
        trainer, lambda **_: _outputs(made["logprobs"], made["mask"]), inputs, False
    )
    ours = kto_loss(
        scored(made),
        desirable,
        (kl - _sums(other, "reference")).mean(),
        beta=0.2,
        desirable_weight=1.5,
        undesirable_weight=0.5,
    )
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)


def _trl_grpo(made: dict[str, Any], aggregation: str, *, tis: bool) -> Any:
    trl_grpo = pytest.importorskip("trl.trainer.grpo_trainer").GRPOTrainer
    policy = made["logprobs"]
    trainer = _trainer(
        _get_per_token_logps_and_entropies=lambda *_, **__: (policy, policy.detach(), None),
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=0.04,
        loss_type=aggregation,
        epsilon_low=0.2,
        epsilon_high=0.28,
        use_vllm=tis,
        vllm_importance_sampling_correction=tis,
        max_completion_length=LONGEST,
        _entropy_bonus_enabled=False,
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1),
    )
    gap = (made["snapshot"] - made["behaviour"]).exp().clamp(max=1.5)
    inputs = {
        "prompt_ids": _ids(made["mask"])[:, :1],
        "prompt_mask": _ids(made["mask"])[:, :1],
        "completion_ids": _ids(made["mask"]),
        "completion_mask": _ids(made["mask"]),
        "tool_mask": made["mask"].long(),
        "advantages": made["advantages"],
        "old_per_token_logps": made["snapshot"] if tis else made["behaviour"],
        "ref_per_token_logps": made["reference"],
        "importance_sampling_ratio": gap,
        "num_items_in_batch": made["mask"].sum(),
    }
    return trl_grpo._compute_loss(trainer, None, inputs)


@pytest.mark.parametrize("tis", [False, True], ids=["behaviour", "recomputed"])
@pytest.mark.parametrize("aggregation", ["grpo", "dapo", "dr_grpo"])
def test_grpo_equals_trl(aggregation: Aggregation, *, tis: bool) -> None:
    made = batch(torch)
    theirs = _trl_grpo(made, aggregation, tis=tis)
    theirs.backward()
    gradient, made["logprobs"].grad = made["logprobs"].grad, None
    ours = grpo_loss(
        scored(made),
        made["advantages"],
        aggregation=aggregation,
        clip_high=0.28,
        kl_coef=0.04,
        ratio="recomputed" if tis else "behaviour",
        tis_cap=1.5,
        max_tokens=LONGEST,
    )
    ours.backward()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    assert torch.allclose(made["logprobs"].grad, gradient, rtol=1e-10)
