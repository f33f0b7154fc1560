from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.conftest import make_tiny_model, make_tokenizer, tokenizer
from trajstore.rollouts import CalculatorEnvironment, Limits, calculator_tasks, run_rollouts
from trajstore.rollouts.dialect import Dialect
from trajstore.rollouts.policies.sampling_loop import Request, Sampled, sample
from trajstore.rollouts.policies.transformers_policy import TransformersPolicy
from trajstore.rollouts.templates import BARE
from trajstore.schema import Trajectory
from trajstore.trainers import Lora, RowOptions, score, tokenise, with_lora

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
np = pytest.importorskip("numpy")
__all__ = ["make_tokenizer", "tokenizer"]

MESSAGES = [{"role": "user", "content": "How much is 2 + 3?"}]


@pytest.fixture(scope="module")
def dialect(tokenizer: Any) -> Dialect:
    return Dialect(tokenizer, BARE)


@pytest.fixture(scope="module")
def model() -> Any:
    return make_tiny_model()


def requests(count: int, max_tokens: int = 12) -> list[Request]:
    """Prompts of many lengths."""
    draw = np.random.default_rng(0)
    return [
        Request(
            prompt=draw.integers(16, 600, 3 + 5 * n % 31).tolist(), seed=n, max_tokens=max_tokens
        )
        for n in range(count)
    ]


def sampled(
    model: Any, asked: list[Request], *, stop_ids: tuple[int, ...] = (), temperature: float = 1.0
) -> list[Sampled]:
    found = dict(sample(model, asked, stop_ids=stop_ids, temperature=temperature))
    return [found[n] for n in range(len(asked))]


def rolled_out(
    policy: TransformersPolicy, count: int = 6, *, seed: int = 0, **limits: Any
) -> list[Trajectory]:
    chosen = Limits(**{"max_steps": 2, "concurrency": 6, **limits})
    tasks = calculator_tasks(count, kind="arithmetic")
    found = run_rollouts(CalculatorEnvironment, policy, tasks, seed=seed, limits=chosen)
    return sorted(found, key=lambda r: r.trajectory_id)


def test_a_batch_draws_what_each_request_draws_alone(model: Any) -> None:
    asked = requests(12)
    together = sampled(model, asked)
    alone = [sampled(model, [r])[0] for r in asked]
    assert [s.token_ids for s in together] == [s.token_ids for s in alone]
    for a, b in zip(together, alone, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)


def test_the_likeliest_tokens_are_those_of_generate(model: Any) -> None:
    """An implementation from outside: generate() of transformers, without sampling."""
    asked = requests(5)
    for request, found in zip(asked, sampled(model, asked, temperature=0.0), strict=True):
        prompt = torch.tensor([list(request.prompt)])
        whole = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=12,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert found.token_ids == tuple(whole[0, prompt.shape[1] :].tolist())


def test_tokens_come_as_often_as_the_model_says(model: Any) -> None:
    """Chances of the first token over 4,000 seeds, against softmax at that temperature."""
    prompt = [20, 30, 40]
    asked = [Request(prompt=prompt, seed=n, max_tokens=1) for n in range(4000)]
    with torch.no_grad():
        logits = model(torch.tensor([prompt])).logits[0, -1]
        chances = (4 * logits).softmax(-1).numpy()
    with_chance = sampled(model, asked, temperature=0.25)
    counts = np.bincount([s.token_ids[0] for s in with_chance], minlength=600)
    spread = np.sqrt(chances * (1 - chances) / 4000)
    assert (abs(counts / 4000 - chances) < 5 * spread + 1e-3).all()
    first = with_chance[0]
    assert np.exp(first.logprobs[0]) == pytest.approx(chances[first.token_ids[0]], rel=1e-4)


def test_a_stop_token_ends_a_request_and_is_part_of_it(model: Any) -> None:
    free = sampled(model, requests(4))
    stop = free[2].token_ids[5]
    ended = sampled(model, requests(4), stop_ids=(stop,))[2]
    assert ended.token_ids == free[2].token_ids[: free[2].token_ids.index(stop) + 1]
    assert (ended.stopped, free[2].stopped) == (True, False)


def test_a_model_in_training_is_in_training_afterwards(model: Any) -> None:
    model.train()
    sampled(model, requests(2, max_tokens=2))
    assert model.training
    model.eval()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_stored_logprobs_are_those_of_the_trainer(
    model: Any, dialect: Dialect, temperature: float
) -> None:
    policy = TransformersPolicy(model, dialect, temperature=temperature, max_tokens=24)
    options = RowOptions(train_format_errors=True)
    runs = rolled_out(policy)
    rows = [row for r in runs for row in tokenise(r, dialect.tokenizer, BARE, options=options)]
    assert len(rows) == len(runs)
    for row, found in zip(rows, score(model, rows), strict=True):
        assert row.temperature == temperature
        assert row.old_logprobs is not None
        assert abs(found - row.old_logprobs).max() < 1e-4


def test_the_likeliest_answer_has_no_behaviour_policy(model: Any, dialect: Dialect) -> None:
    policy = TransformersPolicy(model, dialect, temperature=0.0, max_tokens=4)
    (run,) = rolled_out(policy, 1)
    options = RowOptions(train_format_errors=True)
    (row,) = tokenise(run, dialect.tokenizer, BARE, options=options)
    assert row.old_logprobs is None


def test_batching_does_not_change_what_attempts_do(model: Any, dialect: Dialect) -> None:
    one = TransformersPolicy(model, dialect, max_tokens=16, max_batch=1)
    many = TransformersPolicy(model, dialect, max_tokens=16, max_batch=64)
    alone, together = rolled_out(one, concurrency=1), rolled_out(many)
    assert [tokens(r) for r in alone] == [tokens(r) for r in together]


def tokens(run: Trajectory) -> list[tuple[int, ...] | None]:
    return [s.completion_token_ids for s in run.steps if s.actor == "agent"]


def test_another_seed_and_another_turn_draw_anew(model: Any, dialect: Dialect) -> None:
    policy = TransformersPolicy(model, dialect, max_tokens=16)
    (first,), (second,) = rolled_out(policy, 1), rolled_out(policy, 1, seed=1)
    assert tokens(first) != tokens(second)
    assert tokens(first)[0] != tokens(first)[1]


def test_a_step_tells_how_it_was_sampled(model: Any, dialect: Dialect) -> None:
    policy = TransformersPolicy(model, dialect, name="tiny", version="v7", max_tokens=5)
    (run,) = rolled_out(policy, 1, max_steps=1)
    step = run.steps[-1]
    sampling = json.loads(step.sampling or "")
    assert (sampling["temperature"], sampling["max_tokens"]) == (1.0, 5)
    assert sampling["logprobs_mode"] == "processed_logprobs"
    metadata = json.loads(step.metadata or "")
    assert (metadata["policy_version"], metadata["finish_reason"]) == ("v7", "length")
    assert (run.model, run.policy_version) == ("tiny", "v7")
    assert step.completion_tokens == 5
    assert step.prompt_tokens == len(step.prompt_token_ids or ())


def test_turns_that_were_cut_off_go_on_in_one_row(model: Any, dialect: Dialect) -> None:
    """The end of turn that the sampler did not write is read, and no action."""
    (run,) = rolled_out(TransformersPolicy(model, dialect, max_tokens=6), 1, max_steps=3)
    options = RowOptions(train_format_errors=True)
    (row,) = tokenise(run, dialect.tokenizer, BARE, options=options)
    written = [t for ids in tokens(run) for t in ids or ()]
    assert dialect.end_of_turn not in written
    assert row.n_action_tokens == 18
    first = run.steps[2]
    end = len(first.prompt_token_ids or ()) + 6
    assert row.token_ids[end] == dialect.end_of_turn
    assert not row.action_mask[end]


def test_a_conversation_that_is_too_long_ends_the_attempt(dialect: Dialect) -> None:
    model = make_tiny_model()
    model.config.max_position_embeddings = 20
    (run,) = rolled_out(TransformersPolicy(model, dialect), 1)
    assert (run.status, run.termination_reason) == ("truncated", "context full")
    assert (run.success, run.error) == (False, None)
    assert "the model reads 20 at most" in (run.metadata or "")


def test_what_a_model_raises_ends_the_attempts_that_wait_for_it(dialect: Dialect) -> None:
    model = make_tiny_model()
    model.lm_head = torch.nn.Linear(7, 600)
    runs = rolled_out(TransformersPolicy(model, dialect), 3)
    assert {r.status for r in runs} == {"error"}
    assert all("policy.act" in (r.error or "") for r in runs)


def test_threads_wait_for_one_batch(model: Any, dialect: Dialect) -> None:
    policy = TransformersPolicy(model, dialect, max_tokens=3)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: policy.act(MESSAGES, [], seed=n), range(8)))
    again = [policy.act(MESSAGES, [], seed=n) for n in range(8)]
    assert [f.completion_token_ids for f in found] == [a.completion_token_ids for a in again]


def drawn(policy: TransformersPolicy) -> tuple[int, ...] | None:
    return policy.act(MESSAGES, [], seed=3).completion_token_ids


@pytest.fixture
def policy(dialect: Dialect) -> TransformersPolicy:
    return TransformersPolicy(make_tiny_model(), dialect, version="0", max_tokens=8)


def test_a_folder_of_weights_takes_over(policy: TransformersPolicy, tmp_path: Path) -> None:
    before, other = drawn(policy), make_tiny_model(seed=1)
    other.save_pretrained(tmp_path)
    policy.update(tmp_path, "1")
    after = drawn(policy)
    policy.update(None, "2", model=other)
    assert policy.version == "2"
    assert (after, before != after) == (drawn(policy), True)


@pytest.mark.filterwarnings("ignore")  # peft reads a deprecated name
def test_an_adapter_takes_over_and_the_next_replaces_it(
    policy: TransformersPolicy, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    before, expected = drawn(policy), []
    for n in range(2):
        torch.manual_seed(n)
        adapted = with_lora(make_tiny_model(), Lora(rank=2, alpha=64))
        for name, weights in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weights)
        adapted.save_pretrained(tmp_path / str(n))
        policy.update(None, "live", model=adapted)
        expected.append(drawn(policy))
    policy.update(None, "bare", model=make_tiny_model())
    assert drawn(policy) == before
    for n in range(2):
        policy.update(tmp_path / str(n), str(n))
        assert drawn(policy) == expected[n] != before


@pytest.mark.filterwarnings("ignore")  # peft reads a deprecated name
def test_an_adapter_over_a_live_one_leaves_that_one_alone(
    policy: TransformersPolicy, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    live = with_lora(make_tiny_model(), Lora(rank=2))
    live.save_pretrained(tmp_path)
    policy.update(None, "live", model=live)
    policy.update(tmp_path, "stored")
    assert any("lora_A" in name for name, _ in live.named_parameters())


def test_an_update_takes_one_source_of_weights(policy: TransformersPolicy) -> None:
    with pytest.raises(ValueError, match="either a checkpoint or a model"):
        policy.update(None, "x")


@pytest.mark.parametrize("wrong", [{"temperature": -1.0}, {"max_tokens": 0}, {"max_batch": 0}])
def test_numbers_out_of_range_are_refused(dialect: Dialect, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="starts at 0"):
        TransformersPolicy(make_tiny_model(), dialect, **wrong)
