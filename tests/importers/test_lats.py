"""LATS: two nodes of a tree a problem, and problems that were never searched."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers import reflexion
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.lats import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Reflection, Trajectory, finish, reflection_id

NAME = "humaneval-py._mcts_8_gpt-3.5-turbo_pass_at_k_1_py.jsonl"


def read(source: Source) -> list[Item]:
    return list(IMPORTER.read(source, ImportOptions()))


def runs(source: Source) -> list[Trajectory]:
    return [finish(i) for i in read(source) if isinstance(i, Trajectory)]


def reflections(source: Source) -> list[Reflection]:
    return [i for i in read(source) if isinstance(i, Reflection)]


def problem(**changes: Any) -> dict[str, Any]:
    asked = {"name": "HumanEval_1_f", "language": "py", "prompt": "def f():", "entry_point": "f"}
    return {**asked, "test": "check(f)", "acc": 0.5, **changes}


def searched(**changes: Any) -> dict[str, Any]:
    return problem(
        solution="best",
        is_solved=True,
        reflections=["on the root", "on a node", "on a node", "MCTS reflections"],
        implementations=["first", "best"],
        test_feedback=["failed", "passed"],
        **changes,
    )


def file(folder: Path, *records: Any, name: str = NAME) -> Source:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in records))
    return Source(folder / name)


@pytest.fixture(scope="module")
def source(real_data: Path) -> Source:
    return Source(real_data / "lats" / "humaneval_mcts.first40.jsonl")


@pytest.fixture(scope="module")
def real(source: Source) -> list[Trajectory]:
    return runs(source)


# --- the real file ----------------------------------------------------------------------------


def test_every_problem_is_a_task(real: list[Trajectory]) -> None:
    assert len({t.task_id for t in real}) == 40
    assert real[0].task_id == "programming/py/HumanEval_23_strlen"


def test_each_search_gives_two_attempts_and_each_unsearched_problem_one(
    real: list[Trajectory],
) -> None:
    assert len(real) == len({t.trajectory_id for t in real}) == 26 * 2 + 14
    assert Counter(Counter(t.task_id for t in real).values()) == {2: 26, 1: 14}


def test_only_the_last_implementation_was_judged(real: list[Trajectory]) -> None:
    assert Counter(t.success for t in real if t.attempt == 1) == {True: 20, False: 6}
    assert {t.success for t in real if t.attempt == 0} == {None}


def test_problems_without_a_verdict_never_count_as_failures(
    real: list[Trajectory], source: Source
) -> None:
    records = [json.loads(line) for line in source.path.read_text().splitlines()]
    open_ = {r["name"] for r in records if "is_solved" not in r}
    found = [t for t in real if t.task_id.split("/")[-1] in open_]
    assert len(found) == 14
    assert {(t.success, t.status, t.n_steps, t.n_agent_steps) for t in found} == {
        (None, None, 1, 0)
    }


def test_the_running_accuracy_is_no_reward(real: list[Trajectory]) -> None:
    assert {t.reward for t in real} == {None}
    assert json.loads(real[0].metadata or "")["acc"] == 1.0


def test_the_mark_of_the_search_is_no_reflection(source: Source) -> None:
    texts = [r.text for r in reflections(source)]
    assert "MCTS reflections" not in texts
    assert all(text.strip() for text in texts)


def test_each_reflection_of_a_problem_comes_once(source: Source) -> None:
    records = [json.loads(line) for line in source.path.read_text().splitlines()]
    distinct = sum(len(set(r.get("reflections", ())) - {"MCTS reflections"}) for r in records)
    found = reflections(source)
    assert len(found) == len({reflection_id(r) for r in found}) == distinct


def test_one_reflection_of_each_search_speaks_of_the_root(
    source: Source, real: list[Trajectory]
) -> None:
    roots = {t.trajectory_id for t in real if t.attempt == 0}
    linked = [r for r in reflections(source) if r.trajectory_id]
    assert len(linked) == 26
    assert {r.trajectory_id for r in linked} <= roots
    assert {r.trial for r in linked} == {0}


def test_only_the_search_file_is_recognised(real_data: Path) -> None:
    found = [f for f in sorted(real_data.rglob("*")) if f.is_file() and IMPORTER.detect(Source(f))]
    assert [f.name for f in found] == ["humaneval_mcts.first40.jsonl"]


# --- one search -------------------------------------------------------------------------------


def test_root_and_best_node_are_attempts_with_their_feedback(tmp_path: Path) -> None:
    root, best = runs(file(tmp_path, searched()))
    assert [[s.actor for s in t.steps] for t in (root, best)] == [["user", "agent"]] * 2
    assert [t.steps[1].text for t in (root, best)] == ["first", "best"]
    assert [t.steps[1].observations[0].text for t in (root, best)] == ["failed", "passed"]
    assert (root.success, best.success) == (None, True)


def test_best_node_descends_from_the_root(tmp_path: Path) -> None:
    root, best = runs(file(tmp_path, searched()))
    assert (root.parent_id, root.relation) == (None, None)
    assert (best.parent_id, best.relation) == (root.trajectory_id, "branch")


def test_model_comes_from_the_file_name(tmp_path: Path) -> None:
    assert {(t.agent, t.model) for t in runs(file(tmp_path, searched()))} == {
        ("lats", "gpt-3.5-turbo")
    }


def test_reflections_that_are_on_lost_nodes_name_no_attempt(tmp_path: Path) -> None:
    found = reflections(file(tmp_path, searched()))
    assert [(r.text, r.trial, r.trajectory_id is None) for r in found] == [
        ("on the root", 0, False),
        ("on a node", None, True),
    ]


def test_same_file_elsewhere_has_the_same_ids(tmp_path: Path) -> None:
    one = file(tmp_path / "a", searched(), problem(name="g"))
    two = file(tmp_path / "b", problem(name="g"), searched(), name="copy.jsonl")
    assert {t.trajectory_id for t in runs(one)} == {t.trajectory_id for t in runs(two)}


def test_two_searches_of_one_problem_differ(tmp_path: Path) -> None:
    other = searched() | {"implementations": ["first", "other"]}
    found = runs(file(tmp_path, searched(), other))
    assert len({t.trajectory_id for t in found}) == 4
    assert len({t.task_id for t in found}) == 1


def test_file_that_starts_with_unsearched_problems_is_recognised(tmp_path: Path) -> None:
    found = file(tmp_path, *[problem(name=f"p{n}") for n in range(6)], name="x.jsonl")
    assert IMPORTER.detect(found) == 0.9
    assert reflexion.IMPORTER.detect(found) == 0.0


# --- bad input --------------------------------------------------------------------------------


def test_bad_lines_cost_no_other_and_are_named(tmp_path: Path) -> None:
    no_code = searched() | {"implementations": None}
    no_verdict = searched() | {"is_solved": "yes"}
    no_field = {k: v for k, v in problem().items() if k != "acc"}
    found = file(tmp_path, searched(), no_code, no_verdict, no_field, "text", searched())
    bad = [i for i in read(found) if isinstance(i, Problem)]
    assert [b.line for b in bad] == [2, 3, 4, 5]
    assert "field 'implementations' is missing" in bad[0].reason
    assert "field 'is_solved' is missing" in bad[2].reason
    assert len({t.source_uri for t in runs(found)}) == 2


def test_cut_line_is_named(tmp_path: Path) -> None:
    found = file(tmp_path, searched())
    found.path.write_text(found.path.read_text() + '{"name": ')
    again = Source(found.path)
    assert len(runs(again)) == 2
    assert [i.line for i in read(again) if isinstance(i, Problem)] == [2]
