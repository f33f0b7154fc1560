"""Log-probabilities of action tokens under a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from trajstore._optional import require
from trajstore.trainers.collate import collate
from trajstore.trainers.rows import TokenRow

if TYPE_CHECKING:
    from torch import Tensor

    from trajstore.trainers.rows import FloatArray

TOKENS_AT_ONCE = 16_384
"""Padded tokens of a batch that is scored without gradient."""


def token_logprobs(model: Any, batch: Mapping[str, Tensor]) -> Tensor:
    """(B, T) log-probability of each action token given those before it, 0 elsewhere; float32.

    The output layer runs only where some row of the batch predicts an action token, so the logits
    take memory by action tokens, not by context. Logits are divided by the temperature that the
    row was sampled at.

    Args:
        model: a causal language model of transformers, wrapped or not.
        batch: of :func:`trajstore.trainers.collate.collate`.
    """
    mask, ids = batch["action_mask"], batch["input_ids"]
    places = mask[:, 1:].any(0).nonzero().squeeze(-1)
    logits = model(
        input_ids=ids,
        attention_mask=batch["attention_mask"],
        logits_to_keep=places,
        use_cache=False,
    ).logits.float()
    temperatures = batch["temperatures"]
    if bool((temperatures != 1).any()):
        logits = logits / temperatures[:, None, None]
    wanted = ids[:, places + 1].unsqueeze(-1)
    found = logits.gather(-1, wanted).squeeze(-1) - logits.logsumexp(-1)
    found = found.masked_fill(~mask[:, places + 1], 0.0)
    return found.new_zeros(ids.shape).index_copy(1, places + 1, found)


def score(
    model: Any, rows: Sequence[TokenRow], *, tokens_at_once: int = TOKENS_AT_ONCE
) -> list[FloatArray]:
    """(T,) log-probabilities of each row, without gradient and without dropout.

    Args:
        model: a causal language model of transformers.
        rows: what to score.
        tokens_at_once: padded tokens of a batch; rows of like length go together.
    """
    torch = require("torch", extra="train", purpose="Training")
    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].token_ids))
    made: dict[int, FloatArray] = {}
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for part in _parts(order, rows, tokens_at_once):
                batch = {k: v.to(device) for k, v in collate([rows[i] for i in part]).items()}
                found = token_logprobs(model, batch).cpu().numpy()
                made |= {i: found[n, : len(rows[i].token_ids)] for n, i in enumerate(part)}
    finally:
        model.train(was_training)
    return [made[i] for i in range(len(rows))]


def _parts(order: Sequence[int], rows: Sequence[TokenRow], most: int) -> list[list[int]]:
    """Rows in order of length, cut where the padded batch would hold too many tokens."""
    parts: list[list[int]] = []
    for i in order:
        if parts and (len(parts[-1]) + 1) * len(rows[i].token_ids) <= most:
            parts[-1].append(i)
        else:
            parts.append([i])
    return parts


def with_logprobs(
    rows: Sequence[TokenRow],
    model: Any,
    name: Literal["ref_logprobs", "snapshot_logprobs", "old_logprobs"],
    *,
    bare: bool = True,
    tokens_at_once: int = TOKENS_AT_ONCE,
) -> list[TokenRow]:
    """The rows with their log-probabilities under a model.

    Args:
        rows: what to score.
        model: the policy, or the reference.
        name: which column they become.
        bare: for ``ref_logprobs`` of a model with LoRA adapters, take the model without them. False
            where the reference is the policy as it was, adapters and all.
        tokens_at_once: see :func:`score`.
    """
    without = bare and name == "ref_logprobs" and hasattr(model, "disable_adapter")
    with model.disable_adapter() if without else nullcontext():
        found = score(model, rows, tokens_at_once=tokens_at_once)
    made: list[dict[str, Any]] = [{name: values} for values in found]
    return [replace(row, **values) for row, values in zip(rows, made, strict=True)]
