"""What programming records of Reflexion and LATS share, and how they are told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers import programming
from trajstore.importers.programming import TREE_MARK, ProgrammingRun
from trajstore.importers.source import Source

PROBLEM = {"name": "HumanEval_1_f", "prompt": "def f():\n", "entry_point": "f", "test": "check(f)"}


def record(**fields: Any) -> dict[str, Any]:
    return {**PROBLEM, **fields}


def real_records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- told apart -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "is_tree"),
    [
        ({"acc": 0.7}, True),
        ({"is_solved": True, "reflections": ["a", TREE_MARK]}, True),
        ({"is_solved": True, "reflections": ["a", "b"], "implementations": ["x", "y"]}, True),
        ({"is_solved": True, "reflections": ["a"], "implementations": ["x", "y"]}, False),
        ({"is_solved": True, "reflections": ["a"], "implementations": ["x", "y"], "acc": 1}, False),
        ({"is_solved": True, "reflections": [], "implementations": ["x"]}, False),
        ({"is_solved": True, "reflections": ["a", "b"], "solution": "x"}, False),
        ({"is_solved": True, "solution": "x"}, False),
        ({"is_solved": True, "solution": "x", "reflections": 5, "implementations": 6}, False),
    ],
)
def test_a_tree_search_is_seen_from_the_content(fields: dict[str, Any], is_tree: object) -> None:
    assert programming.is_tree_search(record(**fields)) is is_tree


def test_the_name_decides_only_where_the_content_is_silent() -> None:
    name = "humaneval-py._mcts_8_gpt-4_pass_at_k_1_py.jsonl"
    silent = record(is_solved=True, solution="x")
    line = record(is_solved=True, reflections=["a"], implementations=["x", "y"])
    assert programming.is_tree_search(silent, name)
    assert not programming.is_tree_search(line, name)


def test_every_real_record_is_on_the_right_side(real_data: Path) -> None:
    sides = {
        "lats/humaneval_mcts.first40.jsonl": {True},
        "reflexion/programming/humaneval_rs_hardest50_immediate_reflexion.jsonl": {False},
        "reflexion/programming/leetcode_hard_py_reflexion_gpt4.jsonl": {False},
    }
    for name, expected in sides.items():
        found = real_records(real_data / name)
        assert {programming.is_tree_search(r) for r in found} == expected


@pytest.mark.parametrize(
    "value",
    [PROBLEM, {"is_solved": True}, {"prompt": "p", "is_solved": True}, ["prompt"], None, "text"],
)
def test_a_data_set_and_other_values_are_no_programming_records(value: object) -> None:
    assert not programming.is_programming(value)


def test_a_source_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(record(is_solved=True)) + '\n{"other": 1}\n')
    assert programming.records(Source(path)) == []


# --- task -------------------------------------------------------------------------------------


def test_task_names_language_and_problem() -> None:
    found = programming.task_id(record(language="rs"), ProgrammingRun())
    assert found == "programming/rs/HumanEval_1_f"


@pytest.mark.parametrize(
    ("prompt", "named", "task"),
    [
        ("def f(x):", None, "programming/py/p"),
        ("use std::x;\nfn f(x: i32) {", None, "programming/rs/p"),
        ("say hello", "py", "programming/py/p"),
        ("say hello", None, "programming/p"),
    ],
)
def test_language_is_read_from_the_prompt_before_the_file_name(
    prompt: str, named: str | None, task: str
) -> None:
    run = ProgrammingRun(language=named)
    assert programming.task_id({"task_id": "p", "prompt": prompt}, run) == task


# --- name of the run --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "strategy", "model", "language"),
    [
        (
            "humaneval-rs-hardest50._immediate-reflexion_5_gpt-4_pass_at_k_1_rs.jsonl",
            "immediate-reflexion",
            "gpt-4",
            "rs",
        ),
        ("humaneval-py._mcts_8_gpt-3.5-turbo_pass_at_k_1_py.jsonl", "mcts", "gpt-3.5-turbo", "py"),
        ("humaneval_mcts.first40.jsonl", None, None, None),
    ],
)
def test_run_is_read_from_the_name_that_upstream_writes(
    name: str, strategy: str | None, model: str | None, language: str | None
) -> None:
    run = ProgrammingRun.of(name)
    assert (run.strategy, run.model, run.language) == (strategy, model, language)


def test_run_settings_are_in_the_metadata() -> None:
    run = ProgrammingRun.of("leet._reflexion_5_gpt-4_pass_at_k_1_py.jsonl")
    kept = json.loads(programming.metadata(record(is_solved=True), run) or "")
    assert kept["run"] == {
        "strategy": "reflexion",
        "dataset": "leet",
        "max_iters": "5",
        "pass_at_k": "1",
    }
    assert kept["test"] == "check(f)"


def test_a_solution_that_is_no_implementation_is_kept() -> None:
    value = record(is_solved=True, implementations=["a", "b"], solution="c")
    assert json.loads(programming.metadata(value, ProgrammingRun()) or "")["solution"] == "c"
    value["solution"] = "b"
    assert "solution" not in json.loads(programming.metadata(value, ProgrammingRun()) or "")


# --- attempts ---------------------------------------------------------------------------------


def test_ids_depend_on_content_and_number_only() -> None:
    value = record(is_solved=True, implementations=["a", "b"])
    ids = programming.attempt_ids(value, 2)
    shuffled = dict(reversed(list(value.items())))
    assert ids == programming.attempt_ids(shuffled, 2)
    assert len(set(ids)) == 2
    assert ids != programming.attempt_ids(value | {"implementations": ["a", "c"]}, 2)


def test_feedback_is_the_observation_of_the_implementation() -> None:
    step = programming.implementation_step("code", "Tests failed")
    assert (step.actor, step.text) == ("agent", "code")
    assert [(o.text, o.call_id, o.is_error) for o in step.observations] == [
        ("Tests failed", None, None)
    ]
    assert programming.implementation_step("code").observations == ()


@pytest.mark.parametrize("value", ["text", [1], {"a": "b"}])
def test_a_field_that_is_no_list_of_texts_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="'reflections' is not a list of texts"):
        programming.texts({"reflections": value}, "reflections")


def test_a_verdict_is_true_or_false() -> None:
    assert programming.verdict({"is_solved": False}) is False
    with pytest.raises(TypeError, match="neither true nor false"):
        programming.verdict({"is_solved": None})
    with pytest.raises(KeyError):
        programming.verdict({})
