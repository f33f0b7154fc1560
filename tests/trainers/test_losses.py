"""Losses against values worked out by hand and against loops over tokens in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.trainers.scored import batch, scored
from trajstore.errors import TrainingError
from trajstore.trainers.losses import (
    Aggregation,
    Ratio,
    Scored,
    dpo_loss,
    grpo_loss,
    importance,
    k3,
    kto_loss,
    policy_items,
    ppo_clip_loss,
    reinforce_loss,
    row_items,
    sft_loss,
    token_items,
)

torch = pytest.importorskip("torch")

LONGEST = 9
AGGREGATIONS: tuple[Aggregation, ...] = ("grpo", "dapo", "dr_grpo")
RATIOS: tuple[Ratio, ...] = ("behaviour", "recomputed", "snapshot")


def _tokens(made: dict[str, Any]) -> list[list[tuple[int, ...]]]:
    """For each row, the places of its action tokens."""
    mask = made["mask"].tolist()
    return [[(i, t) for t, m in enumerate(row) if m] for i, row in enumerate(mask)]


def _sum(values: Any, places: list[tuple[int, ...]]) -> float:
    return sum(values[p].item() for p in places)


def test_sft_is_the_mean_over_action_tokens() -> None:
    told = Scored(
        logprobs=torch.tensor([[0.0, -1.0, -2.0], [0.0, -5.0, -9.0]]),
        mask=torch.tensor([[False, True, True], [False, True, False]]),
    )
    assert sft_loss(told).item() == pytest.approx((1 + 2 + 5) / 3)


def test_dpo_is_the_logarithm_of_two_where_policy_equals_reference() -> None:
    made = batch(torch)
    same = scored(made, reference=made["logprobs"].detach())
    assert dpo_loss(same, same).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("variant", ["sigmoid", "ipo", "sigmoid_norm"])
def test_dpo_equals_a_loop_in_plain_python(variant: Any) -> None:
    good, bad = batch(torch, seed=1), batch(torch, seed=2)
    expected = 0.0
    for i in range(4):
        ratios, counts = [], []
        for side in (good, bad):
            places = _tokens(side)[i]
            ratios.append(_sum(side["logprobs"], places) - _sum(side["reference"], places))
            counts.append(len(places))
        if variant != "sigmoid":
            ratios = [r / n for r, n in zip(ratios, counts, strict=True)]
        gap = ratios[0] - ratios[1]
        each = (gap - 1 / 0.6) ** 2 if variant == "ipo" else math.log1p(math.exp(-0.3 * gap))
        expected += each / 4
    nll = -sum(_sum(good["logprobs"], p) for p in _tokens(good)) / int(good["mask"].sum())
    found = dpo_loss(scored(good), scored(bad), beta=0.3, variant=variant, nll_weight=0.7)
    assert found.item() == pytest.approx(expected + 0.7 * nll)


def test_kto_equals_a_loop_in_plain_python() -> None:
    made = batch(torch)
    desirable = torch.tensor([True, False, True, False])
    expected = 0.0
    for i, places in enumerate(_tokens(made)):
        ratio = _sum(made["logprobs"], places) - _sum(made["reference"], places)
        gap = 0.2 * (ratio - 0.4) if desirable[i] else 0.2 * (0.4 - ratio)
        expected += (1.5 if desirable[i] else 0.5) * (1 - 1 / (1 + math.exp(-gap))) / 4
    found = kto_loss(
        scored(made),
        desirable,
        0.4,
        beta=0.2,
        desirable_weight=1.5,
        undesirable_weight=0.5,
    )
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_grpo_equals_a_loop_in_plain_python(aggregation: Aggregation, ratio: Ratio) -> None:
    made = batch(torch)
    rows = []
    for i, places in enumerate(_tokens(made)):
        rows.append([_grpo_token(made, p, float(made["advantages"][i]), ratio) for p in places])
    total = {
        "grpo": sum(sum(r) / len(r) for r in rows) / 4,
        "dapo": sum(map(sum, rows)) / sum(map(len, rows)),
        "dr_grpo": sum(map(sum, rows)) / (4 * LONGEST),
    }
    found = grpo_loss(
        scored(made),
        made["advantages"],
        aggregation=aggregation,
        ratio=ratio,
        clip_low=0.2,
        clip_high=0.28,
        kl_coef=0.04,
        tis_cap=1.5,
        max_tokens=LONGEST,
    )
    assert found.item() == pytest.approx(total[aggregation])


def _grpo_token(made: dict[str, Any], p: tuple[int, ...], advantage: float, ratio: Ratio) -> float:
    policy, stored, old, reference = (
        made[n][p].item() for n in ("logprobs", "behaviour", "snapshot", "reference")
    )
    r = math.exp(policy - (stored if ratio == "behaviour" else old))
    weight = min(math.exp(old - stored), 1.5) if ratio == "recomputed" else 1.0
    each = -min(r * advantage, min(max(r, 0.8), 1.28) * advantage) * weight
    gap = reference - policy
    return each + 0.04 * (math.exp(gap) - gap - 1)


def test_reinforce_equals_a_loop_in_plain_python() -> None:
    made = batch(torch)
    total, count = 0.0, 0
    for i, places in enumerate(_tokens(made)):
        for p in places:
            policy, stored = made["logprobs"][p].item(), made["behaviour"][p].item()
            weight = min(math.exp(policy - stored), 1.2)
            total -= weight * float(made["advantages"][i]) * policy
            count += 1
    found = reinforce_loss(scored(made), made["advantages"], tis_cap=1.2)
    assert found.item() == pytest.approx(total / count)


def test_reinforce_has_the_gradient_of_the_policy_gradient() -> None:
    made = batch(torch)
    reinforce_loss(scored(made), made["advantages"]).backward()
    expected = -made["advantages"][:, None] * made["mask"] / made["mask"].sum()
    assert torch.allclose(made["logprobs"].grad, expected)


def test_ppo_stops_the_gradient_where_the_ratio_has_gone_too_far() -> None:
    """Ratio e^0.5 is above 1.2: with a positive advantage no more is to be gained."""
    logprobs = torch.tensor([[0.0, -0.5, -1.0]], requires_grad=True)
    told = Scored(
        logprobs=logprobs,
        mask=torch.tensor([[False, True, True]]),
        behaviour=torch.tensor([[0.0, -1.0, -1.0]]),
    )
    loss = ppo_clip_loss(told, torch.tensor([1.0]))
    loss.backward()
    assert loss.item() == pytest.approx(-(1.2 + 1.0) / 2)
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [[0.0, 0.0, -0.5]]


def test_the_kl_estimate_is_zero_at_the_reference_and_positive_elsewhere() -> None:
    made = batch(torch)
    assert k3(scored(made, reference=made["logprobs"].detach())).abs().max().item() == 0
    assert k3(scored(made))[made["mask"]].min().item() > 0


def test_recomputed_and_stored_agree_where_the_policy_has_not_moved() -> None:
    made = batch(torch)
    one = scored(made, snapshot=made["behaviour"])
    found = [importance(one, r) for r in RATIOS]
    for ratio, weight in found[1:]:
        assert torch.allclose(ratio, found[0][0])
        assert torch.all(torch.as_tensor(weight) == 1)


Loss = Callable[[Scored, Any, Any], Any]

LOSSES: dict[str, tuple[Loss, Callable[[Scored], Any]]] = {
    "sft": (lambda s, _, n: sft_loss(s, items=n), token_items),
    "dpo": (
        lambda s, _, n: dpo_loss(s, _other(s), items=None if n is None else (n, n)),
        row_items,
    ),
    "kto": (lambda s, a, n: kto_loss(s, a > 0, items=n), row_items),
    "reinforce": (lambda s, a, n: reinforce_loss(s, a, tis_cap=2.0, items=n), token_items),
    "ppo": (lambda s, a, n: ppo_clip_loss(s, a, items=n), token_items),
    **{
        f"{g}-{r}": (
            lambda s, a, n, g=g, r=r: grpo_loss(  # type: ignore[misc]
                s, a, aggregation=g, ratio=r, kl_coef=0.1, max_tokens=LONGEST, items=n
            ),
            lambda s, g=g: policy_items(s, g, LONGEST),  # type: ignore[misc]
        )
        for g in AGGREGATIONS
        for r in RATIOS
    },
}


def _other(told: Scored) -> Scored:
    """A worse side that depends on the policy too."""
    return replace(told, logprobs=told.logprobs * 1.1)


@pytest.mark.parametrize("name", LOSSES)
def test_masked_tokens_get_exactly_zero_gradient(name: str) -> None:
    loss, _ = LOSSES[name]
    made = batch(torch)
    loss(scored(made), made["advantages"], None).backward()
    gradient = made["logprobs"].grad
    assert gradient[~made["mask"]].abs().max().item() == 0
    assert gradient[made["mask"]].abs().max().item() > 0


@pytest.mark.parametrize("name", LOSSES)
def test_what_stands_off_the_mask_does_not_matter(name: str) -> None:
    loss, _ = LOSSES[name]
    made = batch(torch)
    clean = loss(scored(made), made["advantages"], None).item()
    for column in ("logprobs", "behaviour", "snapshot", "reference"):
        made[column] = made[column].detach().masked_fill(~made["mask"], math.nan)
    made["logprobs"].requires_grad_()
    found = loss(scored(made), made["advantages"], None)
    found.backward()
    assert found.item() == clean
    assert torch.isfinite(made["logprobs"].grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_accumulated_batches_equal_one_that_is_larger(name: str) -> None:
    loss, items = LOSSES[name]
    made = batch(torch, rows=6)
    parts = [slice(0, 1), slice(1, 4), slice(4, 6)]
    whole = loss(scored(made), made["advantages"], None)
    whole.backward()
    expected, made["logprobs"].grad = made["logprobs"].grad, None
    total = sum(items(scored(made, p)) for p in parts)
    found = sum(loss(scored(made, p), made["advantages"][p], total) for p in parts)
    found.backward()
    assert found.item() == pytest.approx(whole.item(), rel=1e-12)
    assert torch.allclose(made["logprobs"].grad, expected, rtol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_a_row_of_weight_two_is_that_row_twice(name: str) -> None:
    loss, _ = LOSSES[name]
    made = batch(torch, rows=3)
    order = torch.tensor([0, 0, 2])
    told = scored(made, weights=torch.tensor([2.0, 0.0, 1.0], dtype=torch.float64))
    columns = ("logprobs", "mask", "behaviour", "snapshot", "reference", "advantages")
    twice = {n: made[n].detach()[order] for n in columns}
    found = loss(told, made["advantages"], None).item()
    assert found == pytest.approx(loss(scored(twice), twice["advantages"], None).item())


def test_a_batch_of_no_weight_has_loss_zero_and_a_graph() -> None:
    made = batch(torch)
    found = sft_loss(scored(made, weights=torch.zeros(4)))
    found.backward()
    assert found.item() == 0


def test_missing_numbers_and_unknown_names_are_errors() -> None:
    made = batch(torch)
    with pytest.raises(TrainingError, match="needs stored log-probabilities"):
        grpo_loss(scored(made, behaviour=None), made["advantages"])
    with pytest.raises(TrainingError, match="needs reference log-probabilities"):
        dpo_loss(scored(made, reference=None), scored(made))
    with pytest.raises(TrainingError, match="there is no DPO loss 'hinge'"):
        dpo_loss(scored(made), scored(made), variant="hinge")  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="known are behaviour, recomputed, snapshot"):
        grpo_loss(scored(made), made["advantages"], ratio="old")  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="say max_tokens"):
        grpo_loss(scored(made), made["advantages"], aggregation="dr_grpo")
