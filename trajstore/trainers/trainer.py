"""One trainer for every objective: ``transformers.Trainer`` over canonical rows.

What it adds to its base: the objective's loss, divided by what all accumulated batches of all
processes hold together; guards; metrics as JSON lines. Devices, accumulation, mixed precision,
checkpoints, FSDP and DeepSpeed are the base's, by ``TrainingArguments``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trajstore._optional import require
from trajstore.errors import TrainingError
from trajstore.trainers.guards import check_finite, memory_guard
from trajstore.trainers.logprobs import token_logprobs
from trajstore.trainers.metrics import metrics_callback
from trajstore.trainers.objectives import Judged, Objective, Pair, check_examples
from trajstore.trainers.rows import TokenRow

if TYPE_CHECKING:
    from torch import Tensor

METRICS_FILE = "metrics.jsonl"
"""Name of the metrics in the output folder: one JSON object a line, with ``step``."""

_FIXED: Mapping[str, Any] = {
    "remove_unused_columns": False,
    "label_names": [],
    "logging_nan_inf_filter": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters instead of all weights (Hu et al. 2021, 2106.09685)."""

    rank: int = 16
    """Rank of each adapter."""
    alpha: int = 32
    """Scale; the update is multiplied by alpha / rank."""
    dropout: float = 0.0
    """Dropout before the adapter. Above 0 the policy in training is not the one that samples."""
    targets: str | tuple[str, ...] = "all-linear"
    """Names of layers; all linear ones but the output layer."""


def with_lora(model: Any, lora: Lora) -> Any:
    """The model with adapters; its own weights are frozen.

    Args:
        model: a causal language model of transformers.
        lora: what the adapters are.
    """
    peft = require("peft", extra="train", purpose="Training adapters")
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    return peft.get_peft_model(
        model,
        peft.LoraConfig(
            task_type="CAUSAL_LM",
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules=targets,
        ),
    )


def make_trainer(
    model: Any,
    examples: Sequence[TokenRow] | Sequence[Pair] | Sequence[Judged],
    objective: Objective,
    arguments: Any,
    *,
    held_out: Sequence[Any] | None = None,
    pad_token_id: int = 0,
    callbacks: Sequence[Any] = (),
) -> Any:
    """A ``transformers.Trainer`` that minimises an objective; ``metrics_file`` is where it logs.

    ``trainer.train()`` runs it, ``trainer.train(resume_from_checkpoint=True)`` goes on from the
    last checkpoint: optimiser, schedule, order of examples and random state are those that an
    uninterrupted run would have had.

    Args:
        model: a causal language model, with adapters or not.
        examples: what the objective takes: rows, :class:`Pair` or :class:`Judged`.
        objective: what to minimise.
        arguments: ``transformers.TrainingArguments``.
        held_out: examples that ``trainer.evaluate()`` measures, as often as the arguments say. Its
            loss is the mean over batches.
        pad_token_id: stands in the padding; masks decide, so any id will do.
        callbacks: further callbacks of transformers.

    Raises:
        TrainingError: rows lack what the objective needs, or the arguments ask for what it cannot
            keep: fp16 on a machine without a GPU, or several GPUs in one process.
    """
    check_examples(objective, examples)
    if held_out is not None:
        check_examples(objective, held_out)
    _check_arguments(arguments)
    arguments = replace_arguments(arguments)
    whole = arguments.world_size * arguments.per_device_train_batch_size
    file = Path(arguments.output_dir) / METRICS_FILE
    trainer = trainer_class()(
        model=model,
        args=arguments,
        train_dataset=filled(list(examples), whole if arguments.world_size > 1 else 1),
        eval_dataset=None if held_out is None else list(held_out),
        data_collator=partial(_collated, objective, pad_token_id),
        objective=objective,
        callbacks=[metrics_callback(file), *callbacks],
    )
    trainer.metrics_file = file
    return trainer


def _check_arguments(arguments: Any) -> None:
    if arguments.n_gpu > 1:
        raise TrainingError(
            f"one process sees {arguments.n_gpu} GPUs; start one for each with torchrun "
            f"--nproc_per_node {arguments.n_gpu}, or show it one with CUDA_VISIBLE_DEVICES"
        )
    if arguments.fp16 and arguments.n_gpu == 0:
        raise TrainingError("fp16 needs a GPU; use bf16, or float32 (neither)")


def replace_arguments(arguments: Any) -> Any:
    """The arguments with what this trainer needs: whole rows, and a loss that is what it is."""
    for name, value in _FIXED.items():
        setattr(arguments, name, value)
    return arguments


def filled(examples: list[Any], multiple: int) -> list[Any]:
    """Examples, filled up with copies of weight 0 so that processes get equally many.

    Otherwise accelerate repeats real ones, which would count twice.
    """
    lacking = -len(examples) % multiple
    return examples + [_weightless(examples[i % len(examples)]) for i in range(lacking)]


def _weightless(example: Any) -> Any:
    if isinstance(example, TokenRow):
        return replace(example, weight=0.0)
    if isinstance(example, Pair):
        return Pair(
            chosen=replace(example.chosen, weight=0.0),
            rejected=replace(example.rejected, weight=0.0),
        )
    return Judged(row=replace(example.row, weight=0.0), desirable=example.desirable)


def _collated(objective: Objective, pad_token_id: int, examples: Sequence[Any]) -> dict[str, Any]:
    return objective.batch(examples, pad_token_id)


class MaskedLoss:
    """What :func:`trainer_class` puts before ``transformers.Trainer``."""

    def __init__(self, *args: Any, objective: Objective, **kwargs: Any) -> None:
        """Keep the objective; the rest is the base's."""
        super().__init__(*args, **kwargs)
        self.objective = objective
        self.loss_is_scaled_for_ga = True
        self._told: dict[str, dict[str, list[Tensor]]] = {"": {}, "eval_": {}}

    if TYPE_CHECKING:
        model: Any
        args: Any
        state: Any
        accelerator: Any
        compute_loss_context_manager: Any
        _prepare_inputs: Any

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: Any
    ) -> tuple[list[Any], Tensor | None]:
        """The batches of one step, and what they and those of other processes hold together."""
        batches = list(itertools.islice(epoch_iterator, num_batches))
        if not batches:
            return batches, None
        items = sum(self.objective.items(b) for b in batches).to(device)
        if self.args.world_size > 1:
            items = self.accelerator.reduce(items, reduction="sum")
        return batches, items

    def training_step(
        self, model: Any, inputs: dict[str, Any], num_items_in_batch: Tensor | None = None
    ) -> Tensor:
        """One forward and backward pass, guarded."""
        step = self.state.global_step
        with memory_guard(step, inputs["input_ids"].numel()):
            loss: Tensor = super().training_step(  # type: ignore[misc]
                model, inputs, num_items_in_batch
            )
        return loss

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,  # noqa: FBT001, FBT002 - the base's signature
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        """The objective's loss, times the number of processes that gradients are averaged over."""
        items = num_items_in_batch
        if items is None:
            items = self.objective.items(inputs)
        loss, told = self.objective.loss(inputs, token_logprobs(model, inputs), items)
        check_finite(loss.item(), "the loss", self.state.global_step)
        kept = self._told["" if model.training else "eval_"]
        for name, value in told.items():
            kept.setdefault(name, []).append(value)
        if num_items_in_batch is not None:
            loss = loss * self.args.world_size
        return (loss, {}) if return_outputs else loss

    def prediction_step(
        self,
        model: Any,
        inputs: dict[str, Any],
        prediction_loss_only: bool,  # noqa: FBT001 - the base's signature
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor, None, None]:
        """The loss of a batch that is not trained on."""
        del prediction_loss_only, ignore_keys
        torch = require("torch", extra="train", purpose="Training")
        with torch.no_grad(), self.compute_loss_context_manager():
            loss: Tensor = self.compute_loss(model, self._prepare_inputs(inputs))
        return loss.detach(), None, None

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The norm of the gradient, checked before the weights move."""
        found = super()._get_grad_norm(model, grad_norm=grad_norm)  # type: ignore[misc]
        if found is not None:
            check_finite(float(found), "the norm of the gradient", self.state.global_step)
        return found

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the objective's numbers, means over the batches of this process since the last."""
        prefix = "eval_" if any(name.startswith("eval_") for name in logs) else ""
        for name, values in self._told[prefix].items():
            logs[prefix + name] = float(sum(v.item() for v in values) / len(values))
        self._told[prefix].clear()
        super().log(logs, start_time)  # type: ignore[misc]


@cache
def trainer_class() -> type[Any]:
    """The subclass of ``transformers.Trainer``."""
    base = require("transformers", extra="train", purpose="Training").Trainer
    require("accelerate", extra="train", purpose="Training")
    return type("TrajectoryTrainer", (MaskedLoss, base), {})
