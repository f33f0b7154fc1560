"""Reflexion on code: implementations in a row, and old files that keep only the last one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.reflexion import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Reflection, Trajectory, finish

RUST = "humaneval_rs_hardest50_immediate_reflexion.jsonl"
PYTHON = "leetcode_hard_py_reflexion_gpt4.jsonl"
NAME = "humaneval-py._reflexion_5_gpt-4_pass_at_k_1_py.jsonl"


def read(source: Source) -> list[Item]:
    return list(IMPORTER.read(source, ImportOptions()))


def runs(source: Source) -> list[Trajectory]:
    return [finish(i) for i in read(source) if isinstance(i, Trajectory)]


def reflections(source: Source) -> list[Reflection]:
    return [i for i in read(source) if isinstance(i, Reflection)]


def problem(**changes: Any) -> dict[str, Any]:
    asked = {"name": "HumanEval_1_f", "language": "py", "prompt": "def f():", "entry_point": "f"}
    return {
        **asked,
        "test": "check(f)",
        "is_solved": True,
        "reflections": ["it was wrong", "it was still wrong"],
        "implementations": ["one", "two", "three"],
        "test_feedback": ["failed 1", "failed 2", "passed"],
        "solution": "three",
        **changes,
    }


def old(**changes: Any) -> dict[str, Any]:
    lists = {"implementations", "test_feedback"}
    return {k: v for k, v in problem(**changes).items() if k not in lists}


def file(folder: Path, *records: Any, name: str = NAME) -> Source:
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in records))
    return Source(folder / name)


def real(real_data: Path, name: str) -> Source:
    return Source(real_data / "reflexion" / "programming" / name)


# --- the real files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "problems", "solved"), [(RUST, 50, 26), (PYTHON, 40, 2)], ids=["rust", "python"]
)
def test_each_problem_has_one_attempt_and_its_verdict(
    real_data: Path, name: str, problems: int, solved: int
) -> None:
    found = runs(real(real_data, name))
    assert len(found) == len({t.trajectory_id for t in found}) == problems
    assert len({t.task_id for t in found}) == problems
    assert Counter(t.success for t in found) == {True: solved, False: problems - solved}


def test_number_of_the_attempt_is_the_count_of_reflections_before_it(real_data: Path) -> None:
    assert Counter(t.attempt for t in runs(real(real_data, RUST))) == {4: 50}
    assert Counter(t.attempt for t in runs(real(real_data, PYTHON))) == {0: 3, 2: 1, 4: 36}


def test_reflections_are_all_there_with_their_trial(real_data: Path) -> None:
    rust = reflections(real(real_data, RUST))
    assert Counter(r.trial for r in rust) == {0: 50, 1: 50, 2: 50, 3: 50}
    assert len(reflections(real(real_data, PYTHON))) == 2 + 36 * 4


def test_languages_are_known_although_one_file_has_no_field_for_it(real_data: Path) -> None:
    assert {t.task_id.split("/")[1] for t in runs(real(real_data, RUST))} == {"rs"}
    assert {t.task_id.split("/")[1] for t in runs(real(real_data, PYTHON))} == {"py"}


def test_solution_is_what_the_agent_said(real_data: Path) -> None:
    first = json.loads(real(real_data, RUST).path.read_text().splitlines()[0])
    found = runs(real(real_data, RUST))[0]
    assert [s.actor for s in found.steps] == ["user", "agent"]
    assert found.steps[0].text == found.goal == first["prompt"]
    assert found.steps[1].text == first["solution"]
    assert found.steps[1].reasoning == first["reflections"][-1]


# --- implementations in a row -----------------------------------------------------------------


def test_each_implementation_is_an_attempt_and_the_last_one_is_judged(tmp_path: Path) -> None:
    found = runs(file(tmp_path, problem()))
    assert [t.attempt for t in found] == [0, 1, 2]
    assert [t.success for t in found] == [None, None, True]
    assert [t.steps[-1].text for t in found] == ["one", "two", "three"]


def test_each_attempt_is_a_retry_of_the_one_before(tmp_path: Path) -> None:
    one, two, three = runs(file(tmp_path, problem()))
    assert (one.parent_id, one.relation) == (None, None)
    assert [(t.parent_id, t.relation) for t in (two, three)] == [
        (one.trajectory_id, "retry"),
        (two.trajectory_id, "retry"),
    ]


def test_what_the_model_saw_of_the_attempt_before_is_copied_context(tmp_path: Path) -> None:
    _, two, _ = runs(file(tmp_path, problem()))
    prompt, before, new = two.steps
    assert (prompt.actor, before.is_copied, new.is_copied) == ("user", True, False)
    assert (before.text, before.observations[0].text) == ("one", "failed 1")
    assert (new.reasoning, new.text) == ("it was wrong", "two")
    assert new.observations[0].text == "failed 2"
    assert two.n_agent_steps == 1


def test_first_attempt_holds_nothing_of_others(tmp_path: Path) -> None:
    one = runs(file(tmp_path, problem()))[0]
    assert len(one.steps) == 2
    assert one.steps[1].reasoning is None


def test_reflection_speaks_of_the_attempt_with_its_number(tmp_path: Path) -> None:
    source = file(tmp_path, problem())
    ids = [t.trajectory_id for t in runs(source)]
    assert [(r.trial, r.trajectory_id, r.text) for r in reflections(source)] == [
        (0, ids[0], "it was wrong"),
        (1, ids[1], "it was still wrong"),
    ]


def test_attempts_started_afresh_leave_reflections_without_a_number(tmp_path: Path) -> None:
    """Two passes of two implementations: four codes, two reflections, no telling which."""
    codes = ["a", "b", "c", "d"]
    source = file(tmp_path, problem(implementations=codes, test_feedback=codes, solution="d"))
    assert [(r.trial, r.trajectory_id) for r in reflections(source)] == [(None, None)] * 2
    found = runs(source)
    assert [len(t.steps) for t in found] == [2, 2, 2, 2]
    assert [t.success for t in found] == [None, None, None, True]


def test_running_accuracy_is_no_reward(tmp_path: Path) -> None:
    found = runs(file(tmp_path, problem(acc=0.5)))
    assert {t.reward for t in found} == {None}
    assert json.loads(found[0].metadata or "")["acc"] == 0.5


def test_run_is_named_by_the_file(tmp_path: Path) -> None:
    found = runs(file(tmp_path, problem()))
    assert {(t.agent, t.model, t.environment) for t in found} == {
        ("reflexion", "gpt-4", "programming")
    }


def test_agent_is_named_by_the_record_where_the_file_does_not(tmp_path: Path) -> None:
    plain = old()
    del plain["reflections"]
    found = runs(file(tmp_path, old(name="a"), plain, name="x.jsonl"))
    assert [(t.agent, t.attempt) for t in found] == [("reflexion", 2), ("simple", 0)]


def test_empty_reflections_are_no_memory(tmp_path: Path) -> None:
    assert reflections(file(tmp_path, problem(reflections=["", " "]))) == []


# --- identity and bad input -------------------------------------------------------------------


def test_same_record_elsewhere_has_the_same_ids(tmp_path: Path) -> None:
    one = [t.trajectory_id for t in runs(file(tmp_path, problem()))]
    two = [t.trajectory_id for t in runs(file(tmp_path, old(), problem(), name="y.jsonl"))]
    assert one == two[1:]


def test_bad_lines_cost_no_other_and_are_named(tmp_path: Path) -> None:
    unsolved = {k: v for k, v in problem().items() if k != "is_solved"}
    bad = [unsolved, problem(is_solved=None), problem(reflections="no"), old(solution=None), 3]
    source = file(tmp_path, problem(), *bad, old())
    found = [i for i in read(source) if isinstance(i, Problem)]
    assert [p.line for p in found] == [2, 3, 4, 5, 6]
    assert "field 'is_solved' is missing" in found[0].reason
    assert len(runs(source)) == 4


@pytest.mark.parametrize("field", ["reflections", "implementations"])
def test_lists_that_are_none_cost_no_other_record(tmp_path: Path, field: str) -> None:
    source = file(tmp_path, problem(**{field: 5}), problem(name="HumanEval_2_g"))
    assert IMPORTER.detect(source) > 0
    (bad,) = [i for i in read(source) if isinstance(i, Problem)]
    assert (bad.line, len(runs(source))) == (1, 3)
    assert f"field '{field}' is not a list of texts" in bad.reason
