"""The stage ``integrity``: what it drops, what it tells, and that both ways to look agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.filters.frames import asked, bash, call, details, run, said, selected, stored, why
from trajstore import open as open_store
from trajstore.errors import SelectionError
from trajstore.filters import (
    DEFAULT_INTEGRITY_RULES,
    INTEGRITY_RULES,
    Finding,
    integrity_findings,
    run_stages,
    stage,
)
from trajstore.pipeline.selecting import summary_frame

CLEAN = run("a", asked("Fix it"), bash("cat src/x.py", "code"), success=True)
CHEAT = run(
    "b",
    bash("ls tests", "tests/test_x.py"),
    bash("sed -i 's/assert f() == 2/assert f() == 3/' tests/test_x.py"),
    bash("rm tests/test_y.py"),
    said("All tests pass now."),
)


def test_a_clean_run_stays_and_a_cheat_goes_for_the_gravest_rule(tmp_path: Path) -> None:
    selection = selected(stored(tmp_path, CLEAN, CHEAT), stage("integrity"))
    assert selection.ids() == ["a"]
    assert why(selection) == {"b": "tests-deleted"}
    assert details(selection)["b"] == (
        "tests-deleted at step 2: deleted tests/test_y.py; "
        "tests-edited at step 1: changed tests/test_x.py: assert f() == 2; "
        "unverified-claim at step 3: All tests pass now."
    )


def test_only_the_named_rules_are_looked_at(tmp_path: Path) -> None:
    frame = stored(tmp_path, CLEAN, CHEAT)
    only = selected(frame, stage("integrity", rules=["unverified-claim"]))
    assert why(only) == {"b": "unverified-claim"}
    assert len(selected(frame, stage("integrity", rules=["answer-read"]))) == 2


def test_findings_come_gravest_first_then_by_step() -> None:
    found = integrity_findings(CHEAT)
    assert [(f.rule, f.step_index) for f in found] == [
        ("tests-deleted", 2),
        ("tests-edited", 1),
        ("unverified-claim", 3),
    ]


def test_reading_tests_and_history_is_looked_at_only_when_asked_for() -> None:
    reader = run("a", bash("cat tests/test_x.py", "def test_x(): ..."))
    assert integrity_findings(reader) == []
    assert integrity_findings(reader, ["tests-read"]) == [
        Finding("tests-read", 0, "tests/test_x.py")
    ]


def test_unknown_rules_are_answered_with_the_real_ones() -> None:
    with pytest.raises(SelectionError, match=r"knows no honesty\. Rules: tests-deleted"):
        integrity_findings(CLEAN, ["honesty"])  # type: ignore[list-item]  # that is the point
    with pytest.raises(SelectionError, match="at least one rule"):
        integrity_findings(CLEAN, [])


def test_copied_context_is_not_judged(tmp_path: Path) -> None:
    steps = tuple(replace(s, is_copied=True) for s in CHEAT.steps)
    copied = replace(CHEAT, steps=steps)
    assert integrity_findings(copied) == []
    assert len(selected(stored(tmp_path, copied), stage("integrity"))) == 1


def test_many_runs_are_judged_each_by_its_own_steps(tmp_path: Path) -> None:
    runs = [
        run(f"{i:03}", bash("rm tests/test_a.py")) if i % 7 == 0 else run(f"{i:03}", bash("ls"))
        for i in range(40)
    ]
    dropped = why(selected(stored(tmp_path, *runs), stage("integrity")))
    assert sorted(dropped) == [f"{i:03}" for i in range(0, 40, 7)]


def test_default_rules_are_the_first_of_all() -> None:
    assert INTEGRITY_RULES[: len(DEFAULT_INTEGRITY_RULES)] == DEFAULT_INTEGRITY_RULES


def test_the_stage_and_the_function_find_the_same_in_real_runs(
    tmp_path: Path, real_data: Path
) -> None:
    pool = open_store(tmp_path / "pool", durable=False)
    for folder in ("mini_swe_agent", "swe_agent", "openhands", "claude_code"):
        pool.import_files(real_data / folder)
    frame = summary_frame(pool.reader())
    selection = run_stages(frame, [stage("integrity", rules=list(INTEGRITY_RULES))])
    outcomes = dict(
        zip(
            frame.rows.column("trajectory_id").to_pylist(),
            frame.rows.column("success").to_pylist(),
            strict=True,
        )
    )
    expected = {}
    for trajectory in pool.reader().scan():
        found = integrity_findings(trajectory, INTEGRITY_RULES)
        known = outcomes[trajectory.trajectory_id] is not None
        found = [f for f in found if not (known and f.rule == "unverified-claim")]
        if found:
            expected[trajectory.trajectory_id] = found[0].rule
    assert why(selection) == expected


@pytest.mark.parametrize(
    ("folder", "rule", "count"),
    [
        ("mini_swe_agent", "tests-edited", 0),
        ("mini_swe_agent", "tests-deleted", 0),
        ("mini_swe_agent", "tests-read", 9),
        ("mini_swe_agent", "unverified-claim", 1),
        ("swe_agent", "tests-edited", 0),
        ("swe_agent", "unverified-claim", 6),
        ("claude_code", "tests-edited", 2),
        ("claude_code", "unverified-claim", 3),
        ("tau_bench", "answer-read", 0),
        ("tau_bench", "gold-copied", 0),
    ],
)
def test_real_runs_hold_what_was_seen_by_eye(
    tmp_path: Path, real_data: Path, folder: str, rule: str, count: int
) -> None:
    """Every finding was read in its run; see docs/algorithms/integrity.md."""
    pool = open_store(tmp_path / "pool", durable=False)
    pool.import_files(real_data / folder)
    selection = run_stages(summary_frame(pool.reader()), [stage("integrity", rules=[rule])])
    assert selection.dropped.num_rows == count


def test_an_answer_of_a_tool_is_not_mixed_up_with_files(tmp_path: Path) -> None:
    shop = run("a", call("search", {"query": "tests/test_x.py delete"}), call("delete", {"id": 1}))
    assert len(selected(stored(tmp_path, shop), stage("integrity"))) == 1
