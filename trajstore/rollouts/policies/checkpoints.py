"""Folders of models: whole weights, or an adapter over the model that it names."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from trajstore._optional import require
from trajstore.errors import TrainingError

_ADAPTER = "adapter_config.json"


def holds_weights(folder: Path) -> bool:
    """Whether it is a folder of a model, whole or an adapter."""
    return holds_adapter(folder) or (folder / "config.json").is_file()


def holds_adapter(folder: Path) -> bool:
    """Whether it holds an adapter, not whole weights."""
    return (folder / _ADAPTER).is_file()


def adapter_base(folder: Path) -> Path:
    """The folder of the model that an adapter was trained over, as the adapter says.

    Args:
        folder: of the adapter.

    Raises:
        TrainingError: there is no such folder.
    """
    file = folder / _ADAPTER
    try:
        told = json.loads(file.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise TrainingError(f"{file} cannot be read: {error}", path=folder) from error
    base = Path(str(told))
    if not told or base.resolve() == folder.resolve() or not holds_weights(base):
        message = (
            f"{folder} holds an adapter over {told}, where there is no model now; write the folder "
            f"of that model into base_model_name_or_path of {file}"
        )
        raise TrainingError(message, path=folder)
    return base


def load_causal(folder: Path, *, dtype: Any = "auto") -> Any:
    """The causal language model of a folder; an adapter is merged into its base.

    Args:
        folder: of ``save_pretrained``, or of a training job.
        dtype: of the weights, as transformers takes it.

    Raises:
        TrainingError: there is no model that loads.
    """
    purpose = "Loading a model"
    if holds_adapter(folder):
        whole = load_causal(adapter_base(folder), dtype=dtype)
        peft = require("peft", extra="train", purpose=purpose)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return peft.PeftModel.from_pretrained(whole, str(folder)).merge_and_unload()
    transformers = require("transformers", extra="train", purpose=purpose)
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder.resolve(), dtype=dtype, local_files_only=True
        )
    except (OSError, ValueError) as error:
        message = f"{folder} has no model that loads: {error}"
        raise TrainingError(message, path=folder) from error


def load_words(folder: Path) -> Any:
    """The tokenizer of a folder; of an adapter without one, that of its base.

    Args:
        folder: of a model or an adapter.

    Raises:
        TrainingError: there is none that loads.
    """
    transformers = require("transformers", extra="train", purpose="Reading a tokenizer")
    if holds_adapter(folder) and not any(folder.glob("tokenizer*")):
        folder = adapter_base(folder)
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise TrainingError(
            f"{folder} has no tokenizer that loads: {error}", path=folder
        ) from error
