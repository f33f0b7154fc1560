"""Reflexion's trial files: which attempts happened, and each reflection once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.reflexion import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Reflection, Trajectory, finish, reflection_id

RUNS = ("alfworld/base_run_logs", "alfworld/reflexion_run_logs", "webshop/reflexion_run_logs_1")


def read(source: Source, **options: Any) -> list[Item]:
    return list(IMPORTER.read(source, ImportOptions(**options)))


def runs(source: Source, **options: Any) -> list[Trajectory]:
    return [finish(i) for i in read(source, **options) if isinstance(i, Trajectory)]


def reflections(source: Source) -> list[Reflection]:
    return [i for i in read(source) if isinstance(i, Reflection)]


def problems(source: Source) -> list[Problem]:
    return [i for i in read(source) if isinstance(i, Problem)]


def run_folder(folder: Path) -> Source:
    """A run as the walk hands it out: one source."""
    (group,) = IMPORTER.claims(folder, frozenset(p.name for p in folder.iterdir()))
    files = tuple(folder / name for name in group)
    return Source(folder, uri=files[0].as_posix(), files=files)


def env(number: int, *memory: str, solved: object = False, **more: Any) -> dict[str, Any]:
    return {"name": f"env_{number}", "memory": list(memory), "is_success": solved, **more}


def trial(folder: Path, number: int, *records: Any) -> Source:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"env_results_trial_{number}.json"
    path.write_text(json.dumps(list(records), indent=4))
    return Source(path)


# --- the real runs ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(real_data: Path) -> dict[str, Source]:
    return {name: run_folder(real_data / "reflexion" / name) for name in RUNS}


@pytest.mark.parametrize(
    ("name", "solved"),
    [
        (RUNS[0], [84, 94, 97, 98, 100, 101, 101]),
        (
            RUNS[1],
            [84, 103, 111, 113, 117, 118, 123, 126, 128, 129, 130, 130, 131, 133, 134],
        ),
        (RUNS[2], [33, 33, 34, 35]),
    ],
)
def test_attempts_after_the_first_success_did_not_happen(
    real: dict[str, Source], name: str, solved: list[int]
) -> None:
    """From the counts of solved tasks alone: trial k tries those that trial k-1 left open."""
    tasks = 100 if "webshop" in name else 134
    before = [0, *solved[:-1]]
    found = runs(real[name])
    attempts = Counter(t.attempt for t in found)
    assert attempts == {k: tasks - b for k, b in enumerate(before) if tasks > b}
    successes = Counter(t.attempt for t in found if t.success)
    assert +successes == +Counter(
        {k: s - b for k, (s, b) in enumerate(zip(solved, before, strict=True))}
    )


@pytest.mark.parametrize(("name", "count"), list(zip(RUNS, (163, 200, 265), strict=True)))
def test_each_reflection_comes_once_although_memory_is_cumulative(
    real: dict[str, Source], name: str, count: int
) -> None:
    """The last trial file holds every reflection of the run."""
    found = reflections(real[name])
    assert len(found) == len({reflection_id(r) for r in found}) == count


@pytest.mark.parametrize("name", RUNS)
def test_each_reflection_speaks_of_a_failed_attempt_of_its_trial(
    real: dict[str, Source], name: str
) -> None:
    failed = {t.trajectory_id: t for t in runs(real[name]) if t.success is False}
    for reflection in reflections(real[name]):
        attempt = failed[reflection.trajectory_id or ""]
        assert (attempt.task_id, attempt.attempt) == (reflection.task_id, reflection.trial)


def test_two_runs_over_the_same_tasks_stay_two(real: dict[str, Source]) -> None:
    base, memory = runs(real[RUNS[0]]), runs(real[RUNS[1]])
    assert not {t.trajectory_id for t in base} & {t.trajectory_id for t in memory}
    assert {t.task_id for t in base} == {t.task_id for t in memory}
    assert ({t.agent for t in base}, {t.agent for t in memory}) == ({"base"}, {"reflexion"})


def test_environment_is_known(real: dict[str, Source]) -> None:
    assert runs(real[RUNS[0]])[0].task_id == "alfworld/env_0"
    assert runs(real[RUNS[2]])[0].task_id == "webshop/env_0"
    assert {t.environment for t in runs(real[RUNS[1]])} == {"alfworld"}


def test_there_are_no_steps(real: dict[str, Source]) -> None:
    assert {t.n_steps for t in runs(real[RUNS[0]])} == {0}


def test_files_one_by_one_give_the_same_as_the_folder(
    real: dict[str, Source], real_data: Path
) -> None:
    folder = real_data / "reflexion" / RUNS[1]
    single = [i for f in sorted(folder.iterdir()) for i in read(Source(f))]
    whole = read(real[RUNS[1]])
    for kind in (Trajectory, Reflection):
        assert sorted(map(repr, (i for i in single if isinstance(i, kind)))) == sorted(
            map(repr, (i for i in whole if isinstance(i, kind)))
        )


def test_only_notes_are_reported(real: dict[str, Source]) -> None:
    assert {p.kind for s in real.values() for p in problems(s)} == {"ignored"}


# --- which attempts happened ------------------------------------------------------------------


def test_carried_success_is_no_attempt(tmp_path: Path) -> None:
    trial(tmp_path, 0, env(0, solved=True), env(1, "plan"))
    second = trial(tmp_path, 1, env(0, solved=True), env(1, "plan", solved=True))
    (found,) = runs(second)
    assert (found.task_id, found.attempt, found.success) == ("reflexion/env_1", 1, True)
    (note,) = problems(second)
    assert note.kind == "ignored"
    assert note.reason.startswith("1 environments were solved")


def test_success_without_the_trial_before_is_unclear_and_a_failure_is_not(tmp_path: Path) -> None:
    alone = trial(tmp_path, 2, env(0, solved=True), env(1, "a", "b", "c"))
    (found,) = runs(alone)
    assert (found.task_id, found.attempt, found.success) == ("reflexion/env_1", 2, False)
    (problem,) = problems(alone)
    assert problem.kind == "bad"
    assert "env_0; put env_results_trial_1.json beside" in problem.reason


def test_a_gap_is_bridged_by_the_nearest_earlier_trial(tmp_path: Path) -> None:
    trial(tmp_path, 0, env(0, solved=True), env(1, "a"), env(2, "a"))
    late = trial(tmp_path, 2, env(0, solved=True), env(1, "a", solved=True), env(2, "a", "b", "c"))
    assert [(t.task_id, t.success) for t in runs(late)] == [("reflexion/env_2", False)]
    assert [(r.trial, r.text) for r in reflections(late)] == [(1, "b"), (2, "c")]
    assert [p.kind for p in problems(late)] == ["ignored", "bad"]


def test_trials_are_read_in_the_order_of_numbers(tmp_path: Path) -> None:
    """By name, trial 10 would come before trial 2."""
    for number in range(11):
        trial(tmp_path, number, env(0, *"abcdefghijk"[: number + 1]))
    source = run_folder(tmp_path)
    assert [f.name[18:-5] for f in source.files] == [str(n) for n in range(11)]
    assert [t.attempt for t in runs(source)] == list(range(11))
    assert [r.text for r in reflections(source)] == list("abcdefghijk")


def test_skipped_environment_has_no_attempt(tmp_path: Path) -> None:
    assert runs(trial(tmp_path, 0, env(0, skip=True), env(1, skip=False)))[0].task_id == (
        "reflexion/env_1"
    )


def test_attempts_are_retries_of_the_one_before(tmp_path: Path) -> None:
    trial(tmp_path, 0, env(0, "a"))
    trial(tmp_path, 1, env(0, "a", "b"))
    first, second = runs(run_folder(tmp_path))
    assert (first.parent_id, first.relation) == (None, None)
    assert (second.parent_id, second.relation) == (first.trajectory_id, "retry")


def test_run_without_memory_has_attempts_and_no_reflections(tmp_path: Path) -> None:
    trial(tmp_path, 0, env(0))
    trial(tmp_path, 1, env(0, solved=True))
    source = run_folder(tmp_path)
    assert [t.success for t in runs(source)] == [False, True]
    assert reflections(source) == []


# --- identity ---------------------------------------------------------------------------------


def test_run_is_named_by_its_folder(tmp_path: Path) -> None:
    one = runs(trial(tmp_path / "a" / "run_x", 0, env(0)))
    same = runs(trial(tmp_path / "b" / "run_x", 0, env(0)))
    other = runs(trial(tmp_path / "a" / "run_y", 0, env(0)))
    assert one[0].trajectory_id == same[0].trajectory_id != other[0].trajectory_id
    assert json.loads(one[0].metadata or "") == {"run": "run_x"}
    assert one[0].agent is None


def test_grown_run_keeps_its_ids(tmp_path: Path) -> None:
    trial(tmp_path, 0, env(0, "a"))
    before = read(run_folder(tmp_path))
    trial(tmp_path, 1, env(0, "a", "b"))
    after = read(run_folder(tmp_path))
    assert [repr(i) for i in before] == [repr(i) for i in after if repr(i) in map(repr, before)]


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        ("I went to countertop 2 and the fridge.", "alfworld"),
        ("I bought a product over my budget.", "webshop"),
        ("I failed.", None),
    ],
)
def test_environment_is_read_from_the_words_of_the_reflections(
    tmp_path: Path, text: str, environment: str | None
) -> None:
    assert runs(trial(tmp_path, 0, env(0, text)))[0].environment == environment


def test_environment_is_read_from_a_folder_where_no_word_tells(tmp_path: Path) -> None:
    folder = tmp_path / "webshop_runs" / "root" / "reflexion_run_logs"
    assert runs(trial(folder, 0, env(0)))[0].task_id == "webshop/env_0"


def test_user_may_name_the_environment(tmp_path: Path) -> None:
    source = trial(tmp_path, 0, env(0, "I failed."))
    assert runs(source, environment="crafter")[0].task_id == "crafter/env_0"


# --- bad input --------------------------------------------------------------------------------


def test_bad_records_cost_no_other(tmp_path: Path) -> None:
    bad = [{"name": "env_1"}, env(2, solved="yes"), env(3) | {"memory": None}, "text"]
    source = trial(tmp_path, 0, env(0), *bad, env(4))
    assert [t.task_id for t in runs(source)] == ["reflexion/env_0", "reflexion/env_4"]
    assert [p.record for p in problems(source)] == ["1", "2", "3", "4"]
    assert "field 'memory' is missing" in problems(source)[0].reason


def test_bad_records_of_the_trial_before_do_no_harm(tmp_path: Path) -> None:
    trial(tmp_path, 0, {"name": ["x"], "memory": [], "is_success": True}, "text", env(0))
    second = trial(tmp_path, 1, env(0, solved=True))
    assert [t.success for t in runs(second)] == [True]


def test_blank_memories_are_no_reflections(tmp_path: Path) -> None:
    found = reflections(trial(tmp_path, 1, env(0, " ", "plan")))
    assert [(r.trial, r.text) for r in found] == [(1, "plan")]


def test_success_behind_a_broken_record_is_unclear(tmp_path: Path) -> None:
    """Trial 0 does not say whether env_0 was solved, so trial 1 cannot be its first success."""
    trial(tmp_path, 0, {"name": "env_0"}, env(1))
    second = trial(tmp_path, 1, env(0, solved=True), env(1, solved=True))
    assert [t.task_id for t in runs(second)] == ["reflexion/env_1"]
    assert [p.kind for p in problems(second)] == ["bad"]


def test_broken_file_of_a_run_is_named(tmp_path: Path) -> None:
    trial(tmp_path, 0, env(0))
    path = trial(tmp_path, 1, env(0), env(1)).path
    path.write_text(path.read_text()[:-60])
    source = run_folder(tmp_path)
    assert [t.attempt for t in runs(source)] == [0, 1]
    assert [p.source.rsplit("/", 1)[-1] for p in problems(source)] == ["env_results_trial_1.json"]


def test_renamed_file_asks_for_its_name(tmp_path: Path) -> None:
    path = trial(tmp_path, 0, env(0)).path.rename(tmp_path / "results.json")
    assert IMPORTER.detect(Source(path)) > 0.9
    (problem,) = read(Source(path))
    assert isinstance(problem, Problem)
    assert "name it env_results_trial_<k>.json again" in problem.reason
