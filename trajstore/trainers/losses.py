"""The losses, as pure functions of tensors.

Notation: B rows, T tokens. Log-probabilities are aligned to the tokens: the value at place t is of
token t given those before it. Off the mask they may hold anything, NaN too: they are replaced
before any arithmetic, so the gradient there is exactly zero.

Every loss is a sum over the batch divided by ``items``, the count that the sum is a mean over. It
is an argument so that several batches, or several processes, divide by what they hold together:
then k accumulated batches equal one that is k times as large. None stands for this batch alone.
A row of weight 2 counts as that row twice, one of weight 0 as no row, in the sum and in the count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from trajstore._optional import require
from trajstore.errors import TrainingError

if TYPE_CHECKING:
    from torch import Tensor

DpoVariant = Literal["sigmoid", "ipo", "sigmoid_norm"]
Aggregation = Literal["grpo", "dapo", "dr_grpo"]
Ratio = Literal["behaviour", "recomputed", "snapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A batch with its log-probabilities; all of shape (B, T) but the weights."""

    logprobs: Tensor
    """Under the policy in training; the gradient flows through these."""
    mask: Tensor
    """True where the policy produced the token."""
    behaviour: Tensor | None = None
    """Under the policy that sampled, as stored with the rollout."""
    snapshot: Tensor | None = None
    """Under the weights at the start of this update, recomputed by the trainer."""
    reference: Tensor | None = None
    """Under the reference policy."""
    weights: Tensor | None = None
    """(B,) how much each row counts; None is 1 each."""

    def clean(self, values: Tensor | None, name: str) -> Tensor:
        """Values with 0 off the mask.

        Raises:
            TrainingError: they are missing.
        """
        if values is None:
            raise TrainingError(f"this loss needs {name} log-probabilities, and the rows have none")
        return values.masked_fill(~self.mask, 0.0)

    def sums(self, values: Tensor | None, name: str) -> Tensor:
        """(B,) sum over the action tokens of each row."""
        return self.clean(values, name).sum(-1)

    @property
    def lengths(self) -> Tensor:
        """(B,) number of action tokens of each row."""
        return self.mask.sum(-1)

    @property
    def row_weights(self) -> Tensor:
        """(B,) the weights."""
        if self.weights is None:
            return self.logprobs.new_ones(self.logprobs.shape[0])
        return self.weights


def token_items(scored: Scored) -> Tensor:
    """Weighted number of action tokens: what a mean over tokens divides by."""
    return (scored.row_weights * scored.lengths).sum()


def row_items(scored: Scored) -> Tensor:
    """Weighted number of rows: what a mean over rows divides by."""
    return scored.row_weights.sum()


def _mean(total: Tensor, items: Tensor | float | None, own: Tensor) -> Tensor:
    """A total over a count, where a count of nothing gives 0 and keeps the graph."""
    if items is None:
        items = own
    counted: Any = items.clamp(min=1e-8) if hasattr(items, "clamp") else max(items, 1e-8)
    return total / counted


def sft_loss(scored: Scored, *, items: Tensor | float | None = None) -> Tensor:
    """Negative log-likelihood: mean over the action tokens of the whole batch.

    Args:
        scored: the batch.
        items: :func:`token_items` of everything that is accumulated.
    """
    totals = scored.sums(scored.logprobs, "policy")
    return _mean(-(scored.row_weights * totals).sum(), items, token_items(scored))


def log_ratios(scored: Scored) -> Tensor:
    """(B,) log pi(row) - log pi_ref(row), summed over the action tokens."""
    policy = scored.sums(scored.logprobs, "policy")
    return policy - scored.sums(scored.reference, "reference")


def dpo_loss(
    chosen: Scored,
    rejected: Scored,
    *,
    beta: float = 0.1,
    variant: DpoVariant = "sigmoid",
    nll_weight: float = 0.0,
    items: tuple[Tensor | float, Tensor | float] | None = None,
) -> Tensor:
    """Direct preference optimisation over action tokens only.

    ``sigmoid``: -log sigma(beta * d), d = log ratio of the chosen row minus that of the rejected
    (Rafailov et al. 2023, 2305.18290, eq. 7). Sums run over the action tokens of all turns, so
    tool results of different lengths do not move the margin. ``sigmoid_norm``: each log ratio is
    divided by its number of action tokens. ``ipo``: (d - 1/(2 beta))^2 with log ratios divided
    likewise, as TRL does on the word of the authors (Azar et al. 2023, 2310.12036, eq. 17).
    ``nll_weight`` adds the negative log-likelihood of the chosen rows, a mean over their tokens
    (RPO, Pang et al. 2024, 2404.19733; IPR adds it too).

    Args:
        chosen: the better rows; their weights are those of the pairs.
        rejected: the worse rows.
        beta: strength of the pull to the reference; 0.1 is TRL's default and that of the papers.
        variant: see above.
        nll_weight: share of the likelihood term.
        items: :func:`row_items` and :func:`token_items` of the chosen rows of everything that is
            accumulated.

    Raises:
        TrainingError: reference log-probabilities are missing, or the variant is not known.
    """
    functional = require("torch.nn.functional", extra="train", purpose="Training")
    good, bad = log_ratios(chosen), log_ratios(rejected)
    if variant in {"ipo", "sigmoid_norm"}:
        good, bad = good / chosen.lengths.clamp(min=1), bad / rejected.lengths.clamp(min=1)
    if variant == "ipo":
        each = (good - bad - 1 / (2 * beta)) ** 2
    elif variant in {"sigmoid", "sigmoid_norm"}:
        each = -functional.logsigmoid(beta * (good - bad))
    else:
        raise TrainingError(f"there is no DPO loss {variant!r}; sigmoid, ipo, sigmoid_norm are")
    pairs, tokens = (None, None) if items is None else items
    loss = _mean((chosen.row_weights * each).sum(), pairs, row_items(chosen))
    if nll_weight:
        loss = loss + nll_weight * sft_loss(chosen, items=tokens)
    return loss


def kto_loss(
    scored: Scored,
    desirable: Tensor,
    kl: Tensor | float = 0.0,
    *,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
    items: Tensor | float | None = None,
) -> Tensor:
    """Kahneman-Tversky optimisation: 1 - sigma(beta * (r - z)) for good rows, (z - r) for bad.

    r is the log ratio to the reference and z an estimate of KL(pi || pi_ref), at least 0 and
    without gradient (Ethayarajh et al. 2024, 2402.01306, eq. 8).

    Args:
        scored: the batch.
        desirable: (B,) bool.
        kl: mean log ratio over rows whose completion belongs to another prompt.
        beta: as in DPO.
        desirable_weight: lambda_D.
        undesirable_weight: lambda_U.
        items: :func:`row_items` of everything that is accumulated.
    """
    ratio = log_ratios(scored)
    baseline = kl.detach().clamp(min=0.0) if hasattr(kl, "detach") else max(kl, 0.0)
    gain = 1 - (beta * (ratio - baseline)).sigmoid()
    loss = 1 - (beta * (baseline - ratio)).sigmoid()
    good = desirable.to(ratio.dtype)
    each = desirable_weight * good * gain + undesirable_weight * (1 - good) * loss
    return _mean((scored.row_weights * each).sum(), items, row_items(scored))


def importance(scored: Scored, ratio: Ratio, tis_cap: float = 2.0) -> tuple[Tensor, Tensor | float]:
    """(B, T) ratio of the policy to the one that the clip is anchored at, and a weight.

    ``behaviour``: pi / pi_stored, the policy that sampled; weight 1. ``recomputed``: pi / pi_old,
    old being the weights at the start of the update, and the weight min(pi_old / pi_stored,
    tis_cap) corrects for the gap between old and stored, without gradient (truncated importance
    sampling, per token). ``snapshot``: pi / pi_old alone; the gap between old and stored is
    ignored, which is right only if the same weights sampled.

    Raises:
        TrainingError: log-probabilities that the mode needs are missing.
    """
    if ratio not in get_args(Ratio):
        known = ", ".join(get_args(Ratio))
        raise TrainingError(f"there is no ratio {ratio!r}; known are {known}")
    policy = scored.clean(scored.logprobs, "policy")
    if ratio == "behaviour":
        return (policy - scored.clean(scored.behaviour, "stored")).exp(), 1.0
    old = scored.clean(scored.snapshot, "recomputed")
    if ratio == "snapshot":
        return (policy - old).exp(), 1.0
    gap = (old - scored.clean(scored.behaviour, "stored")).exp().clamp(max=tis_cap)
    return (policy - old).exp(), gap.detach()


def k3(scored: Scored) -> Tensor:
    """(B, T) estimate of KL(pi || pi_ref): exp(d) - d - 1, d = log pi_ref - log pi; at least 0.

    Source: Schulman 2020, "Approximating KL divergence", k3.
    """
    gap = scored.clean(scored.reference, "reference") - scored.clean(scored.logprobs, "policy")
    return gap.exp() - gap - 1


def clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """(B, T) -min(r A, clip(r, 1 - low, 1 + high) A) (Schulman et al. 2017, 1707.06347, eq. 7)."""
    return -(ratio * advantages).minimum(ratio.clamp(1 - low, 1 + high) * advantages)


def policy_items(scored: Scored, aggregation: Aggregation, max_tokens: int | None) -> Tensor:
    """What :func:`grpo_loss` divides by under an aggregation.

    Raises:
        TrainingError: an unknown aggregation, or ``dr_grpo`` without a length.
    """
    if aggregation == "grpo":
        return row_items(scored)
    if aggregation == "dapo":
        return token_items(scored)
    if aggregation != "dr_grpo":
        raise TrainingError(f"there is no {aggregation!r}; grpo, dapo, dr_grpo are aggregations")
    if max_tokens is None:
        raise TrainingError("dr_grpo divides by the longest completion; say max_tokens")
    return row_items(scored) * max_tokens


def grpo_loss(  # noqa: PLR0913 - the knobs that the papers have
    scored: Scored,
    advantages: Tensor,
    *,
    aggregation: Aggregation = "dapo",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl_coef: float = 0.0,
    ratio: Ratio = "behaviour",
    tis_cap: float = 2.0,
    max_tokens: int | None = None,
    items: Tensor | float | None = None,
) -> Tensor:
    """Group-relative policy optimisation: clipped ratio times advantage, plus KL to a reference.

    Aggregation: ``grpo`` is the mean over rows of the mean over tokens (Shao et al. 2024,
    2402.03300, eq. 3), ``dapo`` the mean over all action tokens (Yu et al. 2025, 2503.14476,
    eq. 8), ``dr_grpo`` the sum over tokens divided by rows times ``max_tokens`` (Liu et al. 2025,
    2503.20783). Advantages are given: ``trajstore.pairs.group_advantages`` makes them.

    Args:
        scored: the batch; which log-probabilities it needs depends on ``ratio`` and ``kl_coef``.
        advantages: (B, T), or (B,) for one a row.
        aggregation: see above; TRL's default is ``dapo``.
        clip_low: how far below 1 the ratio may go.
        clip_high: how far above; DAPO takes 0.28.
        kl_coef: share of :func:`k3`; 0 as in DAPO and TRL.
        ratio: what the clip is anchored at, see :func:`importance`.
        tis_cap: greatest correction in mode ``recomputed``.
        max_tokens: longest completion, for ``dr_grpo``.
        items: :func:`policy_items` of everything that is accumulated.

    Raises:
        TrainingError: log-probabilities that it needs are missing.
    """
    ratios, correction = importance(scored, ratio, tis_cap)
    each = clipped(ratios, _per_token(scored, advantages), clip_low, clip_high) * correction
    if kl_coef:
        each = each + kl_coef * k3(scored)
    return _aggregate(scored, each, aggregation, max_tokens, items)


def _aggregate(
    scored: Scored,
    each: Tensor,
    aggregation: Aggregation,
    max_tokens: int | None,
    items: Tensor | float | None,
) -> Tensor:
    own = policy_items(scored, aggregation, max_tokens)
    totals = each.masked_fill(~scored.mask, 0.0).sum(-1)
    if aggregation == "grpo":
        totals = totals / scored.lengths.clamp(min=1)
    return _mean((scored.row_weights * totals).sum(), items, own)


def _per_token(scored: Scored, advantages: Tensor) -> Tensor:
    spread = advantages.unsqueeze(-1) if advantages.dim() == 1 else advantages
    return spread.expand_as(scored.mask).masked_fill(~scored.mask, 0.0)


def reinforce_loss(
    scored: Scored,
    advantages: Tensor,
    *,
    tis_cap: float | None = None,
    items: Tensor | float | None = None,
) -> Tensor:
    """REINFORCE with baseline: -(return - baseline) * log pi, mean over the action tokens.

    Williams 1992; the baseline is in ``advantages``: leave-one-out gives RLOO (2402.14740).

    Args:
        scored: the batch.
        advantages: (B, T) or (B,), return minus baseline.
        tis_cap: corrects for stale data: each token is weighted by min(pi / pi_stored, tis_cap),
            without gradient. None trusts that the policy in training sampled.
        items: :func:`token_items` of everything that is accumulated.
    """
    each = -_per_token(scored, advantages) * scored.clean(scored.logprobs, "policy")
    if tis_cap is not None:
        each = each * importance(scored, "behaviour")[0].detach().clamp(max=tis_cap)
    return _aggregate(scored, each, "dapo", None, items)


def ppo_clip_loss(
    scored: Scored,
    advantages: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    items: Tensor | float | None = None,
) -> Tensor:
    """PPO's clipped objective over given advantages, mean over the action tokens (1707.06347).

    There is no value head here: advantages come from the store (credit, returns, a critic's
    labels). The ratio is to the policy that sampled.
    """
    return grpo_loss(
        scored, advantages, clip_low=clip_low, clip_high=clip_high, items=items, ratio="behaviour"
    )
