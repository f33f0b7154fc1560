"""Token rows against sequences written out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trajstore.exports.conversation import Unfit
from trajstore.exports.rl import token_rows
from trajstore.schema import Step, Trajectory

Run = Callable[..., Trajectory]


def turn(prompt: list[int], sampled: list[int], **changes: Any) -> Step:
    """An agent step whose log-probabilities are minus a tenth of its tokens."""
    fields = {
        "actor": "agent",
        "text": "x",
        "prompt_token_ids": tuple(prompt),
        "completion_token_ids": tuple(sampled),
        "logprobs": tuple(-t / 10 for t in sampled),
        "sampling": '{"temperature": 0.7}',
        **changes,
    }
    return Step(**fields)  # type: ignore[arg-type]  # fields of a step


def test_a_turn_whose_prompt_goes_on_belongs_to_the_row(run: Run) -> None:
    first = turn([1, 2], [3, 4])
    second = turn([1, 2, 3, 4, 5, 6], [7])
    (row,) = token_rows(run(Step(actor="user", text="q"), first, second))
    assert row.token_ids == [1, 2, 3, 4, 5, 6, 7]
    assert row.mask == [False, False, True, True, False, False, True]
    assert row.logprobs == [0, 0, -0.3, -0.4, 0, 0, -0.7]
    assert row.temperatures == [1, 1, 0.7, 0.7, 1, 1, 0.7]


def test_a_turn_whose_prompt_was_rendered_anew_starts_a_row(run: Run) -> None:
    rows = token_rows(run(turn([1, 2], [3, 4]), turn([1, 2, 9, 5], [6])))
    assert [r.token_ids for r in rows] == [[1, 2, 3, 4], [1, 2, 9, 5, 6]]
    assert [r.mask for r in rows] == [[False, False, True, True], [False] * 4 + [True]]


def test_each_sampled_token_is_in_exactly_one_row(run: Run) -> None:
    turns = [turn([1], [2]), turn([1, 2, 3], [4, 5]), turn([1, 9], [6]), turn([1, 9, 6, 7], [8])]
    rows = token_rows(run(*turns))
    sampled = [t for r in rows for t, m in zip(r.token_ids, r.mask, strict=True) if m]
    assert sampled == [2, 4, 5, 6, 8]
    assert len(rows) == 2


def test_copied_turns_are_not_sampled_here(run: Run) -> None:
    copied = turn([1], [2], is_copied=True)
    (row,) = token_rows(run(copied, turn([1, 2, 3], [4])))
    assert row.mask == [False, False, False, True]


def test_format_errors_were_sampled_too(run: Run) -> None:
    (row,) = token_rows(run(turn([1], [2], format_error=True)))
    assert row.mask == [False, True]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"prompt_token_ids": None}, "no-token-ids"),
        ({"completion_token_ids": ()}, "no-token-ids"),
        ({"logprobs": None}, "no-logprobs"),
        ({"logprobs": (0.1, 0.2)}, "no-logprobs"),
        ({"sampling": None}, "no-temperature"),
        ({"sampling": '{"temperature": null}'}, "no-temperature"),
        ({"sampling": "[]"}, "no-temperature"),
    ],
)
def test_what_is_not_stored_is_never_made_up(
    run: Run, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Unfit) as caught:
        token_rows(run(turn([1], [2]), turn([1, 2], [3], **changes)))
    assert (caught.value.reason, caught.value.detail) == (reason, "step 1")


def test_a_temperature_can_be_given_for_steps_that_do_not_say(run: Run) -> None:
    steps = run(turn([1], [2], sampling=None), turn([1, 2], [3]))
    (row,) = token_rows(steps, temperature=1.5)
    assert row.temperatures == [1, 1.5, 0.7]


def test_a_run_sampled_with_a_hint_is_no_behaviour_of_its_prompt(run: Run) -> None:
    with pytest.raises(Unfit, match="rationalized"):
        token_rows(run(turn([1], [2]), relation="rationalization"))


def test_a_run_without_turns_has_nothing_to_train(run: Run) -> None:
    with pytest.raises(Unfit, match="nothing-to-train"):
        token_rows(run(Step(actor="user", text="q")))
