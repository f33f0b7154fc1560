from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trainers.chat_templates import QWEN
from tests.trainers.conftest import make_tokenizer, tokenizer
from trajstore.errors import TrainingError
from trajstore.rollouts import Action, CalculatorEnvironment, Limits, Response, Task, run_rollouts
from trajstore.rollouts.dialect import Dialect
from trajstore.rollouts.templates import BARE, CHATML, ChatTemplate, render, template_of
from trajstore.schema import Trajectory
from trajstore.trainers import RowOptions, tokenise

pytest.importorskip("transformers")
np = pytest.importorskip("numpy")
__all__ = ["make_tokenizer", "tokenizer"]

USER = {"role": "user", "content": "How much is 2 + 3?"}
TASK = Task(task_id="calculator/t/1", goal="How much is 2 + 3?", answer="5")
CALL = '<tool_call>\n{"name": "calculate", "arguments": {"expression":  "2 + 3"}}\n</tool_call>'


@pytest.fixture
def dialect(tokenizer: Any) -> Dialect:
    return Dialect(tokenizer)


def ids_of(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def read(dialect: Dialect, text: str) -> tuple[Action, bool]:
    return dialect.read(ids_of(dialect.tokenizer, text))


def test_a_call_keeps_its_arguments_as_they_were_written(dialect: Dialect) -> None:
    action, broken = read(dialect, CALL + "<|im_end|>")
    (call,) = action.tool_calls
    assert (call.name, call.arguments_raw) == ("calculate", '{"expression":  "2 + 3"}')
    assert call.arguments == '{"expression":"2 + 3"}'
    assert (action.text, action.reasoning, broken) == (None, None, False)


def test_text_around_calls_is_the_text_and_calls_stay_in_order(dialect: Dialect) -> None:
    second = CALL.replace("2 + 3", "7 * 7").replace("calculate", "search")
    action, broken = read(dialect, f"First.\n{CALL}\nThen.\n{second}\nDone.<|im_end|>")
    assert [c.name for c in action.tool_calls] == ["calculate", "search"]
    assert [c.call_id for c in action.tool_calls] == ["call_1", "call_2"]
    assert action.text is not None
    assert action.text.split() == ["First.", "Then.", "Done."]
    assert not broken


def test_ids_go_on_from_the_calls_of_earlier_turns(dialect: Dialect) -> None:
    action, _ = dialect.read(ids_of(dialect.tokenizer, CALL), calls_before=4)
    assert action.tool_calls[0].call_id == "call_5"


def test_arguments_that_are_no_json_are_kept_and_flagged(dialect: Dialect) -> None:
    """The last bracket is missing, as the scripted agent's fault writes it."""
    text = CALL.replace('"2 + 3"}}', '"2 + 3"}')
    action, broken = read(dialect, text)
    assert action.tool_calls[0].arguments_raw == '{"expression":  "2 + 3"'
    assert action.tool_calls[0].arguments is None
    assert broken


@pytest.mark.parametrize(
    "body",
    ["calculate(2 + 3)", '{"arguments": {}}', '["calculate"]', '{"name": 3, "arguments": {}}', ""],
    ids=["code", "no-name", "list", "number-as-name", "empty"],
)
def test_what_is_no_call_stays_in_the_text(dialect: Dialect, body: str) -> None:
    text = f"Now.\n<tool_call>\n{body}\n</tool_call>"
    action, broken = read(dialect, text)
    assert (action.text, action.tool_calls, broken) == (text, (), True)


@pytest.mark.parametrize("arguments", ["[1]", '"2 + 3"', "3", "null"])
def test_arguments_that_are_no_object_are_a_format_error(dialect: Dialect, arguments: str) -> None:
    _, broken = read(dialect, CALL.replace('{"expression":  "2 + 3"}', arguments))
    assert broken


def test_keys_in_another_order_are_read_too(dialect: Dialect) -> None:
    action, broken = read(
        dialect, '<tool_call>{"arguments": {"answer": "5"}, "name": "finish"}</tool_call>'
    )
    assert (action.tool_calls[0].name, broken) == ("finish", False)
    assert json.loads(action.tool_calls[0].arguments or "") == {"answer": "5"}


def test_reasoning_is_told_from_text(dialect: Dialect) -> None:
    action, broken = read(dialect, f"<think>\nAdd <tool_call> them.\n</think>\n\nSo:\n{CALL}")
    assert (action.reasoning, action.text) == ("Add <tool_call> them.", "So:")
    assert (len(action.tool_calls), broken) == (1, False)


def test_reasoning_that_the_prompt_opened_is_reasoning(dialect: Dialect) -> None:
    action, broken = read(dialect, "Add them.\n</think>\n\n5")
    assert (action.reasoning, action.text, broken) == ("Add them.", "5", False)


@pytest.mark.parametrize("text", ["<think>\nI should", 'Now <tool_call>\n{"name": "calc'])
def test_an_output_that_was_cut_off_is_a_format_error(dialect: Dialect, text: str) -> None:
    action, broken = read(dialect, text)
    assert (action.text, action.tool_calls, broken) == (text, (), True)


def test_nothing_behind_the_end_of_turn_is_read(dialect: Dialect) -> None:
    action, _ = read(dialect, "Five.<|im_end|>\n<|im_start|>user\nThanks")
    assert action.text == "Five."


def test_the_prompt_is_the_template_s_text(dialect: Dialect) -> None:
    tools = CalculatorEnvironment().tools
    text = dialect.tokenizer.decode(dialect.prompt([USER], tools))
    assert text == render(dialect.tokenizer, CHATML, [USER], tools, ask=True)


def said(dialect: Dialect, written: list[int]) -> dict[str, Any]:
    """A turn of the assistant as an attempt hands it on."""
    action, _ = dialect.read(written)
    return {
        "role": "assistant",
        "content": action.text,
        "prompt_token_ids": tuple(dialect.prompt([USER], [])),
        "completion_token_ids": tuple(written),
    }


def test_the_next_prompt_goes_on_from_the_sampled_tokens(dialect: Dialect) -> None:
    """The word is sampled letter by letter, which no tokenizer would do."""
    letters = [i for letter in "should" for i in ids_of(dialect.tokenizer, letter)]
    assert ids_of(dialect.tokenizer, "should") != letters
    turn = said(dialect, [*letters, dialect.end_of_turn])
    after = dialect.prompt([USER, turn, {"role": "user", "content": "Go on."}], [])
    start = [*turn["prompt_token_ids"], *turn["completion_token_ids"]]
    assert after[: len(start)] == start
    assert dialect.tokenizer.decode(after[len(start) :]) == (
        "\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_turn_that_was_cut_off_gets_its_end_in_the_next_prompt(dialect: Dialect) -> None:
    turn = said(dialect, ids_of(dialect.tokenizer, "I was about to"))
    after = dialect.prompt([USER, turn, {"role": "user", "content": "Go on."}], [])
    assert "I was about to<|im_end|>\n<|im_start|>user" in dialect.tokenizer.decode(after)


def test_a_template_that_rewrites_earlier_turns_is_obeyed(make_tokenizer: Any) -> None:
    """Qwen's drops the reasoning of turns before the newest question."""
    tokenizer = make_tokenizer(QWEN)
    dialect = Dialect(tokenizer, template_of(tokenizer))
    turn = said(dialect, ids_of(tokenizer, "<think>\nHm.\n</think>\n\nFive.<|im_end|>"))
    turn["reasoning_content"] = "Hm."
    text = tokenizer.decode(dialect.prompt([USER, turn, {**USER, "content": "Sure?"}], []))
    assert "Five.<|im_end|>\n<|im_start|>user\nSure?" in text
    assert "Hm." not in text


def test_an_end_of_turn_of_several_tokens_is_refused(tokenizer: Any) -> None:
    odd = ChatTemplate(name="odd", text=CHATML.text, end_of_turn="<end of turn>")
    with pytest.raises(TrainingError, match=r"'odd'.*special token"):
        Dialect(tokenizer, odd)


class Sampler:
    """A policy that writes given tokens, each with a log-probability of its own."""

    agent, model, version = "sampler", None, "v1"

    def __init__(self, dialect: Dialect, turns: list[list[int]]) -> None:
        self.dialect, self.turns, self.count = dialect, turns, 0

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        del seed
        written = tuple(self.turns[self.count])
        self.count += 1
        action, broken = self.dialect.read(written)
        return Response(
            action=action,
            format_error=broken,
            prompt_token_ids=tuple(self.dialect.prompt(messages, tools)),
            completion_token_ids=written,
            logprobs=tuple(-0.25 * n for n in range(1, len(written) + 1)),
            sampling={"temperature": 1.0, "logprobs_mode": "processed_logprobs"},
        )


def rolled_out(dialect: Dialect, turns: list[list[int]]) -> Trajectory:
    policy = Sampler(dialect, turns)
    limits = Limits(max_steps=len(turns))
    (run,) = run_rollouts(CalculatorEnvironment, policy, [TASK], limits=limits)
    assert run.status != "error", run.error
    return run


TEXTS = st.sampled_from(["", "Five.", CALL, "<think>\nHm.\n</think>\n\nSo.", CALL[:-20], "é"])
TURNS = st.lists(
    st.tuples(TEXTS, st.lists(st.integers(20, 599), max_size=12), st.booleans()),
    min_size=1,
    max_size=4,
)


@given(turns=TURNS, template=st.sampled_from([CHATML, BARE]))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_row_of_a_run_holds_exactly_the_sampled_tokens(
    tokenizer: Any, turns: list[tuple[str, list[int], bool]], template: ChatTemplate
) -> None:
    """Whatever tokens are sampled, with or without an end of turn, parsed or not."""
    dialect = Dialect(tokenizer, template)
    written = [
        [*ids_of(tokenizer, text), *noise, *([dialect.end_of_turn] if ended or not text else [])]
        for text, noise, ended in turns
    ]
    run = rolled_out(dialect, written)
    (row,) = tokenise(run, tokenizer, template, options=RowOptions(train_format_errors=True))
    steps = [s for s in run.steps if s.actor == "agent"]
    sampled = [t for s in steps for t in s.completion_token_ids or ()]
    assert row.token_ids[row.action_mask].tolist() == sampled
    assert row.old_logprobs is not None
    stored = [p for s in steps for p in s.logprobs or ()]
    assert row.old_logprobs[row.action_mask].tolist() == pytest.approx(stored)
    assert not row.old_logprobs[~row.action_mask].any()
    last = steps[-1]
    assert row.token_ids.tolist() == [
        *(last.prompt_token_ids or ()),
        *(last.completion_token_ids or ()),
    ]
