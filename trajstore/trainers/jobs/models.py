"""Models, tokenizers and templates as a job's file names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trajstore._optional import require
from trajstore.rollouts.policies.checkpoints import holds_adapter, load_causal, load_words
from trajstore.rollouts.templates import BARE, CHATML, ChatTemplate, template_of
from trajstore.trainers.jobs.config import ModelTable, TemplateName
from trajstore.trainers.trainer import with_lora


def quiet_transformers() -> Any:
    """The package transformers, without progress bars and remarks of its own."""
    transformers = require("transformers", extra="train", purpose="Training")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    return transformers


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder of whole weights, or of an adapter.

    Raises:
        TrainingError: there is none.
    """
    quiet_transformers()
    return load_words(folder)


def load_template(name: TemplateName, tokenizer: Any) -> ChatTemplate:
    """The template of a name; ``own`` is the tokenizer's."""
    if name == "own":
        return template_of(tokenizer)
    return CHATML if name == "chatml-tools" else BARE


def load_model(table: ModelTable, base: Path, checkpoint: Path | None, *, seed: int) -> Any:
    """The model to train: the base or a checkpoint, with adapters where the file asks for them.

    Args:
        table: how.
        base: folder of the weights that the job starts from.
        checkpoint: folder of whole weights or of an adapter over ``base``; None is the base.
        seed: of what is drawn, such as new adapters.

    Raises:
        TrainingError: there is no model that loads.
    """
    torch = require("torch", extra="train", purpose="Training")
    torch.manual_seed(seed)
    adapter = checkpoint is not None and holds_adapter(checkpoint)
    model = _whole(base if adapter or checkpoint is None else checkpoint, table)
    if adapter:
        peft = require("peft", extra="train", purpose="Training adapters")
        model = peft.PeftModel.from_pretrained(model, checkpoint, is_trainable=True)
    elif table.lora is not None:
        model = with_lora(model, table.lora)
    if table.gradient_checkpointing and hasattr(model, "enable_input_require_grads"):
        model.enable_input_require_grads()
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def merge(table: ModelTable, adapter: Path, to: Path) -> None:
    """Write an adapter and its base as one model of whole weights, with the tokenizer.

    Args:
        table: how weights are kept.
        adapter: folder of the adapter.
        to: where to.

    Raises:
        TrainingError: the base is not there, or does not load.
    """
    _whole(adapter, table).save_pretrained(to)
    load_tokenizer(adapter).save_pretrained(to)


def _whole(folder: Path, table: ModelTable) -> Any:
    torch = require("torch", extra="train", purpose="Training")
    quiet_transformers()
    return load_causal(folder, dtype=getattr(torch, table.dtype))
