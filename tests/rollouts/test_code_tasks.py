"""The exercises: each is broken in a way that its tests show, and can be mended."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from trajstore.rollouts import Limits, run_rollouts
from trajstore.rollouts.environments.code_exercise import Call, Exercise, spelled
from trajstore.rollouts.environments.code_fixing import CodeFixingEnvironment
from trajstore.rollouts.environments.code_tasks import PROBLEMS, _answered, _compiled, code_tasks
from trajstore.rollouts.environments.code_verdict import LIMITS, code_sandbox
from trajstore.rollouts.policies.scripted_code import CODE_PROFILES, ScriptedCoder
from trajstore.rollouts.sandbox_isolation import why_not

EVERY = code_tasks(252, seed=4)
locked = pytest.mark.skipif(
    why_not("namespaces") is not None and why_not("bubblewrap") is not None,
    reason="this machine cannot lock code in",
)


def unhurried() -> CodeFixingEnvironment:
    """With a limit in seconds that no busy machine reaches; that in processor time holds."""
    return CodeFixingEnvironment(sandbox=code_sandbox(limits=replace(LIMITS, wall_s=120)))


def answers(source: str, case: tuple[Call, ...]) -> tuple[Call, ...]:
    return _answered(_compiled(source), [(call.name, call.arguments) for call in case])


def test_the_same_seed_gives_the_same_tasks_and_a_longer_list_starts_with_the_shorter() -> None:
    assert code_tasks(30, seed=4) == EVERY[:30]
    assert code_tasks(30, seed=5) != EVERY[:30]


def test_more_tasks_than_ways_to_break_a_module_are_distinct_all_the_same() -> None:
    assert len({task.task_id for task in code_tasks(400, seed=4)}) == 400


def test_252_tasks_hold_every_module_at_every_level() -> None:
    levels = Counter(task.metadata["level"] for task in EVERY)
    assert levels == {1: 40, 2: 64, 3: 148}
    assert {task.metadata["module"] for task in EVERY} == {p.module for p in PROBLEMS}


def test_a_level_can_be_chosen() -> None:
    assert {task.metadata["level"] for task in code_tasks(20, level=1)} == {1}


def test_every_exercise_shows_its_bug_and_hides_more_of_it() -> None:
    for task in EVERY:
        exercise = Exercise.from_text(str(task.answer))
        broken = exercise.files[f"{exercise.module}.py"]
        visible = [c for c in exercise.visible if answers(broken, c) != c]
        hidden = [c for c in exercise.hidden if answers(broken, c) != c]
        assert len(visible) >= 1, task.task_id
        assert len(hidden) >= 3, task.task_id
        assert any(call.raises is None for case in hidden for call in case)
        assert not set(map(repr, exercise.visible)) & set(map(repr, exercise.hidden))


def test_no_goal_and_no_metadata_tells_a_hidden_case() -> None:
    for task in EVERY[:60]:
        exercise = Exercise.from_text(str(task.answer))
        told = f"{task.goal} {task.metadata} {exercise.files} {exercise.test_file()}"
        for case in exercise.hidden:
            arguments = spelled(case[-1]).partition("(")[2]
            if len(case) == 1 and len(arguments) > 8:
                assert arguments not in told


def test_the_test_files_are_true_for_the_right_modules(tmp_path: Path) -> None:
    for task in EVERY:
        exercise = Exercise.from_text(str(task.answer))
        (tmp_path / f"test_{exercise.module}.py").write_text(exercise.test_file())
    for problem in PROBLEMS:
        (tmp_path / f"{problem.module}.py").write_text(problem.source)
    command = [sys.executable, "-B", "-m", "unittest", "discover", "-s", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f"Ran {26 * 5} tests" in ran.stderr


@locked
@pytest.mark.slow
def test_the_oracle_mends_every_way_to_break_a_module() -> None:
    runs = list(run_rollouts(unhurried, ScriptedCoder(), EVERY))
    assert [run.task_id for run in runs if not run.success] == []
    assert all(run.n_tool_errors == 0 for run in runs)


@locked
@pytest.mark.slow
def test_profiles_solve_as_much_as_they_say() -> None:
    tasks = code_tasks(60, seed=9)
    policies = [ScriptedCoder(name) for name in ("careful", "hasty", "gaming")]
    runs = run_rollouts(unhurried, policies, tasks, limits=Limits(concurrency=2))
    solved = Counter(run.policy_version for run in runs if run.success)
    assert 40 <= solved["careful"] <= 58
    assert 18 <= solved["hasty"] <= 36
    assert 15 <= solved["gaming"] <= 32


@locked
def test_learning_the_visible_tests_by_heart_fails_the_hidden_ones() -> None:
    by_heart = ScriptedCoder(
        type(CODE_PROFILES["oracle"])(name="test", faults={"learns-the-tests": 1.0})
    )
    tasks = [t for t in code_tasks(12, seed=2) if t.metadata["module"] not in ("bank", "recent")]
    for run in run_rollouts(unhurried, by_heart, tasks[:8]):
        rewards = dict(run.rewards)
        assert run.reward == 0.0
        assert rewards["visible_passed"] > rewards["hidden_passed"]
