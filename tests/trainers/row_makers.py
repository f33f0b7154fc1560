"""Small rows of random tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trajstore.trainers.rows import TokenRow

np = pytest.importorskip("numpy")


def row(
    length: int,
    seed: int,
    *,
    actions: Sequence[int] | None = None,
    temperature: float | None = None,
    weight: float = 1.0,
    old: bool = False,
    advantage: float | None = None,
) -> TokenRow:
    """A row whose actions are the given places, or a random half from the second token on."""
    draw = np.random.default_rng(seed)
    mask = draw.random(length) < 0.5
    mask[0], mask[-1] = False, True
    if actions is not None:
        mask[:] = False
        mask[list(actions)] = True
    ids = draw.integers(16, 600, length)
    return TokenRow(
        token_ids=ids,
        action_mask=mask,
        trajectory_id=f"run-{seed}",
        step_from=0,
        step_to=0,
        temperature=temperature,
        weight=weight,
        old_logprobs=np.where(mask, -5.0, 0.0).astype(np.float32) if old else None,
        advantages=None if advantage is None else np.where(mask, advantage, 0).astype(np.float32),
    )
