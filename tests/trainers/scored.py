"""Random batches for losses."""

from __future__ import annotations

from typing import Any

from trajstore.trainers.losses import Scored


def batch(torch: Any, rows: int = 4, length: int = 7, seed: int = 0) -> dict[str, Any]:
    """Log-probabilities under four policies, a mask with holes, and advantages; float64."""
    draw = torch.Generator().manual_seed(seed)

    def logprobs() -> Any:
        return -torch.rand(rows, length, generator=draw, dtype=torch.float64) * 3

    mask = torch.rand(rows, length, generator=draw) < 0.6
    mask[:, 0] = False
    mask[:, 1] = True
    return {
        "logprobs": logprobs().requires_grad_(),
        "mask": mask,
        "behaviour": logprobs(),
        "snapshot": logprobs(),
        "reference": logprobs(),
        "advantages": torch.randn(rows, generator=draw, dtype=torch.float64),
    }


def scored(made: dict[str, Any], rows: slice = slice(None), **changes: Any) -> Scored:
    """The batch, or some of its rows, as losses take it."""
    names = ("logprobs", "mask", "behaviour", "snapshot", "reference")
    return Scored(**{**{n: made[n][rows] for n in names}, **changes})
