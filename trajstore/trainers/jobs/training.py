"""One round of gradient steps in a folder of its own, which goes on where it was killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from trajstore._optional import require
from trajstore.trainers.jobs.config import TrainingTable
from trajstore.trainers.jobs.processes import ALONE, Processes
from trajstore.trainers.jobs.state import write_json
from trajstore.trainers.objectives import Objective
from trajstore.trainers.trainer import make_trainer

DONE_FILE = "trained.json"
"""Stands in the folder of a round that has ended; written last."""

Shown = Callable[[int, int, Mapping[str, float]], None]
"""Told how many of how many steps are done, and the newest numbers."""


def train_in(  # noqa: PLR0913 - each option is a word of its own
    folder: Path,
    make_model: Callable[[], Any],
    examples: Sequence[Any],
    objective: Objective,
    arguments: Mapping[str, Any],
    *,
    tokenizer: Any,
    events: Path | None = None,
    shown: Shown | None = None,
    processes: Processes = ALONE,
) -> Path:
    """Train, and leave the model and its tokenizer in the folder.

    A round that has ended is not repeated. One that was killed goes on from its last whole
    checkpoint, to the very weights that it would have had.

    Args:
        folder: of the round; what it logs is in its ``metrics.jsonl``.
        make_model: gives the model to start from; called only if there is something to do.
        examples: what the objective takes.
        objective: what to minimise.
        arguments: for ``transformers.TrainingArguments``; see :func:`arguments_of`.
        tokenizer: saved beside the model.
        events: where TensorBoard finds its events; none are written where None.
        shown: told of each step.
        processes: that train together; the first one writes.

    Returns:
        The folder.

    Raises:
        TrainingError: examples lack what the objective needs, the loss is no number, or memory
            is full; the message has advice.
    """
    done, last = processes.once(lambda: _begun(folder))
    if done:
        return folder
    transformers = require("transformers", extra="train", purpose="Training")
    callbacks = [] if shown is None else [_shown_class()(shown)]
    if events is not None and processes.first:
        callbacks.append(_tensorboard(events, last))
    trainer = make_trainer(
        make_model(),
        examples,
        objective,
        transformers.TrainingArguments(output_dir=str(folder), **arguments),
        pad_token_id=tokenizer.pad_token_id or 0,
        callbacks=callbacks,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    trainer.save_model(str(folder))
    if processes.first:
        tokenizer.save_pretrained(folder)
        numbers = {"steps": trainer.state.global_step, "examples": len(examples)}
        write_json(folder / DONE_FILE, numbers)
        _without_checkpoints(folder)
    processes.wait()
    return folder


def _begun(folder: Path) -> tuple[bool, Path | None]:
    """Whether a round has ended; else the checkpoint to go on from, where there is one."""
    if (folder / DONE_FILE).is_file():
        _without_checkpoints(folder)
        return True, None
    return False, _last_whole(folder)


def arguments_of(
    table: TrainingTable,
    *,
    seed: int,
    gradient_checkpointing: bool,
    epochs: float | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
) -> dict[str, Any]:
    """Arguments of transformers for a table; the last three override it."""
    torch = require("torch", extra="train", purpose="Training")
    gpu = torch.cuda.is_available()
    if steps is None and epochs is None:
        steps, epochs = table.steps, table.epochs
    bf16 = table.bf16 if table.bf16 is not None else gpu and torch.cuda.is_bf16_supported()
    return {
        "learning_rate": table.learning_rate if learning_rate is None else learning_rate,
        "max_steps": -1 if steps is None else steps,
        "num_train_epochs": 1.0 if epochs is None else epochs,
        "per_device_train_batch_size": table.batch_size,
        "gradient_accumulation_steps": table.accumulation,
        "warmup_steps": table.warmup,
        "lr_scheduler_type": _SCHEDULES[table.schedule],
        "weight_decay": table.weight_decay,
        "max_grad_norm": table.max_grad_norm,
        "save_steps": table.save_steps,
        "save_total_limit": 2,
        "logging_steps": table.logging_steps,
        "bf16": bf16,
        **(_checkpointing() if gradient_checkpointing else {}),
        "seed": seed,
        "data_seed": seed,
        "use_cpu": not gpu,
        "dataloader_pin_memory": gpu,
        "disable_tqdm": True,
        "report_to": [],
    }


def _checkpointing() -> dict[str, Any]:
    """The option under the name that this transformers has for it."""
    known = require("transformers", extra="train", purpose="Training").TrainingArguments
    new = "activation_checkpointing"
    name = new if new in known.__dataclass_fields__ else "gradient_checkpointing"
    return {name: True, f"{name}_kwargs": {"use_reentrant": False}}


_SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}


def _last_whole(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end; broken ones are removed."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda p: int(p.name.rpartition("-")[2]))
    whole = []
    for path in found:
        if _whole(path):
            whole.append(path)
        else:
            shutil.rmtree(path)
    return whole[-1] if whole else None


def _whole(path: Path) -> bool:
    """Whether the file that the trainer writes last is there and can be read."""
    try:
        json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _without_checkpoints(folder: Path) -> None:
    for path in folder.glob("checkpoint-*"):
        shutil.rmtree(path)


def events_writer(folder: Path, step: int | None) -> Any:
    """A writer of TensorBoard's events; those from ``step`` on are written anew."""
    module = require("torch.utils.tensorboard", extra="train", purpose="Events for TensorBoard")
    return module.SummaryWriter(log_dir=str(folder), purge_step=step)


def _tensorboard(events: Path, last: Path | None) -> Any:
    module = require("transformers.integrations", extra="train", purpose="Events for TensorBoard")
    step = None if last is None else int(last.name.rpartition("-")[2]) + 1
    return module.TensorBoardCallback(tb_writer=events_writer(events, step))


class _Shown:
    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._numbers: dict[str, float] = {}

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Keep the newest numbers."""
        del args, state, control
        self._numbers |= {k: v for k, v in (logs or {}).items() if isinstance(v, int | float)}

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Tell."""
        del args, control
        self._shown(state.global_step, state.max_steps, dict(self._numbers))


@cache
def _shown_class() -> type[Any]:
    base = require("transformers", extra="train", purpose="Training").TrainerCallback
    return type("ShownCallback", (_Shown, base), {})
