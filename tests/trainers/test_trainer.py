"""The trainer: what is accumulated, what is resumed, what stops it, what it writes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.conftest import make_tiny_model
from tests.trainers.row_makers import row
from trajstore.errors import TrainingError
from trajstore.trainers.logprobs import with_logprobs
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.objectives import Dpo, Grpo, Judged, Kto, Objective, Pair, Reinforce, Sft
from trajstore.trainers.trainer import (
    METRICS_FILE,
    Lora,
    filled,
    make_trainer,
    trainer_class,
    with_lora,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.filterwarnings("ignore")


def arguments(folder: Path, **changes: Any) -> Any:
    """One row a batch, plain SGD, everything logged, nothing saved unless asked for."""
    base: dict[str, Any] = {
        "output_dir": str(folder),
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "optim": "sgd",
        "learning_rate": 0.5,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 1e9,
        "per_device_train_batch_size": 1,
        "logging_steps": 1,
        "save_strategy": "no",
        "max_steps": 1,
        "seed": 3,
        **changes,
    }
    return transformers.TrainingArguments(**base)


def examples_of(objective: Objective, model: Any) -> list[Any]:
    """Eight examples of unequal lengths, with all numbers that any objective needs."""
    signs = itertools.cycle((1.0, -0.5))
    rows = [row(6 + 3 * i, seed=i, old=True, advantage=next(signs)) for i in range(8)]
    rows = with_logprobs(rows, model, "ref_logprobs")
    rows = with_logprobs(rows, model, "snapshot_logprobs")
    if isinstance(objective, Dpo):
        return [Pair(chosen=a, rejected=b) for a, b in zip(rows, rows[::-1], strict=True)]
    if isinstance(objective, Kto):
        return [Judged(row=r, desirable=bool(i % 3)) for i, r in enumerate(rows)]
    return list(rows)


OBJECTIVES: dict[str, Objective] = {
    "sft": Sft(),
    "dpo": Dpo(nll_weight=0.2),
    "kto": Kto(),
    "grpo": Grpo(aggregation="grpo", ratio="snapshot", kl_coef=0.1),
    "dapo": Grpo(),
    "dr_grpo": Grpo(aggregation="dr_grpo", max_tokens=20, ratio="recomputed"),
    "reinforce": Reinforce(tis_cap=2.0),
}


def weights_of(model: Any) -> Any:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def _step(folder: Path, objective: Objective, **changes: Any) -> tuple[Any, dict[str, Any]]:
    model = make_tiny_model()
    examples = examples_of(objective, model)
    trainer = make_trainer(model, examples, objective, arguments(folder, **changes))
    trainer.train()
    return weights_of(model), read_metrics(folder / METRICS_FILE)[0]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_accumulated_batches_make_the_step_of_one_large_batch(name: str, tmp_path: Path) -> None:
    objective = OBJECTIVES[name]
    one, told = _step(tmp_path / "one", objective, per_device_train_batch_size=8)
    many, also = _step(tmp_path / "many", objective, gradient_accumulation_steps=8)
    assert also["loss"] == pytest.approx(told["loss"], rel=1e-5, abs=1e-7)
    assert also["grad_norm"] == pytest.approx(told["grad_norm"], rel=1e-4)
    assert torch.allclose(one, many, atol=1e-6)


def test_a_step_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    """Logits, log-softmax, mean over action tokens and SGD, in five lines of torch."""
    found, told = _step(
        tmp_path, Sft(), per_device_train_batch_size=4, gradient_accumulation_steps=2
    )
    model = make_tiny_model()
    total, count = 0.0, 0
    for made in examples_of(Sft(), model):
        ids = torch.as_tensor(made.token_ids)
        mask = torch.as_tensor(made.action_mask)[1:]
        logits = model(input_ids=ids[None]).logits[0, :-1].log_softmax(-1)
        total = total - (logits.gather(-1, ids[1:, None]).squeeze(-1) * mask).sum()
        count += int(mask.sum())
    (total / count).backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    assert told["loss"] == pytest.approx((total / count).item(), rel=1e-5)
    assert torch.allclose(found, weights_of(model), atol=1e-6)


def test_an_epoch_reads_every_row_once(tmp_path: Path) -> None:
    """Rows have lengths 6, 9, 12, ..., so lengths tell them apart."""
    model = make_tiny_model()
    rows = examples_of(Sft(), model)
    seen = []
    model.register_forward_pre_hook(
        lambda _, __, given: seen.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    options = arguments(tmp_path, max_steps=-1, num_train_epochs=1, gradient_accumulation_steps=3)
    make_trainer(model, rows, Sft(), options).train()
    assert sorted(seen) == [len(r.token_ids) for r in rows]


def _long(folder: Path, model: Any, **changes: Any) -> Any:
    changes = {
        "optim": "adamw_torch",
        "learning_rate": 1e-2,
        "lr_scheduler_type": "cosine",
        "max_steps": 6,
        "per_device_train_batch_size": 2,
        "save_strategy": "steps",
        "save_steps": 2,
        **changes,
    }
    callbacks = changes.pop("callbacks", ())
    objective = Sft()
    examples = examples_of(objective, make_tiny_model())
    return make_trainer(
        model, examples, objective, arguments(folder, **changes), callbacks=callbacks
    )


def _stop_after(step: int) -> Any:
    class Kill(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            del args, control
            if state.global_step == step:
                raise KeyboardInterrupt

    return Kill()


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path: Path) -> None:
    straight = make_tiny_model()
    _long(tmp_path / "straight", straight).train()
    broken = _long(tmp_path / "broken", make_tiny_model(), callbacks=[_stop_after(5)])
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    resumed = make_tiny_model(seed=9)
    _long(tmp_path / "broken", resumed).train(resume_from_checkpoint=True)
    assert torch.equal(weights_of(straight), weights_of(resumed))


def test_metrics_of_a_resumed_run_name_each_step_once(tmp_path: Path) -> None:
    _long(tmp_path / "straight", make_tiny_model()).train()
    with pytest.raises(KeyboardInterrupt):
        _long(tmp_path / "broken", make_tiny_model(), callbacks=[_stop_after(5)]).train()
    _long(tmp_path / "broken", make_tiny_model()).train(resume_from_checkpoint=True)
    straight, broken = (
        [(m["step"], m["loss"]) for m in read_metrics(tmp_path / n / METRICS_FILE) if "loss" in m]
        for n in ("straight", "broken")
    )
    assert broken == straight
    assert [s for s, _ in broken] == [1, 2, 3, 4, 5, 6]


def test_the_objective_adds_its_numbers(tmp_path: Path) -> None:
    _, told = _step(tmp_path, Dpo(), per_device_train_batch_size=4)
    assert told["rewards/margins"] == pytest.approx(0.0, abs=1e-4)
    _, told = _step(tmp_path, Grpo(kl_coef=0.1), per_device_train_batch_size=4)
    assert {"ratio/mean", "clip_ratio/low", "clip_ratio/high", "kl"} <= told.keys()


def test_held_out_examples_are_measured_and_not_trained_on(tmp_path: Path) -> None:
    """The step does not move (rate 0), so the loss held out is that of training on the same."""
    model = make_tiny_model()
    pairs = examples_of(Dpo(beta=2.0, nll_weight=1.0), model)
    options = arguments(
        tmp_path,
        learning_rate=0.0,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        eval_strategy="steps",
        eval_steps=1,
    )
    before = weights_of(model)
    make_trainer(model, pairs, Dpo(nll_weight=1.0), options, held_out=pairs).train()
    told, held, *_ = read_metrics(tmp_path / METRICS_FILE)
    assert held["eval_loss"] == pytest.approx(told["loss"], rel=1e-5)
    assert {"eval_rewards/margins", "eval_rewards/accuracies"} <= held.keys()
    assert "rewards/margins" in told
    assert torch.equal(before, weights_of(model))


@pytest.mark.parametrize("changes", [{"bf16": True}, {"gradient_checkpointing": True}])
def test_bf16_and_checkpointing_train_alike(tmp_path: Path, changes: dict[str, Any]) -> None:
    plain, told = _step(tmp_path / "plain", Sft(), per_device_train_batch_size=8)
    other, also = _step(tmp_path / "other", Sft(), per_device_train_batch_size=8, **changes)
    assert also["loss"] == pytest.approx(told["loss"], rel=1e-2)
    assert torch.nn.functional.cosine_similarity(plain, other, dim=0).item() > 0.999


def test_adapters_train_and_leave_the_model_as_it_was(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    model = make_tiny_model()
    before = weights_of(model)
    adapted = with_lora(model, Lora(rank=4, alpha=8))
    make_trainer(
        adapted, examples_of(Sft(), model), Sft(), arguments(tmp_path, max_steps=3, learning_rate=5)
    ).train()
    after = {n: p.detach() for n, p in adapted.named_parameters()}
    frozen = torch.cat([p.flatten() for n, p in after.items() if "lora" not in n])
    assert torch.equal(frozen, before)
    assert max(p.abs().max().item() for n, p in after.items() if "lora_B" in n) > 0


def test_a_loss_that_is_no_number_stops_the_run_with_advice(tmp_path: Path) -> None:
    model = make_tiny_model()
    with torch.no_grad():
        model.lm_head.weight[20:].fill_(float("nan"))
    trainer = make_trainer(model, examples_of(Sft(), make_tiny_model()), Sft(), arguments(tmp_path))
    with pytest.raises(TrainingError, match=r"the loss is nan at step 0\. .*learning rate"):
        trainer.train()


def test_a_gradient_that_is_no_number_stops_before_the_weights_move(tmp_path: Path) -> None:
    model = make_tiny_model()
    trainer = make_trainer(model, examples_of(Sft(), model), Sft(), arguments(tmp_path))
    before = weights_of(model)
    model.lm_head.weight.register_hook(lambda g: g * float("inf"))
    with pytest.raises(TrainingError, match=r"norm of the gradient is (nan|inf)"):
        trainer.train()
    assert torch.equal(before, weights_of(model))


def test_a_full_device_is_told_with_advice(tmp_path: Path) -> None:
    model = make_tiny_model()

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    trainer = make_trainer(model, examples_of(Sft(), model), Sft(), arguments(tmp_path))
    model.lm_head.register_forward_hook(full)
    with pytest.raises(TrainingError, match=r"out of memory at step 0 .*gradient_checkpointing"):
        trainer.train()


def test_rows_that_lack_what_the_objective_needs_are_named(tmp_path: Path, tiny_model: Any) -> None:
    rows = [row(6, seed=1, advantage=1.0), row(6, seed=2, advantage=1.0)]
    with pytest.raises(TrainingError, match=r"2 rows have no old_logprobs, .* run-1.*snapshot"):
        make_trainer(tiny_model, rows, Grpo(), arguments(tmp_path))
    with pytest.raises(TrainingError, match="nothing to train on"):
        make_trainer(tiny_model, [], Sft(), arguments(tmp_path))


def test_processes_are_filled_up_with_rows_of_no_weight() -> None:
    rows = [row(6, seed=i) for i in range(3)]
    made = filled(rows, 4)
    assert [r.weight for r in made] == [1, 1, 1, 0]
    assert filled(rows, 3) == rows


def test_there_is_one_subclass() -> None:
    assert trainer_class() is trainer_class()
    assert issubclass(trainer_class(), transformers.Trainer)
