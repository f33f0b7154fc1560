"""The masked spans of a row, put together, are exactly what the policy produced.

The oracle is written by hand for each template: what a policy writes in a turn.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trainers.chat_templates import (
    LLAMA_3,
    MISTRAL,
    QWEN,
    Writes,
    chatml_writes,
    llama_writes,
    mistral_writes,
    qwen_writes,
)
from trajstore import Pool
from trajstore.errors import TrainingError
from trajstore.rollouts.templates import CHATML, ChatTemplate, render, template_of
from trajstore.schema import Observation, Step, ToolCall, Trajectory, counted
from trajstore.testing import TOOLS
from trajstore.trainers.rows import TokenRow
from trajstore.trainers.tokenise import Refused, RowOptions, tokenise, tokenise_all

pytest.importorskip("transformers")

FAMILIES: dict[str, tuple[str, dict[str, str], Writes]] = {
    "qwen": (QWEN, {"eos": "<|im_end|>"}, qwen_writes),
    "llama": (LLAMA_3, {"eos": "<|eot_id|>", "bos": "<|begin_of_text|>"}, llama_writes),
    "mistral": (MISTRAL, {"eos": "</s>"}, mistral_writes),
}
PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")))
"""Text without spaces at its ends, which the families' templates strip."""
ANY = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)
NAMES = st.sampled_from(["bash", "search", "edit_file"])
VALUES = st.dictionaries(PLAIN, st.one_of(st.integers(-9, 9), PLAIN, st.none()), max_size=2)


@st.composite
def turns(draw: st.DrawFn, question: int, *, calls: int, reasons: bool) -> tuple[Step, ...]:
    """What follows a question: calls with their results, then an answer."""
    steps = []
    for place in range(draw(st.integers(0, 2))):
        made = tuple(
            ToolCall.of(draw(NAMES), draw(VALUES), f"call{question}{place}{k:03}")
            for k in range(draw(st.integers(1, calls)))
        )
        steps.append(
            Step(
                actor="agent",
                text="" if calls == 1 else draw(st.sampled_from(["", "I look."])),
                reasoning=draw(PLAIN) or None if reasons else None,
                tool_calls=made,
                observations=tuple(Observation(call_id=c.call_id, text=draw(PLAIN)) for c in made),
            )
        )
    answer = draw(PLAIN.filter(bool))
    steps.append(
        Step(actor="agent", text=answer, reasoning=draw(PLAIN) or None if reasons else None)
    )
    return tuple(steps)


@st.composite
def runs(draw: st.DrawFn, *, calls: int = 1, reasons: bool = False) -> Trajectory:
    """A system prompt or none, and one to three questions."""
    steps = [Step(actor="system", text="Be brief.")] if draw(st.booleans()) else []
    for question in range(draw(st.integers(1, 3))):
        steps.append(Step(actor="user", text="Well? " + draw(PLAIN)))
        steps += draw(turns(question, calls=calls, reasons=reasons))
    tools = TOOLS if draw(st.booleans()) else None
    return Trajectory(trajectory_id="t", task_id="q", source="h", steps=tuple(steps), tools=tools)


def _family(name: str, make_tokenizer: Any) -> tuple[Any, ChatTemplate, Writes]:
    text, special, writes = FAMILIES[name]
    made = make_tokenizer(text, **special)
    return made, template_of(made), writes


def _trained(rows: list[TokenRow], tokenizer: Any) -> str:
    return "".join(tokenizer.decode(r.token_ids[r.action_mask]) for r in rows)


def _produced(run: Trajectory, writes: Writes) -> str:
    return "".join(writes(s) for s in run.steps if counted(s) and not s.format_error)


relaxed = settings(
    max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@relaxed
@given(run=runs(calls=3, reasons=True))
def test_chatml_trains_on_what_the_policy_wrote(run: Trajectory, tokenizer: Any) -> None:
    rows = tokenise(run, tokenizer, CHATML)
    assert len(rows) == 1
    assert _trained(rows, tokenizer) == _produced(run, chatml_writes)


@relaxed
@given(texts=st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=3))
def test_chatml_keeps_any_text_byte_for_byte(
    texts: list[tuple[str, str, str]], tokenizer: Any
) -> None:
    steps = [
        Step(actor="agent", text=t, reasoning=r, tool_calls=(ToolCall.of("f", a),))
        for t, r, a in texts
    ]
    run = Trajectory(trajectory_id="t", task_id="q", source="h", goal="go", steps=tuple(steps))
    assert _trained(tokenise(run, tokenizer), tokenizer) == _produced(run, chatml_writes)


@relaxed
@given(run=runs(calls=3, reasons=True))
def test_qwen_trains_on_what_the_policy_wrote(run: Trajectory, make_tokenizer: Any) -> None:
    tokenizer, template, writes = _family("qwen", make_tokenizer)
    assert _trained(tokenise(run, tokenizer, template), tokenizer) == _produced(run, writes)


@relaxed
@given(run=runs(calls=1))
def test_llama_trains_on_what_the_policy_wrote(run: Trajectory, make_tokenizer: Any) -> None:
    tokenizer, template, writes = _family("llama", make_tokenizer)
    assert _trained(tokenise(run, tokenizer, template), tokenizer) == _produced(run, writes)


@relaxed
@given(run=runs(calls=1))
def test_mistral_trains_on_what_the_policy_wrote(run: Trajectory, make_tokenizer: Any) -> None:
    tokenizer, template, writes = _family("mistral", make_tokenizer)
    assert _trained(tokenise(run, tokenizer, template), tokenizer) == _produced(run, writes)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_turn_is_trained_behind_the_prompt_that_the_template_writes(
    family: str, make_tokenizer: Any
) -> None:
    """Token by token: what precedes a masked span is the prompt of that very turn."""
    tokenizer, template, _ = _family(family, make_tokenizer)
    run = _two_questions()
    chat = _messages('{"command":"ls"}' if template.arguments == "text" else {"command": "ls"})
    prompts = [
        render(tokenizer, template, chat[:i], json.loads(TOOLS), ask=True)
        for i, m in enumerate(chat)
        if m["role"] == "assistant"
    ]
    found = []
    for row in tokenise(run, tokenizer, template):
        starts = [i for i, m in enumerate(row.action_mask) if m and not row.action_mask[i - 1]]
        read = [tokenizer.decode(row.token_ids[:s]) for s in starts]
        found += [r.removesuffix("<think>\n\n</think>\n\n") for r in read]
    assert found == prompts


def _two_questions() -> Trajectory:
    call = ToolCall.of("bash", {"command": "ls"}, "call00001")
    steps = (
        Step(actor="user", text="What is here?"),
        Step(
            actor="agent",
            text="",
            tool_calls=(call,),
            observations=(Observation(call_id="call00001", text="a.py"),),
        ),
        Step(actor="agent", text="One file."),
        Step(actor="user", text="Sure?"),
        Step(actor="agent", text="Yes."),
    )
    return Trajectory(trajectory_id="t", task_id="q", source="h", steps=steps, tools=TOOLS)


def _messages(arguments: Any) -> list[dict[str, Any]]:
    function = {"name": "bash", "arguments": arguments}
    made = {"id": "call00001", "type": "function", "function": function}
    return [
        {"role": "user", "content": "What is here?"},
        {"role": "assistant", "content": "", "tool_calls": [made]},
        {"role": "tool", "name": "bash", "tool_call_id": "call00001", "content": "a.py"},
        {"role": "assistant", "content": "One file."},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes."},
    ]


def test_templates_that_drop_earlier_thinking_fork_rows(make_tokenizer: Any) -> None:
    """After a second question Qwen shows the first answer without its reasoning."""
    tokenizer, template, writes = _family("qwen", make_tokenizer)
    steps = (
        Step(actor="user", text="one"),
        Step(actor="agent", text="1", reasoning="count"),
        Step(actor="user", text="two"),
        Step(actor="agent", text="2", reasoning="again"),
    )
    run = Trajectory(trajectory_id="t", task_id="q", source="h", steps=steps)
    first, second = tokenise(run, tokenizer, template)
    assert (first.step_from, second.step_from) == (1, 3)
    assert "count" not in tokenizer.decode(second.token_ids)
    assert _trained([first, second], tokenizer) == _produced(run, writes)


def test_tool_calls_behind_one_question_stay_in_one_row(make_tokenizer: Any) -> None:
    tokenizer, template, _ = _family("qwen", make_tokenizer)
    call = ToolCall.of("bash", {"command": "ls"}, "c1")
    steps = (
        Step(actor="user", text="one"),
        Step(
            actor="agent",
            reasoning="look",
            tool_calls=(call,),
            observations=(Observation(call_id="c1", text="x"),),
        ),
        Step(actor="agent", text="2", reasoning="so"),
    )
    run = Trajectory(trajectory_id="t", task_id="q", source="h", steps=steps)
    assert len(tokenise(run, tokenizer, template)) == 1


def test_thinking_that_a_template_invents_is_read_and_not_trained_on(make_tokenizer: Any) -> None:
    tokenizer, template, _ = _family("qwen", make_tokenizer)
    steps = (Step(actor="user", text="one"), Step(actor="agent", text="1"))
    run = Trajectory(trajectory_id="t", task_id="q", source="h", steps=steps)
    (row,) = tokenise(run, tokenizer, template)
    assert "<think>\n\n</think>" in tokenizer.decode(row.token_ids)
    assert _trained([row], tokenizer) == "1<|im_end|>"


def test_text_beside_a_call_that_llama_leaves_out_is_refused(make_tokenizer: Any) -> None:
    tokenizer, template, _ = _family("llama", make_tokenizer)
    steps = (
        Step(actor="user", text="one"),
        Step(actor="agent", text="Let me see.", tool_calls=(ToolCall.of("bash", {"c": "ls"}),)),
    )
    run = Trajectory(trajectory_id="t", task_id="q", source="h", steps=steps)
    with pytest.raises(TrainingError, match=r"step 1: .* does not show the text"):
        tokenise(run, tokenizer, template)


def test_reasoning_that_mistral_leaves_out_is_refused(make_tokenizer: Any) -> None:
    tokenizer, template, _ = _family("mistral", make_tokenizer)
    steps = (Step(actor="user", text="q"), Step(actor="agent", text="a", reasoning="because"))
    run = Trajectory(trajectory_id="t", task_id="q", source="h", steps=steps)
    with pytest.raises(TrainingError, match="does not show the reasoning"):
        tokenise(run, tokenizer, template)


REAL = ("tau_bench", "swe_agent", "mini_swe_agent", "adp", "claude_code", "nemo_gym", "atif")


@pytest.mark.slow
@pytest.mark.parametrize("folder", REAL)
def test_recorded_runs_are_trained_on_what_their_policy_wrote(
    folder: str, real_data: Path, pool: Pool, tokenizer: Any
) -> None:
    pool.import_files(real_data / folder)
    sample = sorted(pool.scan(), key=lambda r: r.trajectory_id)[:25]
    options = RowOptions(media="mark", stored="ignore")
    rows = 0
    for run, found in zip(sample, tokenise_all(sample, tokenizer, options=options), strict=True):
        if isinstance(found, Refused):
            assert not _produced(_filled(run), chatml_writes)
            continue
        rows += len(found)
        assert _trained(found, tokenizer) == _produced(_filled(run), chatml_writes)
    assert rows > 0


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["tau_bench", "tau2_bench", "swe_agent", "adp"])
@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_runs_are_trained_on_through_the_templates_of_models(
    family: str, folder: str, real_data: Path, pool: Pool, make_tokenizer: Any
) -> None:
    """What a family cannot say is refused, and what it can say is what was said."""
    tokenizer, template, writes = _family(family, make_tokenizer)
    pool.import_files(real_data / folder)
    sample = sorted(pool.scan(), key=lambda r: r.trajectory_id)[:10]
    options = RowOptions(media="mark", stored="ignore")
    for run, found in zip(
        sample, tokenise_all(sample, tokenizer, template, options=options), strict=True
    ):
        if isinstance(found, Refused):
            assert "the chat template" in found.reason
        else:
            # ids of calls are made anew where a run repeats them, so they are left out
            assert _bare(_trained(found, tokenizer)) == _bare(_produced(_filled(run), writes))


def _bare(text: str) -> str:
    return re.sub(r', "id": "[^"]+"\}', "}", text)


def _filled(run: Trajectory) -> Trajectory:
    """Only turns that say something; multi-part content has its text in ``text``."""
    steps = [s for s in run.steps if s.text or s.reasoning or s.tool_calls]
    return replace(run, steps=tuple(steps))
