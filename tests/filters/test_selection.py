from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import NoSteps, selected, summaries, why
from trajstore.errors import SelectionError
from trajstore.exports import Lineage
from trajstore.filters import (
    SUMMARY_COLUMNS,
    SUMMARY_SCHEMA,
    Frame,
    NamedStage,
    Stage,
    StageResult,
    run_stages,
    stage,
    stages_from,
)
from trajstore.schema import TRAJECTORY_SCHEMA, canonical_json

OUTCOMES = summaries(
    {"success": True, "reward": 1.0, "n_steps": 5},
    {"success": False, "reward": 0.0, "n_steps": 5},
    {"success": None, "n_steps": 5},
    {"success": True, "reward": 1.0, "n_steps": 50},
)


@dataclass(frozen=True, slots=True)
class Loses(NamedStage):
    """A stage with a fault: it forgets a row."""

    name: ClassVar[str] = "loses"

    def apply(self, frame: Frame) -> StageResult:
        return StageResult(frame.rows.slice(1), pa.table({"trajectory_id": [], "reason": []}))


@dataclass(frozen=True, slots=True)
class Scores(NamedStage):
    """A stage that adds a column and turns the rows round."""

    name: ClassVar[str] = "scores"

    def apply(self, frame: Frame) -> StageResult:
        scored = frame.rows.append_column("score", frame.rows.column("n_steps"))
        none = pa.nulls(frame.rows.num_rows, pa.string())
        return StageResult.split(scored.sort_by([("score", "descending")]), none)


def test_summary_columns_are_trajectory_columns_without_long_text() -> None:
    long = {"goal", "tools", "metadata", "error", "source_uri"}
    assert set(SUMMARY_COLUMNS) <= set(TRAJECTORY_SCHEMA.names) - long


def test_a_selection_says_which_stage_dropped_each_run_and_why() -> None:
    selection = selected(OUTCOMES, stage("success"), stage("steps", most=10))
    assert selection.ids() == ["a"]
    assert selection.dropped.to_pylist() == [
        {"trajectory_id": "b", "stage": "success", "reason": "failure", "detail": None},
        {"trajectory_id": "c", "stage": "success", "reason": "unknown-outcome", "detail": None},
        {"trajectory_id": "d", "stage": "steps", "reason": "too-many-steps", "detail": None},
    ]


def test_the_funnel_counts_in_and_out_of_every_stage() -> None:
    selection = selected(OUTCOMES, stage("success"), stage("steps", most=10))
    numbers = [(s.name, s.before, s.after, s.dropped) for s in selection.funnel]
    assert numbers == [
        ("success", 4, 2, {"failure": 1, "unknown-outcome": 1}),
        ("steps", 2, 1, {"too-many-steps": 1}),
    ]


def test_no_stage_selects_everything() -> None:
    assert selected(OUTCOMES).ids() == ["a", "b", "c", "d"]


def test_nothing_to_select_from_gives_an_empty_selection() -> None:
    selection = selected(summaries(), stage("success"), stage("above-task-mean"))
    assert (len(selection), selection.dropped.num_rows) == (0, 0)


def test_the_recipe_makes_the_same_selection_again() -> None:
    selection = selected(OUTCOMES, stage("success", failures=True), stage("reward", least=0.5))
    again = selected(OUTCOMES, *stages_from(selection.recipe))
    assert again == selection


def test_a_later_stage_sees_the_columns_that_an_earlier_one_added() -> None:
    selection = selected(OUTCOMES, Scores(), stage("keep", condition="score > 5"))
    assert selection.ids() == ["d"]
    assert selection.rows.column("score").to_pylist() == [50]


def test_a_stage_can_order_the_rows() -> None:
    assert selected(OUTCOMES, Scores()).ids()[0] == "d"


def test_a_stage_that_loses_a_row_is_found_out() -> None:
    with pytest.raises(SelectionError, match="'loses' was given 4 rows, left 3 and dropped 0"):
        run_stages(OUTCOMES, [Loses()])


def test_an_id_twice_is_refused_and_named() -> None:
    rows = pa.concat_tables([OUTCOMES.rows, OUTCOMES.rows.slice(1, 1)])
    with pytest.raises(SelectionError, match="more than once, such as b"):
        run_stages(Frame(rows, NoSteps()), [])


def test_rows_without_a_summary_column_are_refused_by_its_name() -> None:
    rows = OUTCOMES.rows.drop_columns(["reward", "status"])
    with pytest.raises(SelectionError, match="lack the columns status, reward"):
        run_stages(Frame(rows, NoSteps()), [])


def test_the_lineage_is_what_an_export_takes() -> None:
    selection = run_stages(OUTCOMES, [stage("success")], snapshot=7)
    lineage = Lineage(**selection.lineage())
    assert lineage.snapshot == 7
    assert lineage.filter == canonical_json([{"stage": "success", "failures": False}])
    assert lineage.funnel[0] == {
        "stage": "success",
        "parameters": {"failures": False},
        "in": 4,
        "out": 2,
        "dropped": {"failure": 1, "unknown-outcome": 1},
    }


def test_split_keeps_rows_without_a_reason_and_details_of_the_others() -> None:
    reasons, notes = pa.array([None, "x", None, "y"]), pa.array(["1", "2", "3", None])
    result = StageResult.split(OUTCOMES.rows, reasons, notes)
    assert result.rows.column("trajectory_id").to_pylist() == ["a", "c"]
    assert result.dropped.to_pylist() == [
        {"trajectory_id": "b", "reason": "x", "detail": "2"},
        {"trajectory_id": "d", "reason": "y", "detail": None},
    ]


def test_keep_drops_what_is_false_and_what_is_unknown() -> None:
    mask = pa.array([True, False, None, True])
    result = StageResult.keep(OUTCOMES.rows, mask, "unfit")
    assert result.dropped.column("trajectory_id").to_pylist() == ["b", "c"]


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "task_id": st.sampled_from(["t1", "t2", "t3"]),
            "success": st.sampled_from([True, False, None]),
            "reward": st.sampled_from([None, 0.0, 0.25, 1.0, -1.0]),
            "n_steps": st.integers(0, 60),
            "n_tool_calls": st.integers(0, 9),
            "n_tool_errors": st.integers(0, 4),
            "policy_version": st.sampled_from([None, "iter-1", "iter-4", "none"]),
            "status": st.sampled_from([None, "terminated", "error"]),
        }
    ),
    max_size=12,
)
STAGES: list[Stage] = [
    stage("success"),
    stage("success", failures=True),
    stage("reward", least=0.1, most=0.9),
    stage("above-task-mean", margin=0.1),
    stage("status"),
    stage("steps", least=3, most=40),
    stage("tool-errors", most=2, most_share=0.5),
    stage("staleness", most=2),
    stage("superseded"),
    stage("held-out-tasks", tasks=["t2"]),
    stage("keep", condition="n_steps > 5 AND reward IS NOT NULL"),
]


@settings(deadline=None, max_examples=50)
@given(ROWS, st.lists(st.sampled_from(STAGES), max_size=4), st.randoms(use_true_random=False))
def test_every_row_is_taken_or_dropped_once_in_whatever_order_it_came(
    rows: list[dict[str, object]], stages: list[Stage], shuffle: random.Random
) -> None:
    frame = summaries(*rows)
    selection = selected(frame, *stages)
    dropped = selection.dropped.column("trajectory_id").to_pylist()
    ids = frame.rows.column("trajectory_id").to_pylist()
    assert sorted([*selection.ids(), *dropped]) == sorted(ids)
    order = list(range(len(rows)))
    shuffle.shuffle(order)
    mixed = Frame(frame.rows.take(pa.array(order, pa.int64())), NoSteps())
    assert selected(mixed, *stages) == selection


@settings(deadline=None, max_examples=50)
@given(ROWS, st.sampled_from(STAGES))
def test_funnel_counts_are_the_counts_of_the_dropped_list(
    rows: list[dict[str, object]], first: Stage
) -> None:
    selection = selected(summaries(*rows), first, stage("success"))
    assert set(why(selection)) == set(selection.dropped.column("trajectory_id").to_pylist())
    for made in selection.funnel:
        of_stage = pc.equal(selection.dropped.column("stage"), made.name)
        if len({s.name for s in selection.funnel}) == len(selection.funnel):
            assert sum(made.dropped.values()) == pc.sum(of_stage, min_count=0).as_py()
        assert made.before - made.after == sum(made.dropped.values())


def test_rows_keep_the_types_of_the_summary() -> None:
    assert selected(OUTCOMES, stage("success")).rows.schema == SUMMARY_SCHEMA
