"""The HotpotQA log: where blocks end, what is the question, and which lines are turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from trajstore.importers.hotpotqa_log import Block, Prompt, blocks, is_log
from trajstore.importers.source import Source
from trajstore.schema import Step

HEAD = """
########################################
BEGIN TRIAL {trial}
Trial summary: Correct: 1, Incorrect: 1, Halted: 0
#######################################
"""
CORRECT = "------------- BEGIN CORRECT AGENTS -------------\n\n"
HALTED = "------------- BEGIN HALTED AGENTS --------------\n\n"
TURNS = "Thought 1: Look.\nAction 1: Search[A]\nObservation 1: Found A."
HEADER = (
    "You have attempted to answer following question before and failed. The following "
    "reflection(s) give a plan to avoid failing to answer the question in the same way."
)


def log(folder: Path, text: str) -> Source:
    (folder / "log.txt").write_text(text)
    return Source(folder / "log.txt")


def turns(text: str) -> tuple[Step, ...]:
    return Prompt.of(f"Question: Q?\n{text}").steps()[1:]


# --- blocks -----------------------------------------------------------------------------------


def test_block_knows_its_trial_section_line_and_answer(tmp_path: Path) -> None:
    text = HEAD.format(trial=3) + HALTED + f"Question: Q?\n{TURNS}\nCorrect answer: B\n\n"
    (found,) = blocks(log(tmp_path, text))
    assert isinstance(found, Block)
    assert (found.trial, found.section, found.line, found.answer) == (3, "HALTED", 8, "B")
    assert found.text == f"Question: Q?\n{TURNS}"


def test_empty_lines_inside_a_block_do_not_end_it(tmp_path: Path) -> None:
    body = f"Question: Q?\n{TURNS}\n\nA second paragraph."
    text = HEAD.format(trial=1) + CORRECT + f"{body}\nCorrect answer: B\n\n" * 2
    assert [b.text for b in blocks(log(tmp_path, text)) if isinstance(b, Block)] == [body, body]


def test_block_without_an_end_is_reported_by_its_line(tmp_path: Path) -> None:
    whole = f"Question: Q?\n{TURNS}\nCorrect answer: B\n\n"
    text = HEAD.format(trial=1) + CORRECT + f"Question: cut\n{TURNS}\n" + HALTED + whole
    first, second = blocks(log(tmp_path, text))
    assert first == 8
    assert isinstance(second, Block)
    assert second.section == "HALTED"


def test_file_that_ends_in_a_block_reports_it(tmp_path: Path) -> None:
    text = HEAD.format(trial=1) + CORRECT + "Question: Q?\nThought 1: I"
    assert list(blocks(log(tmp_path, text))) == [8]


def test_a_log_is_recognised_by_its_headings() -> None:
    assert is_log(HEAD.format(trial=1) + CORRECT + f"Question: Q?\n{TURNS}")
    assert not is_log("Question: Q?\nThought 1: I think")


# --- prompt -----------------------------------------------------------------------------------


def test_reflections_glued_to_the_question_are_cut_off() -> None:
    prompt = Prompt.of(f"Question: Who is A?{HEADER}\nReflections:\n- one\n- two\n{TURNS}")
    assert prompt.question == "Who is A?"
    assert prompt.reflections == ["one", "two"]
    assert prompt.after.startswith("You have attempted")


def test_question_is_the_same_task_with_and_without_reflections() -> None:
    plain = Prompt.of(f"Question:  Who is A? \n{TURNS}")
    later = Prompt.of(f"Question:  Who is A? {HEADER}\nReflections:\n- one\n{TURNS}")
    assert plain.task == later.task
    assert plain.task != Prompt.of(f"Question: Who is B?\n{TURNS}").task
    assert plain.reflections == []


def test_last_attempt_in_the_prompt_is_context_and_no_turn() -> None:
    header = (
        "You have attempted to answer the following question before and failed. Below is the "
        "last trial you attempted to answer the question.\n"
    )
    copied = "Question: Who is A?\nThought 1: Old.\nAction 1: Finish[x]\n(END PREVIOUS TRIAL)\n"
    prompt = Prompt.of(f"Question: Who is A?{header}{copied}\n{TURNS}")
    assert prompt.question == "Who is A?"
    assert "Thought 1: Old." in prompt.after
    assert [s.reasoning for s in prompt.steps() if s.actor == "agent"] == ["Look."]


def test_instructions_and_context_before_the_question_are_a_system_step() -> None:
    prompt = Prompt.of(
        "Solve a question.\nRelevant Context: A is B.\n\nMore.\nQuestion: Q?\n"
        "Thought: Easy.\nAction: Finish[B]\nObservation: Answer is CORRECT"
    )
    system, user, agent = prompt.steps()
    assert (system.actor, user.text) == ("system", "Q?")
    assert (system.text or "").endswith("A is B.\n\nMore.")
    assert (agent.reasoning, agent.tool_calls[0].arguments_raw) == ("Easy.", "B")


def test_reflections_are_a_step_that_nobody_said() -> None:
    prompt = Prompt.of(f"Question: Q?{HEADER}\nReflections:\n- one\n{TURNS}")
    assert [s.actor for s in prompt.steps()] == ["user", "environment", "agent"]


@pytest.mark.parametrize("text", ["Question: Q?", TURNS, "nothing"])
def test_block_without_question_or_thought_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="without 'Question:'"):
        Prompt.of(text)


# --- turns ------------------------------------------------------------------------------------


def test_turn_is_thought_action_observation() -> None:
    (step,) = turns(TURNS)
    assert (step.reasoning, step.text) == ("Look.", None)
    assert (step.tool_calls[0].name, step.tool_calls[0].arguments_raw) == ("Search", "A")
    assert [o.text for o in step.observations] == ["Found A."]


def test_arguments_are_free_text_and_may_hold_brackets() -> None:
    (step,) = turns("Thought 1: t\nAction 1: Search[Stay [Live] (2004)]\nObservation 1: o")
    assert step.tool_calls[0].arguments_raw == "Stay [Live] (2004)"
    (number,) = turns("Thought 1: t\nAction 1: Finish[2004]\nObservation 1: Answer is CORRECT")
    assert number.tool_calls[0].arguments is None


def test_observation_may_span_lines_and_quote_other_headings() -> None:
    quoted = "Line one.\n\nThought 1: is a book.\nAction 7: is a film."
    first, second = turns(
        f"Thought 1: a\nAction 1: Search[A]\nObservation 1: {quoted}\n"
        "Thought 2: b\nAction 2: Finish[B]\nObservation 2: Answer is INCORRECT"
    )
    assert first.observations[0].text == quoted
    assert second.reasoning == "b"


def test_action_that_is_no_call_is_a_format_error_with_its_text() -> None:
    invalid = "Invalid Action. Valid Actions are Lookup[<topic>] Search[<topic>]."
    (step,) = turns(f"Thought 1: t\nAction 1: I give up\nObservation 1: {invalid}")
    assert (step.text, step.tool_calls, step.format_error) == ("I give up", (), True)


def test_action_that_the_environment_does_not_know_is_a_format_error() -> None:
    (step,) = turns("Thought 1: t\nAction 1: Compare[a, b]\nObservation 1: Invalid Action. Valid")
    assert (step.tool_calls[0].name, step.format_error) == ("Compare", True)


def test_turn_that_breaks_off_keeps_what_there_is() -> None:
    _, last = turns(f"{TURNS}\nThought 2: And then")
    assert (last.reasoning, last.tool_calls, last.format_error) == ("And then", (), False)
