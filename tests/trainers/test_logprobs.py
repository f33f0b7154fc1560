from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.trainers.row_makers import row
from trajstore.errors import TrainingError
from trajstore.trainers.collate import collate
from trajstore.trainers.logprobs import score, token_logprobs, with_logprobs
from trajstore.trainers.rows import TokenRow

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


def _by_hand(model: Any, made: TokenRow) -> list[float]:
    """All logits of one unpadded row, softmax, and the token's own entry."""
    ids = torch.as_tensor(made.token_ids)[None]
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0] / (made.temperature or 1.0)
    found = logits.log_softmax(-1)[:-1].gather(-1, ids[0, 1:, None]).squeeze(-1)
    return [0.0, *(found * torch.as_tensor(made.action_mask)[1:]).tolist()]


def test_logprobs_are_those_of_a_plain_softmax(tiny_model: Any) -> None:
    rows = [row(9, seed=1), row(14, seed=2, temperature=0.7), row(5, seed=3)]
    found = token_logprobs(tiny_model, collate(rows))
    for place, made in enumerate(rows):
        values = found[place, : len(made.token_ids)].tolist()
        assert values == pytest.approx(_by_hand(tiny_model, made), abs=1e-5)


def test_padding_that_is_the_end_of_turn_changes_nothing(tiny_model: Any) -> None:
    made = row(6, seed=1)
    short = token_logprobs(tiny_model, collate([made], pad_token_id=2))
    padded = token_logprobs(tiny_model, collate([made, row(12, seed=2)], pad_token_id=2))
    assert padded[0, :6].tolist() == pytest.approx(short[0].tolist(), abs=1e-5)
    assert padded[0, 6:].abs().max().item() == 0


def test_the_output_layer_runs_only_where_an_action_is_predicted(tiny_model: Any) -> None:
    seen = []
    tiny_model.lm_head.register_forward_hook(lambda _, given, __: seen.append(given[0].shape))
    token_logprobs(tiny_model, collate([row(10, seed=1, actions=(4, 5, 9))]))
    assert seen == [(1, 3, 32)]


def test_scores_come_in_the_order_of_the_rows(tiny_model: Any) -> None:
    rows = [row(n, seed=n) for n in (12, 5, 9, 7)]
    tiny_model.train()
    found = score(tiny_model, rows, tokens_at_once=20)
    assert tiny_model.training
    for made, values in zip(rows, found, strict=True):
        assert values.tolist() == pytest.approx(_by_hand(tiny_model, made), abs=1e-5)


def test_the_reference_of_an_adapted_model_is_the_model_without_adapters(tiny_model: Any) -> None:
    pytest.importorskip("peft")
    from trajstore.trainers.trainer import Lora, with_lora

    rows = [row(8, seed=1)]
    (bare,) = with_logprobs(rows, tiny_model, "ref_logprobs")
    adapted = with_lora(tiny_model, Lora(rank=4))
    for name, weights in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights)
    (reference,) = with_logprobs(rows, adapted, "ref_logprobs")
    (moved,) = with_logprobs(rows, adapted, "snapshot_logprobs")
    assert reference.ref_logprobs is not None
    assert moved.snapshot_logprobs is not None
    assert bare.ref_logprobs is not None
    assert reference.ref_logprobs.tolist() == bare.ref_logprobs.tolist()
    assert moved.snapshot_logprobs.tolist() != bare.ref_logprobs.tolist()


def test_a_batch_holds_only_numbers_that_every_row_has() -> None:
    whole = row(5, seed=1, old=True)
    assert "old_logprobs" in collate([whole])
    assert "old_logprobs" not in collate([whole, row(5, seed=2)])


def test_rows_that_cannot_be_trained_on_are_refused() -> None:
    made = row(5, seed=1)
    with pytest.raises(TrainingError, match="no token of the policy"):
        replace(made, action_mask=made.action_mask & False)
    with pytest.raises(TrainingError, match="a prompt must precede it"):
        replace(made, action_mask=made.action_mask | True)
    with pytest.raises(TrainingError, match="ref_logprobs has 4 values for 5 tokens"):
        replace(made, ref_logprobs=torch.zeros(4).numpy())
    with pytest.raises(TrainingError, match="at least one row"):
        collate([])
