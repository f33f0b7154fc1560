"""What a trainer minimises: a loss, what it divides by, what it logs, and what its examples are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from trajstore._optional import require
from trajstore.errors import TrainingError
from trajstore.trainers.collate import collate
from trajstore.trainers.losses import (
    Aggregation,
    DpoVariant,
    Ratio,
    Scored,
    dpo_loss,
    grpo_loss,
    importance,
    k3,
    kto_loss,
    log_ratios,
    policy_items,
    reinforce_loss,
    row_items,
    sft_loss,
    token_items,
)
from trajstore.trainers.rows import TokenRow

if TYPE_CHECKING:
    from torch import Tensor

Batch = Mapping[str, Any]
Metrics = dict[str, "Tensor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An example of DPO."""

    chosen: TokenRow
    """The better row; its weight is that of the pair."""
    rejected: TokenRow
    """The worse one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An example of KTO."""

    row: TokenRow
    """What was done."""
    desirable: bool
    """Whether it is good."""


class Objective(Protocol):
    """What to minimise."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the numbers that every row must have."""

    def rows(self, example: Any) -> tuple[TokenRow, ...]:
        """The rows of one example."""

    def batch(self, examples: Sequence[Any], pad_token_id: int) -> dict[str, Any]:
        """One batch of tensors; see :func:`trajstore.trainers.collate.collate`."""

    def items(self, batch: Batch) -> Tensor:
        """(k,) what the loss divides by, to be summed over batches and processes."""

    def loss(self, batch: Batch, logprobs: Tensor, items: Tensor) -> tuple[Tensor, Metrics]:
        """The loss of a batch, and numbers to log.

        Args:
            batch: of :meth:`batch`.
            logprobs: (B, T) under the policy in training.
            items: of :meth:`items`, summed over everything that is accumulated.
        """


def scored(batch: Batch, logprobs: Tensor, rows: slice = slice(None)) -> Scored:
    """The batch, or some rows of it, as losses take it."""

    def part(name: str) -> Tensor | None:
        return batch[name][rows] if name in batch else None

    return Scored(
        logprobs=logprobs[rows],
        mask=batch["action_mask"][rows],
        behaviour=part("old_logprobs"),
        snapshot=part("snapshot_logprobs"),
        reference=part("ref_logprobs"),
        weights=batch["weights"][rows],
    )


class _Rows:
    """Examples that are rows."""

    __slots__ = ()

    def rows(self, example: TokenRow) -> tuple[TokenRow, ...]:
        """The row."""
        return (example,)

    def batch(self, examples: Sequence[TokenRow], pad_token_id: int) -> dict[str, Any]:
        """The rows."""
        return collate(examples, pad_token_id=pad_token_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sft(_Rows):
    """Supervised fine-tuning: :func:`trajstore.trainers.losses.sft_loss`."""

    needs: ClassVar[tuple[str, ...]] = ()

    def items(self, batch: Batch) -> Tensor:
        """Action tokens."""
        return token_items(_counted(batch)).reshape(1)

    def loss(self, batch: Batch, logprobs: Tensor, items: Tensor) -> tuple[Tensor, Metrics]:
        """The loss; nothing else is logged."""
        return sft_loss(scored(batch, logprobs), items=items[0]), {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dpo:
    """Preference pairs: :func:`trajstore.trainers.losses.dpo_loss`."""

    beta: float = 0.1
    """Pull to the reference."""
    variant: DpoVariant = "sigmoid"
    """Form of the loss."""
    nll_weight: float = 0.0
    """Share of the chosen rows' likelihood."""
    needs: ClassVar[tuple[str, ...]] = ("ref_logprobs",)

    def rows(self, example: Pair) -> tuple[TokenRow, ...]:
        """Chosen, rejected."""
        return (example.chosen, example.rejected)

    def batch(self, examples: Sequence[Pair], pad_token_id: int) -> dict[str, Any]:
        """Rows of all chosen, then all rejected."""
        sides = [e.chosen for e in examples] + [e.rejected for e in examples]
        return collate(sides, pad_token_id=pad_token_id)

    def items(self, batch: Batch) -> Tensor:
        """Pairs, and action tokens of the chosen."""
        torch = require("torch", extra="train", purpose="Training")
        counted = _counted(batch)
        half = counted.mask.shape[0] // 2
        chosen = replace(
            counted,
            logprobs=counted.logprobs[:half],
            mask=counted.mask[:half],
            weights=batch["weights"][:half],
        )
        made: Tensor = torch.stack([row_items(chosen), token_items(chosen)])
        return made

    def loss(self, batch: Batch, logprobs: Tensor, items: Tensor) -> tuple[Tensor, Metrics]:
        """The loss, with TRL's names for rewards: beta times the log ratio of each side."""
        half = logprobs.shape[0] // 2
        chosen = scored(batch, logprobs, slice(None, half))
        rejected = scored(batch, logprobs, slice(half, None))
        loss = dpo_loss(
            chosen,
            rejected,
            beta=self.beta,
            variant=self.variant,
            nll_weight=self.nll_weight,
            items=(items[0], items[1]),
        )
        good = self.beta * log_ratios(chosen).detach()
        bad = self.beta * log_ratios(rejected).detach()
        return loss, {
            "rewards/chosen": good.mean(),
            "rewards/rejected": bad.mean(),
            "rewards/margins": (good - bad).mean(),
            "rewards/accuracies": (good > bad).float().mean(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Kto:
    """Rows judged one by one: :func:`trajstore.trainers.losses.kto_loss` with z = 0.

    The estimate of z needs rows whose completion belongs to another prompt, which for a run of
    many turns is text that no environment could have answered. With z = 0 this is TRL's
    ``apo_zero_unpaired`` (D'Oosterlinck et al. 2024, 2408.06266).
    """

    beta: float = 0.1
    """Pull to the reference."""
    desirable_weight: float = 1.0
    """Share of good rows."""
    undesirable_weight: float = 1.0
    """Share of bad rows."""
    needs: ClassVar[tuple[str, ...]] = ("ref_logprobs",)

    def rows(self, example: Judged) -> tuple[TokenRow, ...]:
        """The row."""
        return (example.row,)

    def batch(self, examples: Sequence[Judged], pad_token_id: int) -> dict[str, Any]:
        """The rows, and ``desirable`` (B,)."""
        torch = require("torch", extra="train", purpose="Training")
        made = collate([e.row for e in examples], pad_token_id=pad_token_id)
        return {**made, "desirable": torch.tensor([e.desirable for e in examples])}

    def items(self, batch: Batch) -> Tensor:
        """Rows."""
        return row_items(_counted(batch)).reshape(1)

    def loss(self, batch: Batch, logprobs: Tensor, items: Tensor) -> tuple[Tensor, Metrics]:
        """The loss and the mean log ratio."""
        told = scored(batch, logprobs)
        loss = kto_loss(
            told,
            batch["desirable"],
            beta=self.beta,
            desirable_weight=self.desirable_weight,
            undesirable_weight=self.undesirable_weight,
            items=items[0],
        )
        return loss, {"rewards/mean": self.beta * log_ratios(told).detach().mean()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grpo(_Rows):
    """Groups with advantages: :func:`trajstore.trainers.losses.grpo_loss`, which has the sources.

    PPO-clip over given advantages is this with ``aggregation='dapo'`` and ``kl_coef=0``.
    """

    aggregation: Aggregation = "dapo"
    """What the mean runs over."""
    clip_low: float = 0.2
    """How far below 1 the ratio may go."""
    clip_high: float = 0.2
    """How far above; DAPO takes 0.28."""
    kl_coef: float = 0.0
    """Share of the KL to the reference."""
    ratio: Ratio = "behaviour"
    """What the ratio is anchored at."""
    tis_cap: float = 2.0
    """Greatest correction in mode ``recomputed``."""
    max_tokens: int | None = None
    """Longest completion, for ``dr_grpo``."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Advantages, and the log-probabilities that the mode compares."""
        anchors = {
            "behaviour": ("old_logprobs",),
            "recomputed": ("old_logprobs", "snapshot_logprobs"),
            "snapshot": ("snapshot_logprobs",),
        }
        if self.ratio not in anchors:
            raise TrainingError(f"there is no ratio {self.ratio!r}; known are {', '.join(anchors)}")
        reference = ("ref_logprobs",) if self.kl_coef else ()
        return ("advantages", *anchors[self.ratio], *reference)

    def items(self, batch: Batch) -> Tensor:
        """Rows or tokens, as the aggregation says."""
        return policy_items(_counted(batch), self.aggregation, self.max_tokens).reshape(1)

    def loss(self, batch: Batch, logprobs: Tensor, items: Tensor) -> tuple[Tensor, Metrics]:
        """The loss, and how far the policy has moved from the one that is compared with."""
        told = scored(batch, logprobs)
        loss = grpo_loss(
            told,
            batch["advantages"],
            aggregation=self.aggregation,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            kl_coef=self.kl_coef,
            ratio=self.ratio,
            tis_cap=self.tis_cap,
            max_tokens=self.max_tokens,
            items=items[0],
        )
        return loss, self._metrics(told, batch["advantages"])

    def _metrics(self, told: Scored, advantages: Tensor) -> Metrics:
        ratio, _ = importance(told, self.ratio, self.tis_cap)
        ratio, count = ratio.detach(), told.mask.sum().clamp(min=1)
        low = (ratio < 1 - self.clip_low) & (advantages < 0) & told.mask
        high = (ratio > 1 + self.clip_high) & (advantages > 0) & told.mask
        found = {
            "ratio/mean": (ratio * told.mask).sum() / count,
            "clip_ratio/low": low.sum() / count,
            "clip_ratio/high": high.sum() / count,
        }
        if self.kl_coef:
            found["kl"] = (k3(told).detach() * told.mask).sum() / count
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinforce(_Rows):
    """Advantages without a clip: :func:`trajstore.trainers.losses.reinforce_loss`."""

    tis_cap: float | None = None
    """Greatest correction for stale data; None trusts that the policy in training sampled."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Advantages, and stored log-probabilities if they correct."""
        return ("advantages",) if self.tis_cap is None else ("advantages", "old_logprobs")

    def items(self, batch: Batch) -> Tensor:
        """Action tokens."""
        return token_items(_counted(batch)).reshape(1)

    def loss(self, batch: Batch, logprobs: Tensor, items: Tensor) -> tuple[Tensor, Metrics]:
        """The loss; nothing else is logged."""
        told = scored(batch, logprobs)
        loss = reinforce_loss(told, batch["advantages"], tis_cap=self.tis_cap, items=items[0])
        return loss, {}


def _counted(batch: Batch) -> Scored:
    """A batch of which only mask and weights are asked."""
    return scored(batch, batch["action_mask"].float())


def check_examples(objective: Objective, examples: Sequence[Any]) -> None:
    """Check that every row has what the objective needs.

    Raises:
        TrainingError: there are no examples, or a row lacks something; the message says which run,
            and how to get it.
    """
    if not examples:
        raise TrainingError("there is nothing to train on: no examples")
    for name in objective.needs:
        lacking = [
            row
            for example in examples
            for row in objective.rows(example)
            if getattr(row, name) is None
        ]
        if lacking:
            message = (
                f"{len(lacking)} rows have no {name}, the first of run {lacking[0].trajectory_id}. "
                f"{_WAYS[name]}"
            )
            raise TrainingError(message, record=lacking[0].trajectory_id)


_WAYS = {
    "ref_logprobs": "with_logprobs(rows, model, 'ref_logprobs') computes them",
    "snapshot_logprobs": "with_logprobs(rows, model, 'snapshot_logprobs') computes them",
    "old_logprobs": "They must be stored as the run is sampled; without them use ratio='snapshot', "
    "which takes the current policy for the one that sampled",
    "advantages": "Give them to tokenise: Facts(advantages=...)",
}
