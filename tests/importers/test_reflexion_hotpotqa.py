"""Reflexion on HotpotQA: 498 blocks of a real log are 319 attempts."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.reflexion import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Reflection, Trajectory, finish, reflection_id

HEADER = (
    "You have attempted to answer following question before and failed. Use them.\nReflections:"
)


def read(source: Source) -> list[Item]:
    return list(IMPORTER.read(source, ImportOptions()))


def runs(source: Source) -> list[Trajectory]:
    return [finish(i) for i in read(source) if isinstance(i, Trajectory)]


def reflections(source: Source) -> list[Reflection]:
    return [i for i in read(source) if isinstance(i, Reflection)]


def problems(source: Source) -> list[Problem]:
    return [i for i in read(source) if isinstance(i, Problem)]


def block(question: str, *shown: str, answer: str = "x", correct: bool = False) -> str:
    tail = "".join([HEADER, *(f"\n- {r}" for r in shown)]) if shown else ""
    said = "CORRECT" if correct else "INCORRECT"
    return (
        f"Question: {question}{tail}\nThought 1: I know.\nAction 1: Finish[{answer}]\n"
        f"Observation 1: Answer is {said}\nCorrect answer: y\n\n"
    )


def log(folder: Path, *trials: dict[str, str], name: str = "log.txt") -> Source:
    """A log with one dict of section -> blocks a trial."""
    text = ""
    for number, sections in enumerate(trials, 1):
        text += f"\n{'#' * 40}\nBEGIN TRIAL {number}\nTrial summary: ...\n{'#' * 39}\n"
        for section, body in sections.items():
            text += f"------------- BEGIN {section} AGENTS -------------\n\n{body}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return Source(folder / name)


@pytest.fixture(scope="module")
def source(real_data: Path) -> Source:
    return Source(
        real_data / "reflexion" / "hotpotqa" / "ReAct_reflexion_100_questions_5_trials.txt"
    )


@pytest.fixture(scope="module")
def real(source: Source) -> list[Trajectory]:
    return runs(source)


# --- the real log -----------------------------------------------------------------------------


def test_copies_of_solved_attempts_are_no_attempts(real: list[Trajectory], source: Source) -> None:
    assert len(real) == len({t.trajectory_id for t in real}) == 498 - 179
    (note,) = problems(source)
    assert note.kind == "ignored"
    assert note.reason.startswith("179 blocks repeat")


def test_there_are_a_hundred_tasks(real: list[Trajectory]) -> None:
    assert len({t.task_id for t in real}) == len({t.goal for t in real}) == 100
    assert not any("You have attempted" in (t.goal or "") for t in real)


def test_tasks_are_solved_always_never_or_in_the_end(real: list[Trajectory]) -> None:
    outcomes: dict[str, list[bool | None]] = {}
    for t in real:
        outcomes.setdefault(t.task_id, []).append(t.success)
    kinds = Counter(all(o) - (not any(o)) for o in outcomes.values())
    assert kinds == {1: 32, -1: 49, 0: 19}
    assert all(True not in o[:-1] for o in outcomes.values())


def test_correct_section_is_success_and_halted_is_a_truncated_failure(
    real: list[Trajectory],
) -> None:
    """51 tasks are correct in trial 5, each solved once; the 66 halted blocks are all distinct."""
    assert Counter((t.success, t.status) for t in real) == {
        (True, "terminated"): 51,
        (False, "terminated"): 202,
        (False, "truncated"): 66,
    }
    assert {t.termination_reason for t in real if t.status == "truncated"} == {"halted"}


def test_first_trial_has_every_question(real: list[Trajectory]) -> None:
    first = [t for t in real if t.attempt == 0]
    assert (len(first), sum(t.success is True for t in first)) == (100, 32)
    assert sum(t.status == "truncated" for t in first) == 17


def test_every_line_of_action_and_observation_is_read(
    real: list[Trajectory], source: Source
) -> None:
    """The second implementation: cut the log at its answers and keep each distinct block."""
    text = source.path.read_text(encoding="utf-8")
    pieces = re.split(r"^Correct answer: .*$", text, flags=re.MULTILINE)
    found = {piece.split("Question:", 1)[-1] for piece in pieces}
    actions = sum(len(re.findall(r"^Action \d+: ", b, flags=re.MULTILINE)) for b in found)
    steps = [s for t in real for s in t.steps if s.actor == "agent"]
    assert sum(len(s.tool_calls) for s in steps) == actions == 1312
    assert all(s.reasoning and len(s.observations) == 1 for s in steps)


def test_calls_are_search_lookup_finish_and_one_that_does_not_exist(
    real: list[Trajectory],
) -> None:
    names = Counter(c.name for t in real for s in t.steps for c in s.tool_calls)
    assert names.keys() == {"Search", "Lookup", "Finish", "Compare"}
    assert names["Compare"] == sum(t.n_format_errors for t in real) == 1


def test_finished_attempts_end_with_finish(real: list[Trajectory]) -> None:
    for t in real:
        last = t.steps[-1].tool_calls[-1].name
        assert (last == "Finish") is (t.status == "terminated")


def test_each_reflection_comes_once(source: Source) -> None:
    found = reflections(source)
    shown = {
        (re.split("You have attempted", b, maxsplit=1)[0].strip(), line)
        for b in source.path.read_text(encoding="utf-8").split("Question:")[1:]
        for line in re.findall(r"^- (.*)$", b.split("\nThought 1:")[0], flags=re.MULTILINE)
    }
    assert len(found) == len({reflection_id(r) for r in found}) == len(shown) == 233


def test_reflections_speak_of_an_earlier_failed_attempt(
    real: list[Trajectory], source: Source
) -> None:
    attempts = {t.trajectory_id: t for t in real}
    linked = [r for r in reflections(source) if r.trajectory_id]
    assert len(linked) == 203
    for r in linked:
        attempt = attempts[r.trajectory_id or ""]
        assert (attempt.task_id, attempt.attempt, attempt.success) == (r.task_id, r.trial, False)


def test_agent_is_named_by_turns_and_file(real: list[Trajectory]) -> None:
    assert {(t.agent, t.environment) for t in real} == {("react-reflexion", "hotpotqa")}


# --- small logs -------------------------------------------------------------------------------


def test_retry_names_the_attempt_before(tmp_path: Path) -> None:
    source = log(
        tmp_path,
        {"INCORRECT": block("Q?")},
        {"CORRECT": block("Q?", "think", answer="y", correct=True)},
    )
    first, second = runs(source)
    assert (first.attempt, first.parent_id, first.success) == (0, None, False)
    assert (second.attempt, second.parent_id) == (1, first.trajectory_id)
    assert (second.relation, second.success) == ("retry", True)
    (reflection,) = reflections(source)
    assert (reflection.text, reflection.trajectory_id) == ("think", first.trajectory_id)


def test_two_new_reflections_at_once_name_no_attempt(tmp_path: Path) -> None:
    source = log(tmp_path, {"INCORRECT": block("Q?")}, {"INCORRECT": block("Q?", "a", "b")})
    assert [(r.trial, r.trajectory_id) for r in reflections(source)] == [(0, None), (0, None)]


def test_failed_attempt_printed_again_unchanged_is_a_copy_too(tmp_path: Path) -> None:
    source = log(tmp_path, {"INCORRECT": block("Q?")}, {"INCORRECT": block("Q?")})
    assert len(runs(source)) == 1


def test_same_words_for_two_questions_are_two_attempts(tmp_path: Path) -> None:
    found = runs(log(tmp_path, {"INCORRECT": block("Q?") + block("R?")}))
    assert len({t.trajectory_id for t in found}) == len({t.task_id for t in found}) == 2


def test_grown_log_elsewhere_keeps_its_ids(tmp_path: Path) -> None:
    first = {"INCORRECT": block("Q?")}
    short = runs(log(tmp_path / "a", first))
    longer = runs(log(tmp_path / "b", first, {"INCORRECT": block("Q?", "r")}, name="other.txt"))
    assert longer[0].trajectory_id == short[0].trajectory_id
    assert len(longer) == 2


def test_prompt_of_a_retry_differs_from_the_first(tmp_path: Path) -> None:
    trials = {"INCORRECT": block("Q?")}, {"INCORRECT": block("Q?", "r")}
    first, second = runs(log(tmp_path, *trials))
    keys = [next(s.state_key for s in t.steps if s.actor == "agent") for t in (first, second)]
    assert keys[0] != keys[1]


def test_correct_answer_and_trial_are_kept(tmp_path: Path) -> None:
    (found,) = runs(log(tmp_path, {"INCORRECT": block("Q?")}))
    assert found.metadata == '{"correct_answer":"y","trial":1}'
    assert (found.source_uri or "").endswith("log.txt#L8")


def test_broken_blocks_cost_no_other_and_are_named_by_line(tmp_path: Path) -> None:
    no_thought = "Question: Q?\nAction 1: Finish[x]\nCorrect answer: y\n\n"
    cut = "Question: cut\nThought 1: I"
    source = log(tmp_path, {"INCORRECT": no_thought + block("R?") + cut})
    assert [t.goal for t in runs(source)] == ["R?"]
    assert [p.line for p in problems(source)] == [8, 18]
    assert "cut off" in problems(source)[1].reason
