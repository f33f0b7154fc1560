"""Runs as the rules see them: the same from a store and from a trajectory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.filters.frames import asked, bash, call, run, said, stored
from trajstore import Observation, Step, ToolCall
from trajstore.filters import Frame, evidence
from trajstore.filters.evidence import LONGEST_TEXT, Run, run_of, runs_of
from trajstore.testing import sample_trajectories


def nothing(made: Run) -> bool:
    """Whether there is nothing to look at in a run."""
    return not (made.calls or made.said or made.asked or made.touches or made.final_answer)


def test_both_ways_give_the_same_run(tmp_path: Path) -> None:
    samples = sample_trajectories(9)
    expected = {t.trajectory_id: run_of(t) for t in samples}
    found = {r.trajectory_id: r for r in runs_of(stored(tmp_path, *samples))}
    assert found == expected


def test_runs_come_in_order_whatever_the_size_of_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run(f"{i:02}", asked(f"do {i}"), bash(f"echo {i}")) for i in range(7)]
    frame = stored(tmp_path, *runs)
    monkeypatch.setattr(evidence, "_BLOCK_BYTES", 1)
    found = list(runs_of(frame))
    assert [r.trajectory_id for r in found] == [f"{i:02}" for i in range(7)]
    assert [r.asked for r in found] == [f"do {i}" for i in range(7)]


def test_a_run_without_steps_to_look_at_is_a_run(tmp_path: Path) -> None:
    (found,) = runs_of(stored(tmp_path, run("a", Step(actor="system", text="rules"))))
    assert nothing(found)


def test_outcomes_are_those_of_the_frame(tmp_path: Path) -> None:
    frame = stored(tmp_path, run("a", said("x"), success=True))
    changed = frame.rows.set_column(
        frame.rows.column_names.index("success"), frame.rows.schema.field("success"), [[False]]
    )
    (found,) = runs_of(Frame(changed, frame.steps))
    assert found.success is False


def test_long_results_are_cut() -> None:
    (made,) = run_of(run("a", bash("cat x", "y" * 50_000))).calls
    assert len(made.observation) == LONGEST_TEXT


def test_results_go_to_their_calls_also_where_ids_repeat() -> None:
    step = Step(
        actor="agent",
        tool_calls=tuple(ToolCall.of(n, {}, i) for n, i in (("x", "1"), ("y", "1"), ("z", "2"))),
        observations=tuple(
            Observation(call_id=i, text=t)
            for i, t in (("2", "third"), ("1", "first"), ("1", "second"))
        ),
    )
    calls = run_of(run("a", step)).calls
    assert [(c.name, c.observation) for c in calls] == [
        ("x", "first"),
        ("y", "second"),
        ("z", "third"),
    ]


def test_a_call_without_a_result_has_an_empty_one() -> None:
    step = Step(actor="agent", tool_calls=(ToolCall.of("x", {}, "1"),))
    (made,) = run_of(run("a", step)).calls
    assert (made.observation, made.is_error, made.failed) == ("", None, False)


def test_touches_tell_what_is_own_what_was_there_and_what_was_asked_for() -> None:
    made = run_of(
        run(
            "a",
            asked("Change setup.py"),
            bash("cat > new.py <<E\nx\nE"),
            bash("ls src", "src/old.py"),
            bash("rm new.py src/old.py setup.py"),
        )
    )
    told = [(t.action.kind, t.action.path, t.own, t.known, t.asked) for t in made.touches]
    assert told == [
        ("write", "new.py", False, False, False),
        ("delete", "new.py", True, False, False),
        ("delete", "src/old.py", False, True, False),
        ("delete", "setup.py", False, False, True),
    ]


def test_what_an_edit_tool_failed_to_do_was_not_done() -> None:
    failed = call(
        "Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}, "no", is_error=True
    )
    assert run_of(run("a", failed)).touches == []


def test_a_shell_command_that_failed_may_have_done_its_work() -> None:
    failed = bash("rm tests/test_a.py && false", "", is_error=True)
    assert [t.action.kind for t in run_of(run("a", failed)).touches] == ["delete"]


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        ((said("one"), said("two")), (1, "two")),
        ((said("one"), call("finish", {"answer": "x"})), (1, "x")),
        ((call("finish", {"answer": "x"}), said("two")), (1, "two")),
        ((said("one"), call("submit", {})), (0, "one")),
        ((said("one"), call("submit", {"command": "submit\n"})), (0, "one")),
        ((call("submit", "free text"),), (0, "free text")),
        ((call("final_answer", {"n": 42}),), (0, "42")),
        ((bash("ls"),), None),
        ((), None),
    ],
)
def test_the_final_answer_is_what_was_handed_in_or_said_last(
    steps: tuple[Step, ...], answer: tuple[int, str] | None
) -> None:
    assert run_of(run("a", *steps)).final_answer == answer


def test_copied_context_is_left_out() -> None:
    copied = [replace(s, is_copied=True) for s in (asked("x"), said("y"), bash("ls"))]
    assert nothing(run_of(run("a", *copied)))
