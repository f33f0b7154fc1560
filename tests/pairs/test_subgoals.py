"""Credit by sub-goals: +0.2 for each that was reached, blame inside the first that failed (A)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tests.pairs.worlds import run, tables
from trajstore.errors import PairError
from trajstore.pairs import labels_of, subgoal_credit, subgoal_marks
from trajstore.schema import Label, Trajectory, labels_to_arrow


def marks(*ends: tuple[int, bool], run_id: str = "r") -> pa.Table:
    """Sub-goals of one run: the step at which each ended, and whether it was reached."""
    steps, reached = [e for e, _ in ends], [r for _, r in ends]
    columns = {"trajectory_id": [run_id] * len(ends), "step_index": steps, "reached": reached}
    return pa.table(columns)


def failing(**changes: Any) -> Trajectory:
    """Agent steps 2 to 7."""
    return run("r", *(f"a({n})" for n in range(6)), **changes)


def credited(made: Trajectory, subgoals: pa.Table, **options: Any) -> dict[int, float]:
    found = subgoal_credit(*tables([made]), subgoals, **options).rows.to_pylist()
    return {f["step_index"]: f["value"] for f in found}


def goal_label(name: str, step: int | None, day: int = 1, *, reached: bool) -> Label:
    at = datetime(2026, 1, day, tzinfo=UTC)
    return Label(
        trajectory_id="r",
        name=name,
        step_index=step,
        success=reached,
        evaluator="e",
        created_at=at,
    )


def test_named_sub_goals_are_read_too_by_their_newest_word() -> None:
    labels = [
        goal_label("sub-goal/open", 3, reached=False),
        goal_label("sub-goal/open", 4, 2, reached=True),
        goal_label("subgoal", 5, reached=True),
        goal_label("sub-goal/send", 5, reached=False),
    ]
    found = subgoal_marks(labels_to_arrow(labels)).to_pylist()
    assert [(f["step_index"], f["reached"]) for f in found] == [(4, True), (5, False)]


def test_a_sub_goal_that_was_open_at_the_end_is_blamed_to_the_end() -> None:
    """Steps 2 to 7; the first sub-goal ends at 5, the other one never."""
    labels = [
        goal_label("sub-goal/a", 5, reached=True),
        goal_label("sub-goal/b", None, reached=False),
    ]
    found = credited(failing(), subgoal_marks(labels_to_arrow(labels)))
    assert found == pytest.approx({5: 0.2, 6: -0.1, 7: -0.1})


def test_blame_falls_only_inside_the_first_failed_sub_goal() -> None:
    """Sub-goals end at 3 (reached), 5 (failed), 7 (failed): steps 4 and 5 share the blame."""
    found = credited(failing(), marks((3, True), (5, False), (7, False)))
    assert found == pytest.approx({3: 0.2, 4: -0.1, 5: -0.1})


def test_a_first_sub_goal_that_fails_blames_from_the_start() -> None:
    assert credited(failing(), marks((3, False))) == pytest.approx({2: -0.1, 3: -0.1})


def test_a_run_that_passed_is_not_blamed() -> None:
    assert credited(failing(reward=1), marks((3, True), (5, False))) == {3: 0.2}


def test_a_run_of_unknown_outcome_is_not_blamed() -> None:
    assert credited(failing(reward=None), marks((3, True), (5, False))) == {3: 0.2}


def test_a_value_estimate_shares_the_blame_by_its_falls() -> None:
    """The estimate falls by .1 over step 4 and by .3 over step 5: a quarter and three quarters."""
    values = pa.table(
        {"trajectory_id": ["r"] * 3, "step_index": [4, 5, 6], "value": [0.8, 0.7, 0.4]}
    )
    found = credited(failing(), marks((3, True), (5, False)), values=values)
    assert found == pytest.approx({3: 0.2, 4: -0.05, 5: -0.15})


def test_an_estimate_that_never_falls_shares_the_blame_evenly() -> None:
    values = pa.table({"trajectory_id": ["r"], "step_index": [4], "value": [0.8]})
    found = credited(failing(), marks((3, True), (5, False)), values=values)
    assert found == pytest.approx({3: 0.2, 4: -0.1, 5: -0.1})


def test_the_bonus_can_be_set() -> None:
    assert credited(failing(), marks((2, True), (3, False)), bonus=1.0) == {2: 1.0, 3: -1.0}


def test_marks_come_from_step_labels_and_the_newest_word_counts() -> None:
    def word(step: int, day: int, *, reached: bool) -> Label:
        return Label(
            trajectory_id="r",
            step_index=step,
            name="subgoal",
            success=reached,
            evaluator="critic",
            created_at=datetime(2026, 1, day, tzinfo=UTC),
        )

    labels = labels_to_arrow([word(3, 1, reached=False), word(3, 2, reached=True)])
    assert subgoal_marks(labels).to_pylist() == [
        {"trajectory_id": "r", "step_index": 3, "reached": True}
    ]


def test_the_credit_goes_out_as_labels() -> None:
    credit = subgoal_credit(*tables([failing()]), marks((2, True)))
    (label,) = labels_of(credit)
    assert (label.name, label.step_index, label.value) == ("subgoal_credit", 2, 0.2)


def test_sub_goals_without_a_verdict_are_refused() -> None:
    with pytest.raises(PairError, match="lack 'reached'"):
        credited(failing(), marks((2, True)).drop_columns(["reached"]))
