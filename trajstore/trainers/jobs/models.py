"""Models, tokenizers and templates as a job's file names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trajstore._optional import require
from trajstore.errors import TrainingError
from trajstore.rollouts.templates import BARE, CHATML, ChatTemplate, template_of
from trajstore.trainers.jobs.config import ModelTable, TemplateName
from trajstore.trainers.trainer import with_lora

_ADAPTER = "adapter_config.json"


def quiet_transformers() -> Any:
    """The package transformers, without progress bars and remarks of its own."""
    transformers = require("transformers", extra="train", purpose="Training")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    return transformers


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder.

    Raises:
        TrainingError: there is none.
    """
    transformers = quiet_transformers()
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise TrainingError(
            f"{folder} has no tokenizer that loads: {error}", path=folder
        ) from error


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
    adapter = checkpoint is not None and (checkpoint / _ADAPTER).is_file()
    model = _whole(base if adapter or checkpoint is None else checkpoint, table)
    if adapter:
        peft = require("peft", extra="train", purpose="Training adapters")
        model = peft.PeftModel.from_pretrained(model, checkpoint, is_trainable=True)
    elif table.lora is not None:
        model = with_lora(model, table.lora)
    if table.gradient_checkpointing and hasattr(model, "enable_input_require_grads"):
        model.enable_input_require_grads()
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def _whole(folder: Path, table: ModelTable) -> Any:
    torch = require("torch", extra="train", purpose="Training")
    transformers = quiet_transformers()
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, table.dtype), local_files_only=True
        )
    except (OSError, ValueError) as error:
        message = f"{folder} has no model that loads: {error}"
        raise TrainingError(message, path=folder) from error
