"""Stored tokens are used as they are; what cannot be trained on is refused with the way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.exports.conftest import Run
from trajstore.errors import TrainingError
from trajstore.schema import Observation, Step, ToolCall, Trajectory
from trajstore.testing import generate, sample_trajectory
from trajstore.trainers.tokenise import Facts, Refused, RowOptions, tokenise, tokenise_all

pytest.importorskip("transformers")

PUNCTUATION = {20: "%", 21: "&", 22: "'", 23: "("}
"""What the first tokens of the tokenizer spell."""
T7 = '{"temperature": 0.7}'


def _sampled(prompt: tuple[int, ...], produced: tuple[int, ...], **changes: Any) -> Step:
    given: dict[str, Any] = {
        "actor": "agent",
        "text": "".join(PUNCTUATION.get(i, "") for i in produced),
        "prompt_token_ids": prompt,
        "completion_token_ids": produced,
        "logprobs": tuple(-0.5 * i for i in range(1, len(produced) + 1)),
        "sampling": T7,
        **changes,
    }
    return Step(**given)


def test_stored_tokens_are_used_as_they_are(run: Run, tokenizer: Any) -> None:
    whole = run(_sampled((7, 8), (20, 21)), _sampled((7, 8, 20, 21, 9), (22,)))
    (row,) = tokenise(whole, tokenizer)
    assert row.token_ids.tolist() == [7, 8, 20, 21, 9, 22]
    assert row.action_mask.tolist() == [False, False, True, True, False, True]
    assert row.old_logprobs is not None
    assert row.old_logprobs.tolist() == [0, 0, -0.5, -1.0, 0, -0.5]
    assert (row.temperature, row.stored, row.step_from, row.step_to) == (0.7, True, 0, 1)


def test_a_prompt_that_does_not_continue_the_row_forks_it(run: Run, tokenizer: Any) -> None:
    whole = run(_sampled((7, 8), (20,)), _sampled((7, 9, 20), (22,)))
    rows = tokenise(whole, tokenizer)
    assert [r.token_ids.tolist() for r in rows] == [[7, 8, 20], [7, 9, 20, 22]]


def test_another_temperature_forks_a_row(run: Run, tokenizer: Any) -> None:
    whole = run(_sampled((7,), (20,)), _sampled((7, 20, 8), (22,), sampling='{"temperature": 1.0}'))
    first, second = tokenise(whole, tokenizer)
    assert (first.temperature, second.temperature) == (0.7, 1.0)
    assert second.action_mask.tolist() == [False, False, False, True]


def test_a_turn_cut_off_by_length_gets_its_end_of_turn_from_the_next_prompt(
    run: Run, tokenizer: Any
) -> None:
    """The end of turn that the template adds was not sampled, so it carries no loss."""
    whole = run(_sampled((7,), (20, 21)), _sampled((7, 20, 21, 2, 9), (22, 2)))
    (row,) = tokenise(whole, tokenizer)
    assert row.action_mask.tolist() == [False, True, True, False, False, True, True]


def test_rationalised_runs_are_tokenised_from_their_saved_context(run: Run, tokenizer: Any) -> None:
    whole = run(
        Step(actor="user", text="q"), _sampled((7, 8), (20,), text="x"), relation="rationalization"
    )
    (row,) = tokenise(whole, tokenizer)
    assert row.old_logprobs is None
    assert tokenizer.decode(row.token_ids[row.action_mask]) == "x<|im_end|>"


def test_steps_without_stored_tokens_are_rendered_beside_those_with(
    run: Run, tokenizer: Any
) -> None:
    whole = run(
        Step(actor="user", text="q"),
        Step(actor="agent", text="by hand"),
        Step(actor="user", text="r"),
        _sampled((7, 8), (20, 21)),
    )
    first, second = tokenise(whole, tokenizer)
    assert tokenizer.decode(first.token_ids[first.action_mask]) == "by hand<|im_end|>"
    assert second.token_ids.tolist() == [7, 8, 20, 21]
    assert (first.stored, second.stored) == (False, True)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        ('{"temperature": 0.7, "logprobs_mode": "raw_logprobs"}', False),
        ('{"temperature": 1.0, "logprobs_mode": "raw_logprobs"}', True),
        ('{"temperature": 0.7, "logprobs_mode": "processed_logprobs"}', True),
    ],
    ids=["raw", "raw-at-1", "processed"],
)
def test_raw_logprobs_of_another_temperature_are_no_behaviour_policy(
    run: Run, tokenizer: Any, sampling: str, *, kept: bool
) -> None:
    (row,) = tokenise(run(_sampled((7,), (20,), sampling=sampling)), tokenizer)
    assert (row.old_logprobs is not None) == kept


def test_format_errors_are_trained_on_only_if_asked_for(run: Run, tokenizer: Any) -> None:
    whole = run(_sampled((7,), (20,), format_error=True), _sampled((7, 20, 8), (22,)))
    (row,) = tokenise(whole, tokenizer)
    assert row.action_mask.tolist() == [False, False, False, True]
    (row,) = tokenise(whole, tokenizer, options=RowOptions(train_format_errors=True))
    assert row.action_mask.tolist() == [False, True, False, True]


def test_copied_context_is_never_trained_on(tokenizer: Any) -> None:
    rows = tokenise(sample_trajectory(), tokenizer, options=RowOptions(media="mark"))
    trained = "".join(tokenizer.decode(r.token_ids[r.action_mask]) for r in rows)
    assert "from the first attempt" not in trained


def test_a_run_without_an_action_is_refused(run: Run, tokenizer: Any) -> None:
    whole = run(Step(actor="user", text="q"), Step(actor="agent", text="copied", is_copied=True))
    with pytest.raises(TrainingError, match="no step of the agent can be trained on"):
        tokenise(whole, tokenizer)


def test_a_row_that_begins_with_an_action_is_refused(run: Run, tokenizer: Any) -> None:
    whole = run(_sampled((), (20, 21), text=""))
    with pytest.raises(TrainingError):
        tokenise(whole, tokenizer)


def test_media_are_refused_unless_marked(tokenizer: Any) -> None:
    with pytest.raises(TrainingError, match="images"):
        tokenise(sample_trajectory(), tokenizer, options=RowOptions(stored="ignore"))


def test_rows_are_cut_at_step_borders_and_say_so(run: Run, tokenizer: Any) -> None:
    whole = run(
        _sampled((7, 8), (20, 21)),
        _sampled((7, 8, 20, 21, 9), (22,)),
        _sampled((7, 8, 20, 21, 9, 22, 9), (23,)),
    )
    (row,) = tokenise(whole, tokenizer, max_tokens=7)
    assert row.token_ids.tolist() == [7, 8, 20, 21, 9, 22]
    assert (row.step_to, row.cut_steps) == (1, (2,))


def test_a_run_none_of_whose_steps_fits_is_refused(run: Run, tokenizer: Any) -> None:
    with pytest.raises(TrainingError, match=r"no step fits 3 tokens.* ends at token 4"):
        tokenise(run(_sampled((7, 8), (20, 21))), tokenizer, max_tokens=3)


def test_forked_rows_that_do_not_fit_are_told(run: Run, tokenizer: Any) -> None:
    whole = run(_sampled((7,), (20,)), _sampled((5, 5, 5, 5, 5), (22,)))
    (row,) = tokenise(whole, tokenizer, max_tokens=4)
    assert row.cut_steps == (1,)


def test_single_steps_of_a_pair_are_trained_on_alone(run: Run, tokenizer: Any) -> None:
    whole = run(
        Step(actor="user", text="q"),
        Step(actor="agent", text="one"),
        Step(actor="user", text="r"),
        Step(actor="agent", text="two"),
        Step(actor="user", text="s"),
        Step(actor="agent", text="three"),
    )
    (row,) = tokenise(whole, tokenizer, facts=Facts(steps=(3,)))
    assert tokenizer.decode(row.token_ids[row.action_mask]) == "two<|im_end|>"
    assert "one" in tokenizer.decode(row.token_ids)
    assert "three" not in tokenizer.decode(row.token_ids)


def test_advantages_of_steps_lie_on_their_action_tokens(run: Run, tokenizer: Any) -> None:
    whole = run(_sampled((7, 8), (20, 21)), _sampled((7, 8, 20, 21, 9), (22,)))
    facts = Facts(advantages={0: 0.5, 1: -1.0}, group_id="g", weight=0.25)
    (row,) = tokenise(whole, tokenizer, facts=facts)
    assert row.advantages is not None
    assert row.advantages.tolist() == [0, 0, 0.5, 0.5, 0, -1.0]
    assert (row.group_id, row.weight) == ("g", 0.25)


def test_one_advantage_holds_for_every_action_token(run: Run, tokenizer: Any) -> None:
    (row,) = tokenise(run(_sampled((7,), (20, 21))), tokenizer, facts=Facts(advantages=2.0))
    assert row.advantages is not None
    assert row.advantages.tolist() == [0, 2.0, 2.0]


def test_a_step_without_an_advantage_is_refused(run: Run, tokenizer: Any) -> None:
    whole = run(_sampled((7,), (20,)), _sampled((7, 20), (22,)))
    with pytest.raises(TrainingError, match="step 1 has no advantage"):
        tokenise(whole, tokenizer, facts=Facts(advantages={0: 1.0}))


def test_many_runs_give_what_each_gives_alone(tokenizer: Any) -> None:
    runs: list[Trajectory] = list(generate(3, mean_steps=4))
    bad = replace(runs[0], trajectory_id="bad", steps=())
    found = list(tokenise_all([runs[0], bad, *runs[1:]], tokenizer))
    refused = found.pop(1)
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("run bad: ")
    for run, rows in zip(runs, found, strict=True):
        assert isinstance(rows, list)
        (alone,) = tokenise(run, tokenizer)
        assert rows[0].token_ids.tolist() == alone.token_ids.tolist()
        assert rows[0].action_mask.tolist() == alone.action_mask.tolist()


def test_results_of_tools_are_context(run: Run, tokenizer: Any) -> None:
    whole = run(
        Step(actor="user", text="q"),
        Step(
            actor="agent",
            tool_calls=(ToolCall.of("f", {}, "c"),),
            observations=(Observation(call_id="c", text="secret result"),),
        ),
        Step(actor="agent", text="done"),
    )
    (row,) = tokenise(whole, tokenizer)
    assert "secret result" in tokenizer.decode(row.token_ids)
    assert "secret result" not in tokenizer.decode(row.token_ids[row.action_mask])
