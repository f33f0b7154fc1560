"""Stored tokens are used where they are this tokenizer's, log-probabilities where they fit."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.exports.conftest import Run
from trajstore.errors import TrainingError
from trajstore.rollouts.dialect import Dialect
from trajstore.schema import Step, ToolCall, Trajectory
from trajstore.trainers.sampled import CUT_DISTRIBUTION, FOREIGN, NO_LOGPROBS, RAW, foreign
from trajstore.trainers.tokenise import tokenise

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

WRITTEN = "I add the two numbers now."


def ids(text: str, tokenizer: Any) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def sampled(written: str, tokenizer: Any, **changes: Any) -> Step:
    """A turn whose tokens spell ``written``; its text is the same unless given."""
    produced = ids(f"{written}<|im_end|>", tokenizer)
    given: dict[str, Any] = {
        "actor": "agent",
        "text": written,
        "prompt_token_ids": ids("<|im_start|>user\nq", tokenizer),
        "completion_token_ids": produced,
        "logprobs": (-0.5,) * len(produced),
        **changes,
    }
    return Step(**given)


def asked(run: Run, *steps: Step) -> Trajectory:
    return run(Step(actor="user", text="q"), *steps)


@pytest.fixture(scope="module")
def other() -> Any:
    """A tokenizer of the same bytes under other ids, and of fewer tokens."""
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    letters = {c: i for i, c in enumerate(sorted(byte_level.alphabet(), reverse=True))}
    raw = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=letters, merges=[]))
    raw.pre_tokenizer = byte_level(add_prefix_space=False, use_regex=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    raw.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>")


def test_tokens_of_another_tokenizer_are_made_anew_from_the_text(
    run: Run, tokenizer: Any, other: Any
) -> None:
    whole = asked(run, sampled(WRITTEN, other))
    (row,) = tokenise(whole, tokenizer)
    assert tokenizer.decode(row.token_ids[row.action_mask]) == f"{WRITTEN}<|im_end|>"
    assert (row.stored, row.old_logprobs, row.unused) == (False, None, (FOREIGN,))


def test_tokens_of_this_tokenizer_keep_their_logprobs(run: Run, tokenizer: Any) -> None:
    (row,) = tokenise(asked(run, sampled(WRITTEN, tokenizer)), tokenizer)
    assert (row.stored, row.unused) == (True, ())
    assert row.old_logprobs is not None


@pytest.mark.parametrize("bad", [-5, 600, 151_668])
@pytest.mark.parametrize("name", ["prompt_token_ids", "completion_token_ids"])
def test_tokens_outside_the_vocabulary_are_never_used(
    run: Run, tokenizer: Any, name: str, bad: int
) -> None:
    step = sampled(WRITTEN, tokenizer)
    wrong = replace(step, **{name: (*(getattr(step, name)[:-1]), bad)})
    (row,) = tokenise(asked(run, wrong), tokenizer)
    assert row.unused == (FOREIGN,)
    assert 0 <= row.token_ids.min() <= row.token_ids.max() < 600


def test_one_step_of_another_tokenizer_tells_of_its_whole_run(
    run: Run, tokenizer: Any, other: Any
) -> None:
    """A short turn may be spelled alike by chance."""
    whole = asked(run, sampled(WRITTEN, tokenizer), sampled("And now I answer.", other))
    rows = tokenise(whole, tokenizer)
    assert {r.stored for r in rows} == {False}


def test_tokens_that_no_text_confirms_are_refused(run: Run, tokenizer: Any, other: Any) -> None:
    silent = sampled(WRITTEN, other, text=None)
    with pytest.raises(TrainingError, match=r"token ids that are not of this tokenizer"):
        tokenise(asked(run, silent), tokenizer)


def test_a_silent_turn_counts_as_those_beside_it(run: Run, tokenizer: Any) -> None:
    whole = asked(run, sampled("", tokenizer, text=None), sampled(WRITTEN, tokenizer))
    assert foreign(whole, [1, 2], tokenizer) is None
    assert foreign(whole, [1], tokenizer) is None


FORMS = {
    "hermes": 'Let me add.\n<tool_call>\n{"name": "add", "arguments": {"a":2,"note":"x\\n\\u00e9"}}'
    "\n</tool_call>",
    "xml": "Let me add.\n<tool_call><function=add><parameter=a>2</parameter>"
    "<parameter=note>x\né</parameter></function></tool_call>",
    "pythonic": 'Let me add.[add(a=2, note="x\\né")]',
    "llama": 'Let me add.{"type": "function", "name": "add", "parameters": {"note": "x\\né", '
    '"a": 2.0}}',
    "thought": "<think>\nLet me add.</think>[TOOL_CALLS]add{'a': 2, 'note': 'x é'}",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_call_may_be_written_in_any_form(run: Run, tokenizer: Any, other: Any, form: str) -> None:
    call = ToolCall.of("add", {"a": 2, "note": "x\né"}, "c")
    place = "reasoning" if form.startswith("<think>") else "text"
    said = {"text": None, place: "Let me add."}
    step = sampled(form, tokenizer, tool_calls=(call,), **said)
    assert foreign(asked(run, step), [1], tokenizer) is None
    strange = sampled(form, other, tool_calls=(call,), **said)
    assert foreign(asked(run, strange), [1], tokenizer) is not None


TURNS = {
    "joined": 'a<tool_call>{"name": "f", "arguments": {"x": "1"}}</tool_call>b c',
    "broken call": "I call <tool_call>{f: </tool_call> now",
    "unfinished thought": "<think>let me see",
    "escapes": '<tool_call>{"name": "f", "arguments": {"code": "print(\\"a\\\\nb\\")\\n\\tx"}}'
    "</tool_call>",
    "no JSON": '<tool_call>{"name": "f", "arguments": {"code": }}</tool_call>',
    "marks": "</think>!!!",
    "half a letter": "caf\ufffd",
    "special": "<|im_start|>user hello",
}


@pytest.mark.parametrize("written", TURNS.values(), ids=TURNS)
def test_what_the_dialect_reads_agrees_with_its_tokens(
    run: Run, tokenizer: Any, written: str
) -> None:
    step = sampled(written, tokenizer)
    action, _ = Dialect(tokenizer).read(step.completion_token_ids or ())
    told = replace(step, text=action.text, reasoning=action.reasoning, tool_calls=action.tool_calls)
    assert foreign(asked(run, told), [1], tokenizer) is None


PARTS = [
    *("<tool_call>", "</tool_call>", "<think>", "</think>", '{"name": "', "f", '", "arguments": '),
    *(
        '{"a": "',
        "\\n",
        "\\u00e9",
        "\\\\n",
        "\n",
        " ",
        "é",
        "b",
        "1",
        '"}',
        "}",
        "{",
        "null",
        "1e5",
    ),
]


def test_whatever_a_policy_writes_agrees_with_what_it_is_read_as(run: Run, tokenizer: Any) -> None:
    draw, dialect = Random(0), Dialect(tokenizer)
    for number in range(1000):
        parts = [draw.choice(PARTS) for _ in range(draw.randrange(1, 25))]
        noise = tuple(draw.randrange(16, 600) for _ in range(draw.randrange(1, 40)))
        produced = noise if number % 2 else tuple(i for p in parts for i in ids(p, tokenizer))
        action, _ = dialect.read(produced)
        step = sampled(
            "",
            tokenizer,
            completion_token_ids=produced,
            text=action.text,
            reasoning=action.reasoning,
            tool_calls=action.tool_calls,
        )
        assert foreign(asked(run, step), [1], tokenizer) is None, tokenizer.decode(produced)


@pytest.mark.parametrize(
    ("sampling", "why"),
    [
        ('{"temperature": 1.0, "top_p": 1.0, "top_k": 0}', None),
        ('{"temperature": 1.0, "top_p": 1, "top_k": -1}', None),
        ('{"temperature": 1.0, "top_p": 0.5}', CUT_DISTRIBUTION),
        (
            '{"temperature": 1.0, "top_k": 5, "logprobs_mode": "processed_logprobs"}',
            CUT_DISTRIBUTION,
        ),
        ('{"temperature": 1.0, "min_p": 0.1}', CUT_DISTRIBUTION),
        ('{"temperature": 1.0, "top_p": 0.5, "logprobs_mode": "raw_logprobs"}', None),
        ('{"temperature": 0.7, "top_p": 0.5, "logprobs_mode": "raw_logprobs"}', RAW),
    ],
    ids=["whole", "off", "top-p", "top-k", "min-p", "raw", "raw-at-0.7"],
)
def test_logprobs_of_a_cut_distribution_are_no_behaviour_policy(
    run: Run, tokenizer: Any, sampling: str, why: str | None
) -> None:
    (row,) = tokenise(asked(run, sampled(WRITTEN, tokenizer, sampling=sampling)), tokenizer)
    assert row.stored
    assert (row.old_logprobs is None) == (why is not None)
    assert row.unused == (() if why is None else (why,))


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 3.0], ids=["nan", "inf", "above"])
def test_logprobs_that_are_none_are_left_out(run: Run, tokenizer: Any, value: float) -> None:
    step = sampled(WRITTEN, tokenizer)
    assert step.logprobs is not None
    (row,) = tokenise(asked(run, replace(step, logprobs=(value, *step.logprobs[1:]))), tokenizer)
    assert (row.stored, row.old_logprobs, row.unused) == (True, None, (NO_LOGPROBS,))
