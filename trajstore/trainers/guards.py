"""What stops a run that has gone wrong, and what to do then."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from trajstore._optional import require
from trajstore.errors import TrainingError

NAN_ADVICE = (
    "The weights are those before this step; an earlier one may have ruined them already. Lower "
    "the learning rate, add warm-up, or clip gradients harder (max_grad_norm), and start anew "
    "(--fresh); train in float32 or bfloat16, not float16; look for stored log-probabilities of "
    "other tokens or another temperature"
)
"""For a loss or gradient that is no number."""

MEMORY_ADVICE = (
    "Halve batch_size (per_device_train_batch_size of transformers) and double accumulation "
    "(gradient_accumulation_steps), which trains the same; turn gradient_checkpointing on; use "
    "LoRA; lower max_tokens of the rows"
)
"""For a device that is full."""


def check_finite(value: float, what: str, step: int) -> None:
    """Stop where a number is none.

    Args:
        value: the loss, or the norm of the gradient.
        what: its name.
        step: the optimiser's step, for the message.

    Raises:
        TrainingError: it is NaN or infinite.
    """
    if not math.isfinite(value):
        raise TrainingError(f"{what} is {value} at step {step}. {NAN_ADVICE}.")


@contextmanager
def memory_guard(step: int, tokens: int) -> Iterator[None]:
    """Turn an out-of-memory error into one that says what to do.

    Args:
        step: the optimiser's step.
        tokens: padded tokens of the batch.

    Raises:
        TrainingError: the device was full.
    """
    torch = require("torch", extra="train", purpose="Training")
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise TrainingError(_full(step, tokens)) from error
    except RuntimeError as error:
        if "can't allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        raise TrainingError(_full(step, tokens)) from error


def _full(step: int, tokens: int) -> str:
    return f"out of memory at step {step} on a batch of {tokens:,} tokens. {MEMORY_ADVICE}."
