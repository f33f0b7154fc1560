from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.errors import ExportError
from trajstore.exports import REFUSALS, Refusal, SftOptions, SftRow, chat_messages, sft_rows
from trajstore.schema import Observation, Step, ToolCall, Trajectory
from trajstore.testing import generate

Run = Callable[..., Trajectory]

_USER = Step(actor="user", text="q")
_SPLIT = SftOptions(layout="prompt-completion")


def _agent(text: str, **values: Any) -> Step:
    return Step(actor="agent", text=text, **values)


def _bad(text: str) -> Step:
    return _agent(text, format_error=True)


def _row(run: Trajectory, options: SftOptions = SftOptions()) -> SftRow:  # noqa: B008 - frozen
    (row,) = sft_rows([run], options=options)
    assert isinstance(row, SftRow)
    return row


def _refused(run: Trajectory, options: SftOptions = SftOptions()) -> Refusal:  # noqa: B008
    (refusal,) = sft_rows([run], options=options)
    assert isinstance(refusal, Refusal)
    return refusal


def _rows(run: Trajectory, options: SftOptions) -> list[SftRow]:
    return [r for r in sft_rows([run], options=options) if isinstance(r, SftRow)]


def test_a_row_has_the_columns_that_trl_reads_and_its_provenance(sum_run: Trajectory) -> None:
    record = _row(sum_run).record("messages")
    assert list(record) == [
        "messages",
        "tools",
        "trainable",
        "trajectory_id",
        "task_id",
        "reward",
    ]
    assert (record["trajectory_id"], record["task_id"], record["reward"]) == ("t", "sums/1", 1.0)
    assert record["trainable"] == [False, False, True, False, True]


def test_arguments_are_objects_as_trl_documents(sum_run: Trajectory) -> None:
    function = _row(sum_run).messages[2]["tool_calls"][0]["function"]
    assert function == {"name": "add", "arguments": {"a": 2, "b": 3, "note": None}}


def test_arguments_can_stay_text(sum_run: Trajectory) -> None:
    assert _row(sum_run, SftOptions(arguments="text")).messages == chat_messages(sum_run)


def test_tools_are_json_text_of_definitions(sum_run: Trajectory) -> None:
    (tool,) = json.loads(_row(sum_run).tools or "")
    assert tool["function"]["name"] == "add"


def test_a_run_without_tools_has_null(run: Run) -> None:
    assert _row(run(_USER, _agent("a"))).tools is None


@pytest.mark.parametrize("reward", [None, float("nan"), float("inf")])
def test_a_reward_that_json_cannot_say_is_null(run: Run, reward: float | None) -> None:
    assert _row(run(_agent("a"), reward=reward)).reward is None


def test_reasoning_is_left_out_when_asked(sum_run: Trajectory) -> None:
    (row,) = sft_rows([sum_run], include_reasoning=False)
    assert isinstance(row, SftRow)
    assert not any("reasoning_content" in m for m in row.messages)


def test_the_outcome_is_not_looked_at(run: Run) -> None:
    runs = [run(_agent("a"), success=success) for success in (True, False, None)]
    rows = [r for r in sft_rows(runs) if isinstance(r, SftRow)]
    assert [r.success for r in rows] == [True, False, None]


def test_a_run_without_steps_is_refused_by_its_id(run: Run) -> None:
    refusal = _refused(run())
    assert (refusal.trajectory_id, refusal.reason) == ("t", "no-steps")


@pytest.mark.parametrize(
    "steps",
    [
        (_USER,),
        (_USER, _agent("a", is_copied=True)),
        (_USER, _bad("a")),
        (_USER, _agent("")),
    ],
)
@pytest.mark.parametrize("layout", ["messages", "prompt-completion"])
def test_a_run_without_a_turn_to_train_on_is_refused(
    run: Run, steps: tuple[Step, ...], layout: Any
) -> None:
    assert _refused(run(*steps), SftOptions(layout=layout)).reason == "nothing-to-train"


@pytest.mark.parametrize("masked", [_bad("x"), _agent("x", is_copied=True)])
def test_messages_with_a_masked_turn_are_refused_with_the_way_out(run: Run, masked: Step) -> None:
    refusal = _refused(run(_USER, masked, _agent("a")))
    assert refusal.reason == "masked-turn"
    assert "layout='prompt-completion'" in refusal.detail


def test_messages_with_a_masked_turn_can_be_kept(run: Run) -> None:
    row = _row(run(_USER, _bad("x"), _agent("a")), SftOptions(masked_turns="keep"))
    assert row.trainable == [False, False, True]
    assert row.applied == {"masked-turn": 1}


def test_media_is_refused_unless_marked(run: Run) -> None:
    seen = run(Step(actor="user", text=None, content='[{"type":"image"}]'), _agent("a"))
    assert _refused(seen).reason == "media"
    assert _row(seen, SftOptions(media="mark")).messages[0]["content"] == "[image]"


def test_arguments_that_are_no_object_are_refused_with_their_call(run: Run) -> None:
    step = Step(actor="agent", tool_calls=(ToolCall.of("bash", "ls -la", "c7"),))
    refusal = _refused(run(_USER, step))
    assert refusal.reason == "arguments"
    assert "call 'c7' of 'bash': arguments are no JSON: 'ls -la'" in refusal.detail
    text = _row(run(_USER, step), SftOptions(arguments="text"))
    assert text.messages[1]["tool_calls"][0]["function"]["arguments"] == "ls -la"


def test_a_refusal_costs_no_other_run(run: Run) -> None:
    runs = [run(), run(_USER, _agent("a"), trajectory_id="good"), run()]
    assert [type(r) for r in sft_rows(runs)] == [Refusal, SftRow, Refusal]


def test_rows_come_one_at_a_time() -> None:
    assert next(iter(sft_rows(generate(10**9)))).trajectory_id


def test_a_prompt_ends_before_the_first_trained_turn(run: Run) -> None:
    system = Step(actor="system", text="s")
    (row,) = _rows(run(system, _USER, _agent("a"), _USER, _agent("b"), _USER), _SPLIT)
    record = row.record("prompt-completion")
    assert [m["content"] for m in record["prompt"]] == ["s", "q"]
    assert [m["content"] for m in record["completion"]] == ["a", "q", "b"]
    assert "messages" not in record


def test_copied_context_is_prompt(run: Run) -> None:
    (row,) = _rows(run(_USER, _agent("old", is_copied=True), _agent("new")), _SPLIT)
    record = row.record("prompt-completion")
    assert [m["content"] for m in record["completion"]] == ["new"]


def test_a_masked_turn_in_the_middle_splits_the_run(run: Run) -> None:
    rows = _rows(run(_USER, _agent("a"), _bad("x"), _USER, _agent("b"), _agent("c")), _SPLIT)
    halves = [r.record("prompt-completion") for r in rows]
    assert [[m["content"] for m in h["prompt"]] for h in halves] == [["q"], ["q", "a", "x", "q"]]
    assert [[m["content"] for m in h["completion"]] for h in halves] == [["a"], ["b", "c"]]


def test_a_masked_turn_at_the_end_is_cut_off(run: Run) -> None:
    rows = _rows(run(_USER, _agent("a"), _bad("x"), _bad("y")), _SPLIT)
    assert [[m["content"] for m in r.messages] for r in rows] == [["q", "a"]]


def test_an_agent_turn_that_opens_the_run_is_prompt(run: Run) -> None:
    (row,) = _rows(run(_agent("hello"), _USER, _agent("a")), _SPLIT)
    record = row.record("prompt-completion")
    assert [m["content"] for m in record["prompt"]] == ["hello", "q"]
    assert row.trainable == [False, False, True]
    assert row.applied == {"opening-as-prompt": 1}


def test_a_single_agent_turn_has_no_prompt(run: Run) -> None:
    assert _refused(run(_agent("a")), _SPLIT).reason == "no-prompt"
    assert _row(run(_agent("a"), goal="Do it."), _SPLIT).prompt_length == 1


def test_what_comes_after_the_last_agent_turn_is_left_out(run: Run) -> None:
    row = _row(run(_USER, _agent("a"), _USER, Step(actor="environment", text="e")))
    assert [m["content"] for m in row.messages] == ["q", "a"]
    assert row.applied == {"event-as-user": 1, "tail-left-out": 2}


def test_rules_are_counted_once_for_a_run_of_several_rows(run: Run) -> None:
    rows = _rows(run(_USER, _agent("a"), _bad("x"), _agent("b")), _SPLIT)
    assert [r.applied for r in rows] == [{"masked-turn": 1}, {}]


def test_an_unknown_trainer_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ExportError, match="'megatron'; known are trl"):
        list(sft_rows([], to="megatron"))  # type: ignore[arg-type]  # the mistake under test


def test_an_unknown_choice_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        ExportError, match="layout is 'chat'; it must be one of 'messages', 'prompt"
    ):
        SftOptions(layout="chat")  # type: ignore[arg-type]  # the mistake under test


def test_every_refusal_says_what_to_do_or_why(run: Run) -> None:
    reasons = {_refused(run()).reason, _refused(run(_agent("a")), _SPLIT).reason}
    assert reasons <= set(REFUSALS)


_steps = st.lists(
    st.sampled_from(
        [
            _USER,
            _agent("a"),
            _agent("a", is_copied=True),
            _bad("x"),
            Step(actor="agent", text="r", observations=(Observation(text="o"),)),
        ]
    ),
    max_size=9,
)


@given(_steps)
def test_split_rows_train_on_each_own_turn_once_and_on_nothing_else(steps: list[Step]) -> None:
    named = [
        Step(
            **{f: getattr(s, f) for f in ("actor", "is_copied", "format_error", "observations")},
            text=f"{s.text}{i}",
        )
        for i, s in enumerate([_USER, *steps])
    ]
    whole = Trajectory(trajectory_id="t", task_id="t", source="s", steps=tuple(named))
    halves = [r.record("prompt-completion") for r in _rows(whole, _SPLIT)]
    trained = [m["content"] for h in halves for m in h["completion"] if m["role"] == "assistant"]
    own = [s.text for s in named if s.actor == "agent" and not s.is_copied and not s.format_error]
    assert trained == own
    assert all(h["completion"][-1]["role"] == "assistant" and h["prompt"] for h in halves)


@given(_steps)
def test_a_split_row_is_a_prefix_of_the_run(steps: list[Step]) -> None:
    whole = Trajectory(trajectory_id="t", task_id="t", source="s", steps=(_USER, *steps))
    messages = chat_messages(whole)
    for row in _rows(whole, _SPLIT):
        assert row.messages == messages[: len(row.messages)]
        assert len(row.trainable) == len(row.messages)
        assert not any(row.trainable[: row.prompt_length])
