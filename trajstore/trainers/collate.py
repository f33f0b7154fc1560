"""Rows of different lengths to one batch of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trajstore._optional import require
from trajstore.errors import TrainingError
from trajstore.trainers.rows import TokenRow

if TYPE_CHECKING:
    from torch import Tensor

NUMBERS = ("old_logprobs", "snapshot_logprobs", "ref_logprobs", "advantages")
"""What a row may have beside its tokens; each is in a batch only if every row has it."""


def collate(rows: Sequence[TokenRow], *, pad_token_id: int = 0) -> dict[str, Tensor]:
    """A batch of B rows, padded on the right to the longest of them, T.

    Padding is told by ``attention_mask`` and never inferred from ids, as many models pad with
    their end-of-turn token.

    Args:
        rows: at least one.
        pad_token_id: what stands in the padding.

    Returns:
        ``input_ids``, ``attention_mask`` (1 on real tokens), ``action_mask`` (bool), all (B, T);
        ``temperatures`` and ``weights`` (B,); and those of :data:`NUMBERS` that all rows have.
    """
    torch = require("torch", extra="train", purpose="Training")
    if not rows:
        raise TrainingError("a batch needs at least one row")
    length = max(len(r.token_ids) for r in rows)

    def padded(name: str, fill: float, kind: Any) -> Tensor:
        made = torch.full((len(rows), length), fill, dtype=kind)
        for place, row in enumerate(rows):
            values = torch.as_tensor(getattr(row, name))
            made[place, : len(values)] = values
        return made

    batch = {
        "input_ids": padded("token_ids", pad_token_id, torch.long),
        "action_mask": padded("action_mask", 0, torch.bool),
        "attention_mask": torch.zeros((len(rows), length), dtype=torch.long),
        "weights": torch.tensor([r.weight for r in rows], dtype=torch.float32),
        "temperatures": torch.tensor([r.temperature or 1.0 for r in rows], dtype=torch.float32),
    }
    for place, row in enumerate(rows):
        batch["attention_mask"][place, : len(row.token_ids)] = 1
    for name in NUMBERS:
        if all(getattr(r, name) is not None for r in rows):
            batch[name] = padded(name, 0.0, torch.float32)
    return batch
