from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from tests.exports.conftest import Run
from tests.trainers.chat_templates import LLAMA_3, MISTRAL, PLAIN_CHATML, QWEN
from tests.trainers.conftest import MakeTokenizer
from trajstore.errors import TrainingError
from trajstore.rollouts.encoding import encode
from trajstore.rollouts.templates import CHATML, render, template_of
from trajstore.schema import Step, ToolCall, Trajectory
from trajstore.trainers.tokenise import tokenise

pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("text", "eos", "arguments", "length"),
    [
        (QWEN, "<|im_end|>", "text", None),
        (LLAMA_3, "<|eot_id|>", "object", None),
        (MISTRAL, "</s>", "object", 9),
    ],
    ids=["qwen", "llama", "mistral"],
)
def test_a_template_is_asked_what_it_can_say(
    make_tokenizer: MakeTokenizer, text: str, eos: str, arguments: str, length: int | None
) -> None:
    found = template_of(make_tokenizer(text, eos=eos))
    assert (found.arguments, found.call_id_length) == (arguments, length)
    assert found.end_of_turn == eos


def test_a_template_without_tools_is_refused_with_the_way_out(
    make_tokenizer: MakeTokenizer,
) -> None:
    with pytest.raises(
        TrainingError, match=r"does not show definitions of tools and calls.*chatml"
    ):
        template_of(make_tokenizer(PLAIN_CHATML))


def test_a_tokenizer_without_a_template_is_refused(tokenizer: Any) -> None:
    with pytest.raises(TrainingError, match="no chat template"):
        template_of(tokenizer)


def test_chatml_writes_tools_calls_and_results_as_hermes_does(tokenizer: Any) -> None:
    function = {"name": "add", "arguments": '{"a": 1}'}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1+?"},
        {
            "role": "assistant",
            "content": "So:",
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "2"},
    ]
    text = render(tokenizer, CHATML, messages, [{"type": "function"}], ask=True)
    head, tail = text.split("<|im_end|>\n", 1)
    assert head.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n")
    assert '<tools>\n{"type": "function"}\n</tools>' in head
    assert tail == (
        "<|im_start|>user\n1+?<|im_end|>\n"
        '<|im_start|>assistant\nSo:\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n'
        "</tool_call><|im_end|>\n"
        "<|im_start|>tool\n<tool_response>\n2\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_more_messages_never_change_the_text_of_earlier_ones_in_chatml(tokenizer: Any) -> None:
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning_content": "c"},
        {"role": "tool", "content": "x"},
        {"role": "assistant", "content": "d"},
        {"role": "user", "content": "e"},
    ]
    texts = [render(tokenizer, CHATML, messages[: n + 1], None) for n in range(len(messages))]
    for shorter, longer in itertools.pairwise(texts):
        assert longer.startswith(shorter)


def test_a_tokenizer_that_changes_text_is_refused() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel({"x": 0, "y": 1, "z": 2}, "x"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=raw)
    with pytest.raises(TrainingError, match="does not give text back"):
        encode(["x"], made)


def test_a_template_that_marks_no_turn_cannot_be_append_only(run: Run, tokenizer: Any) -> None:
    text = CHATML.text.replace("m['role'] == 'assistant'", "m['role'] == 'nobody'", 1)
    wrong = replace(CHATML, text=text)
    with pytest.raises(TrainingError, match="marks 0 of 1 turns"):
        tokenise(run(Step(actor="user", text="q"), Step(actor="agent", text="a")), tokenizer, wrong)


def test_without_the_promise_our_template_gives_the_same_rows(
    tokenizer: Any, sum_run: Trajectory
) -> None:
    (once,) = tokenise(sum_run, tokenizer, CHATML)
    (by_turn,) = tokenise(sum_run, tokenizer, replace(CHATML, append_only=False))
    assert once.token_ids.tolist() == by_turn.token_ids.tolist()
    assert once.action_mask.tolist() == by_turn.action_mask.tolist()


def test_messages_that_a_template_refuses_are_told(run: Run, make_tokenizer: MakeTokenizer) -> None:
    tokenizer = make_tokenizer(LLAMA_3, eos="<|eot_id|>")
    calls = (ToolCall.of("f", {}), ToolCall.of("g", {}))
    whole = run(Step(actor="user", text="q"), Step(actor="agent", tool_calls=calls))
    with pytest.raises(TrainingError, match=r"refuses the messages: .*single tool-calls"):
        tokenise(whole, tokenizer, template_of(tokenizer))


def test_arguments_that_a_template_cannot_parse_are_told(
    run: Run, make_tokenizer: MakeTokenizer
) -> None:
    tokenizer = make_tokenizer(LLAMA_3, eos="<|eot_id|>")
    whole = run(
        Step(actor="user", text="q"), Step(actor="agent", tool_calls=(ToolCall.of("f", "{x"),))
    )
    with pytest.raises(TrainingError, match=r"takes parsed arguments, and call .* are no JSON"):
        tokenise(whole, tokenizer, template_of(tokenizer))


def test_slow_tokenizers_give_the_same_tokens(tokenizer: Any) -> None:
    class Slow:
        def __call__(self, text: str, **options: Any) -> Any:
            return tokenizer(text, **options)

        def decode(self, ids: list[int], **options: Any) -> Any:
            return tokenizer.decode(ids, **options)

    texts = ["a b", "<|im_start|>user\nß"]
    assert encode(texts, Slow()) == encode(texts, tokenizer)
