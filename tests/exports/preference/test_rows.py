from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.exports.preference.pairs import pair_of, runs_of, two_runs
from trajstore.errors import ExportError
from trajstore.exports.preference import PairRow, PairRowOptions, pair_rows
from trajstore.exports.writing import Refused
from trajstore.schema import Observation, Step, ToolCall, Trajectory

Run = Callable[..., Trajectory]


def _row(chosen: Trajectory, rejected: Trajectory, **pair: Any) -> PairRow:
    (row,) = pair_rows(pair_of(chosen, rejected, **pair), runs_of(chosen, rejected))
    assert isinstance(row, PairRow), row
    return row


def _refusal(
    chosen: Trajectory,
    rejected: Trajectory,
    options: PairRowOptions = PairRowOptions(),  # noqa: B008
    **pair: Any,
) -> Refused:
    (row,) = pair_rows(pair_of(chosen, rejected, **pair), runs_of(chosen, rejected), options)
    assert isinstance(row, Refused), row
    return row


def _roles(messages: list[dict[str, Any]]) -> list[str]:
    return [m["role"] for m in messages]


def test_the_prompt_is_what_both_share_and_sides_end_with_the_agent(run: Run) -> None:
    row = _row(*two_runs(run))
    assert _roles(row.prompt) == ["system"]
    assert _roles(row.chosen) == ["user", "assistant", "tool", "assistant"]
    assert _roles(row.rejected) == ["user", "assistant"]
    assert row.chosen_trainable == [False, True, False, True]
    assert row.rejected_trainable == [False, True]
    assert row.applied == {"tail-left-out": 1}, "the last words of the user"


def test_the_sides_and_their_rewards_are_not_swapped(run: Run) -> None:
    row = _row(*two_runs(run))
    assert (row.chosen[-1]["content"], row.rejected[-1]["content"]) == ("5", "4")
    assert (row.chosen_id, row.rejected_id) == ("good", "bad")
    assert (row.chosen_reward, row.rejected_reward) == (1.0, 0.0)


def test_a_pair_of_steps_is_one_turn_a_side_without_its_results(run: Run) -> None:
    good, bad = two_runs(run)
    row = _row(good, bad, level="step", n_prompt_steps=2, chosen_step=2, rejected_step=2)
    assert _roles(row.prompt) == ["system", "user"]
    assert row.prompt[1]["content"] == "2+?", "the prompt is the chosen run's"
    assert _roles(row.chosen) == _roles(row.rejected) == ["assistant"]
    assert row.chosen[0]["tool_calls"][0]["function"]["arguments"] == {"a": 2}
    assert row.is_single_turn()
    assert row.applied == {}, "a side has no results by design, so no call counts as unanswered"


def test_a_cap_cuts_a_side_after_the_step_that_it_names(run: Run) -> None:
    good, bad = two_runs(run)
    row = _row(bad, good, rejected_step=2)
    assert _roles(row.rejected) == ["user", "assistant"]
    assert row.rejected[-1]["tool_calls"]


def test_a_goal_that_nobody_spoke_is_the_prompt(run: Run) -> None:
    good, bad = (
        run(Step(actor="agent", text=text), trajectory_id=text, goal="2 + 3?")
        for text in ("5", "4")
    )
    row = _row(good, bad, n_prompt_steps=0)
    assert row.prompt == [{"role": "user", "content": "2 + 3?"}]
    assert row.chosen == [{"role": "assistant", "content": "5"}]


def test_merging_users_never_crosses_the_end_of_the_prompt(run: Run) -> None:
    good, bad = (
        run(
            Step(actor="user", text="first"),
            Step(actor="user", text=f"and {text}"),
            Step(actor="agent", text=text),
            trajectory_id=text,
        )
        for text in ("5", "4")
    )
    options = PairRowOptions(consecutive="merge")
    (row,) = pair_rows(pair_of(good, bad), runs_of(good, bad), options)
    assert isinstance(row, PairRow)
    assert [m["content"] for m in (*row.prompt, *row.chosen)] == ["first", "and 5", "5"]


def test_a_format_error_may_carry_loss_where_it_was_what_was_worse(run: Run) -> None:
    question = Step(actor="user", text="q")
    broken = Step(actor="agent", text="?", format_error=True)
    good = run(question, broken, Step(actor="agent", text="a"), trajectory_id="good")
    bad = run(question, broken, Step(actor="agent", text="b"), trajectory_id="bad")
    row = _row(good, bad)
    assert row.chosen_trainable == [False, True]
    assert row.rejected_trainable == [True, True]


def test_copied_context_never_carries_loss(run: Run) -> None:
    question = Step(actor="user", text="q")
    copied = Step(actor="agent", text="old", is_copied=True)
    good = run(question, copied, Step(actor="agent", text="a"), trajectory_id="good")
    bad = run(question, copied, Step(actor="agent", text="b"), trajectory_id="bad")
    row = _row(good, bad)
    assert row.chosen_trainable == row.rejected_trainable == [False, True]


def test_a_run_that_the_snapshot_does_not_hold_is_refused(run: Run) -> None:
    good, bad = two_runs(run)
    (row,) = pair_rows(pair_of(good, bad), runs_of(good))
    assert isinstance(row, Refused)
    assert (row.id, row.reason) == ("p1", "unknown-run")
    assert "pair p1 (good over bad): run bad" in row.detail
    assert "build the pairs at the snapshot" in row.detail


def test_a_pair_that_names_steps_which_are_not_there_is_refused(run: Run) -> None:
    assert _refusal(*two_runs(run), rejected_step=7).reason == "changed-run"
    assert _refusal(*two_runs(run), n_prompt_steps=9).reason == "changed-run"


def test_sides_that_become_equal_are_refused(run: Run) -> None:
    question = Step(actor="user", text="q")
    good, bad = (
        run(question, Step(actor="agent", text="a", reasoning=r), trajectory_id=r)
        for r in ("well thought", "guessed")
    )
    assert isinstance(_row(good, bad), PairRow)
    refusal = _refusal(good, bad, PairRowOptions(include_reasoning=False))
    assert refusal.reason == "identical-sides"


def test_calls_with_other_arguments_are_no_equal_sides(run: Run) -> None:
    question = Step(actor="user", text="q")
    good, bad = (
        run(
            question,
            Step(actor="agent", tool_calls=(ToolCall.of("f", {"x": x}, "c"),)),
            trajectory_id=str(x),
        )
        for x in (1, 2)
    )
    assert _row(good, bad).chosen != _row(good, bad).rejected


def test_a_side_of_copied_turns_alone_is_refused(run: Run) -> None:
    good, _ = two_runs(run)
    question = Step(actor="user", text="q")
    bad = run(
        good.steps[0],
        question,
        Step(actor="agent", text="old", is_copied=True),
        trajectory_id="bad",
    )
    assert _refusal(good, bad).reason == "nothing-to-train"


def test_media_and_broken_arguments_are_refused_with_the_way_out(run: Run) -> None:
    good, bad = two_runs(run)
    picture = replace(bad.steps[1], content='[{"type":"image","data":"x"}]')
    seen = replace(bad, steps=(bad.steps[0], picture, bad.steps[2]))
    refusal = _refusal(good, seen)
    assert refusal.reason == "media"
    assert "media='mark'" in refusal.detail
    broken = Step(actor="agent", tool_calls=(ToolCall.of("f", "{broken", "c"),))
    refusal = _refusal(good, replace(bad, steps=(*bad.steps[:2], broken)))
    assert refusal.reason == "arguments"
    assert "call 'c' of 'f'" in refusal.detail


def test_a_table_of_something_else_is_an_error(run: Run) -> None:
    good, bad = two_runs(run)
    table = pair_of(good, bad).drop_columns(["chosen_id"])
    with pytest.raises(ExportError, match="no column 'chosen_id'; give a table that"):
        list(pair_rows(table, runs_of(good, bad)))


def test_runs_are_asked_for_64_pairs_at_a_time(run: Run) -> None:
    good, bad = two_runs(run)
    asked: list[int] = []

    def give(ids: Any) -> list[Trajectory]:
        asked.append(len(ids))
        return [good, bad]

    pairs = pa.concat_tables([pair_of(good, bad, pair_id=str(i)) for i in range(130)])
    assert len(list(pair_rows(pairs, give))) == 130
    assert asked == [2, 2, 2], "each id once a batch of pairs"


def test_observations_of_a_prompt_stay_in_it(run: Run) -> None:
    call = ToolCall.of("f", {}, "c")
    shared = (
        Step(actor="user", text="q"),
        Step(
            actor="agent",
            tool_calls=(call,),
            observations=(Observation(text="r", call_id="c"),),
        ),
    )
    good, bad = (run(*shared, Step(actor="agent", text=t), trajectory_id=t) for t in ("a", "b"))
    row = _row(good, bad, n_prompt_steps=2)
    assert _roles(row.prompt) == ["user", "assistant", "tool"]
