"""How stages act together: those that judge each run by itself can be put in any order."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import asked, bash, run, said, selected, stored, summaries, why
from trajstore.filters import Frame, Stage, stage

EACH_BY_ITSELF: list[Stage] = [
    stage("success", failures=True),
    stage("reward", least=0.2),
    stage("status", unknown=True),
    stage("steps", most=30),
    stage("format-errors", most=1),
    stage("staleness", most=3, current="iter-5"),
    stage("held-out-tasks", tasks=["t1"]),
    stage("keep", condition="n_steps <> 7"),
]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "task_id": st.sampled_from(["t1", "t2"]),
            "success": st.sampled_from([True, False, None]),
            "reward": st.sampled_from([None, 0.1, 0.2, 1.0]),
            "status": st.sampled_from([None, "terminated", "error"]),
            "n_steps": st.integers(0, 40),
            "n_format_errors": st.integers(0, 3),
            "policy_version": st.sampled_from(["iter-1", "iter-2", "iter-5"]),
        }
    ),
    max_size=10,
)


@settings(deadline=None, max_examples=40)
@given(ROWS, st.lists(st.sampled_from(EACH_BY_ITSELF), min_size=2, max_size=3, unique_by=id))
def test_the_order_of_such_stages_does_not_change_what_is_taken(
    rows: list[dict[str, object]], stages: list[Stage]
) -> None:
    frame = summaries(*rows)
    taken = [selected(frame, *order).ids() for order in permutations(stages)]
    assert all(ids == taken[0] for ids in taken)


@settings(deadline=None, max_examples=40)
@given(ROWS, st.sampled_from(EACH_BY_ITSELF))
def test_a_stage_a_second_time_drops_nothing(rows: list[dict[str, object]], again: Stage) -> None:
    selection = selected(summaries(*rows), again, again)
    assert selection.funnel[1].before == selection.funnel[1].after


@settings(deadline=None, max_examples=40)
@given(ROWS, st.sampled_from(EACH_BY_ITSELF), st.sampled_from(EACH_BY_ITSELF))
def test_a_run_goes_for_the_first_stage_that_drops_it(
    rows: list[dict[str, object]], first: Stage, second: Stage
) -> None:
    frame = summaries(*rows)
    alone = why(selected(frame, first))
    both = why(selected(frame, first, second))
    assert {i: both[i] for i in alone} == alone


def test_a_stage_that_compares_runs_sees_only_what_is_left() -> None:
    """The mean of the task is over the rows at hand: 0.5 of both, 1.0 once the failure is gone."""
    frame = summaries({"success": True, "reward": 1.0}, {"success": False, "reward": 0.0})
    mean, success = stage("above-task-mean"), stage("success")
    assert selected(frame, mean, success).ids() == ["a"]
    assert selected(frame, success, mean).ids() == []


STEPS: list[Stage] = [
    stage("repeats"),
    stage("loops"),
    stage("tools", forbidden=["web"]),
    stage("integrity"),
    stage("secrets"),
    stage("where", condition="true"),
]


@pytest.mark.parametrize("looks", STEPS, ids=lambda s: str(s.name))
def test_stages_that_look_at_steps_judge_only_runs_of_their_frame(
    looks: Stage, tmp_path: Path
) -> None:
    bad = (bash("rm tests/test_a.py"), *(bash("ls") for _ in range(5)), said("All tests pass."))
    frame = stored(tmp_path, run("a", asked("hi")), run("b", *bad), run("c", asked("ho")))
    part = Frame(frame.rows.filter([True, False, True]), frame.steps)
    selection = selected(part, looks)
    assert selection.ids() == ["a", "c"]
    assert selection.dropped.num_rows == 0


@pytest.mark.parametrize("looks", STEPS, ids=lambda s: str(s.name))
def test_stages_that_look_at_steps_take_an_empty_frame(looks: Stage, tmp_path: Path) -> None:
    frame = stored(tmp_path, run("a", asked("hi")))
    assert len(selected(Frame(frame.rows.slice(0, 0), frame.steps), looks)) == 0


@pytest.mark.parametrize("looks", STEPS, ids=lambda s: str(s.name))
def test_stages_that_look_at_steps_keep_the_order_and_columns_of_their_rows(
    looks: Stage, tmp_path: Path
) -> None:
    runs = [run(i, asked("hi")) for i in "abc"]
    frame = stored(tmp_path, *runs)
    turned = frame.rows.sort_by([("trajectory_id", "descending")])
    turned = turned.append_column("score", [[3.0, 2.0, 1.0]])
    result = looks.apply(Frame(turned, frame.steps))
    assert result.rows == turned
