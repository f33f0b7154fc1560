"""What all stages for duplicates share: who comes first, who is compared, what is counted."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import summaries
from tests.filters.in_memory import did, frame_of
from trajstore.errors import SelectionError
from trajstore.filters import Stage, StageResult, stage
from trajstore.filters.clusters import (
    GROUP_SCHEMA,
    Clusters,
    Within,
    best_first,
    groups_table,
    keep_best,
    scopes,
)
from trajstore.filters.contamination import Contamination
from trajstore.filters.duplicates import ExactDuplicates, Merge, NearDuplicates
from trajstore.filters.semantic import SemanticDuplicates
from trajstore.filters.splits import LeakCheck, OnlySplit, Split

OUTCOMES = st.fixed_dictionaries(
    {
        "success": st.sampled_from([True, False, None]),
        "reward": st.sampled_from([0.0, 0.5, 1.0, None]),
        "n_tool_calls": st.integers(0, 2),
        "prompt_tokens": st.sampled_from([1, 2, None]),
        "completion_tokens": st.sampled_from([1, None]),
    }
)


def clusters(*representatives: int, similarity: Sequence[float] | None = None) -> Clusters:
    likeness = similarity or [1.0] * len(representatives)
    return Clusters(pa.array(representatives, pa.int64()), pa.array(likeness, pa.float64()))


def joined(rows: pa.Table, found: Clusters, most_share: float | None = None) -> StageResult:
    return keep_best(rows, found, stage="test", reason="same", most_share=most_share)


@settings(deadline=None)
@given(st.lists(OUTCOMES, max_size=8))
def test_the_order_of_preference_is_that_of_a_python_key(described: list[dict[str, float]]) -> None:
    rows = summaries(*described).rows

    def key(place: int) -> tuple[object, ...]:
        row = described[place]
        outcome = {True: 0, None: 1, False: 2}[row["success"]]  # type: ignore[index]
        tokens = (row["prompt_tokens"], row["completion_tokens"])
        return (
            outcome,
            -row["reward"] if row["reward"] is not None else 1.0,
            row["n_tool_calls"],
            sum(tokens) if None not in tokens else 99,
            place,
        )

    assert best_first(rows).to_pylist() == sorted(range(len(described)), key=key)


def test_a_reward_that_is_no_number_comes_last() -> None:
    rows = summaries({"reward": float("nan")}, {"reward": -5.0}, {"reward": None}).rows
    assert best_first(rows).to_pylist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("within", "same"),
    [
        ("task", {("a", "b"), ("a", "f"), ("b", "f")}),
        ("goal", {("a", "b"), ("a", "c"), ("b", "c")}),
        ("all", None),
    ],
)
def test_only_rows_of_one_scope_are_compared(
    within: Within, same: set[tuple[str, str]] | None
) -> None:
    frame = frame_of(
        did("a", "", task_id="t1", goal="G"),
        did("b", "", task_id="t1", goal=" g "),
        did("c", "", task_id="t2", goal="g"),
        did("d", "", task_id="t2", goal="g", environment_version="2"),
        did("e", "", task_id="t3"),
        did("f", "", task_id="t1"),
    )
    numbers = scopes(frame, within, same_outcome=False).to_pylist()
    pairs = {
        ("abcdef"[i], "abcdef"[j]) for j in range(6) for i in range(j) if numbers[i] == numbers[j]
    }
    assert pairs == same if same is not None else len(pairs) == 15


def test_a_task_is_never_taken_for_a_goal_of_the_same_words() -> None:
    frame = frame_of(did("a", "", task_id="t1"), did("b", "", task_id="t2", goal="t1"))
    numbers = scopes(frame, "goal", same_outcome=False).to_pylist()
    assert numbers[0] != numbers[1]


def test_outcomes_can_be_kept_apart() -> None:
    outcomes = (True, False, None, True)
    frame = frame_of(*(did(f"r{n}", "", success=s) for n, s in enumerate(outcomes)))
    numbers = scopes(frame, "all", same_outcome=True).to_pylist()
    assert [numbers.index(n) for n in numbers] == [0, 1, 2, 0]


def test_a_version_that_is_unknown_is_not_the_empty_one() -> None:
    frame = frame_of(did("a", ""), did("b", "", environment_version=""))
    assert len(set(scopes(frame, "task", same_outcome=False).to_pylist())) == 2


def test_kept_rows_name_whom_they_stand_for() -> None:
    result = joined(summaries({}, {}, {}, {}).rows, clusters(2, 1, 2, 2))
    kept = result.rows.select(["trajectory_id", "duplicates", "duplicate_ids"])
    assert kept.to_pylist() == [
        {"trajectory_id": "b", "duplicates": 0, "duplicate_ids": []},
        {"trajectory_id": "c", "duplicates": 2, "duplicate_ids": ["a", "d"]},
    ]
    assert result.dropped.to_pylist() == [
        {"trajectory_id": "a", "reason": "same", "detail": "c"},
        {"trajectory_id": "d", "reason": "same", "detail": "c"},
    ]


def test_what_a_dropped_row_stood_for_goes_over_to_the_kept_one() -> None:
    once = joined(summaries({}, {}, {}, {}).rows, clusters(0, 0, 2, 2)).rows
    (row,) = joined(once, clusters(1, 1)).rows.to_pylist()
    assert (row["trajectory_id"], row["duplicates"]) == ("c", 3)
    assert row["duplicate_ids"] == ["a", "b", "d"]


def test_columns_have_the_same_types_whether_something_was_joined_or_not() -> None:
    rows = summaries({}, {}).rows
    one, other = joined(rows, clusters(0, 1)).rows, joined(rows, clusters(0, 0)).rows
    assert one.schema == other.schema
    assert one.schema.field("duplicates").type == pa.int32()


def test_groups_list_the_kept_run_first_then_the_most_similar() -> None:
    rows = summaries({}, {}, {}, {}).rows
    found = clusters(2, 1, 2, 2, similarity=[0.7, 1.0, 1.0, 0.9])
    listed = groups_table(rows, found)
    assert listed.schema == GROUP_SCHEMA
    assert listed["trajectory_id"].to_pylist() == ["c", "d", "a"]
    assert listed["cluster"].to_pylist() == ["c", "c", "c"]


def test_no_clusters_are_an_empty_table() -> None:
    assert groups_table(summaries({}, {}).rows, clusters(0, 1)) == GROUP_SCHEMA.empty_table()


def test_a_share_is_counted_by_source() -> None:
    """12 of 20 runs of the source 'small' are one cluster, among 100 of another."""
    small = [{"trajectory_id": f"s{n:02}", "source": "small"} for n in range(20)]
    large = [{"trajectory_id": f"l{n:02}", "source": "large"} for n in range(100)]
    rows = summaries(*small, *large).rows
    found = clusters(*([0] * 12), *range(12, 120))
    with pytest.raises(SelectionError, match=r"that of s00, out of 12 of the 20 .* 'small'"):
        joined(rows, found, most_share=0.5)
    assert joined(rows, found, most_share=0.6).rows.num_rows == 109


MADE: list[Stage] = [
    ExactDuplicates(within="all", same_outcome=True, most_share=None),
    NearDuplicates(threshold=0.5, shingle=3, bands=4, rows=2, seed=7),
    SemanticDuplicates(threshold=0.9, order="far", text="goal", column="v"),
    Merge(groups=(("a", "b"), ("c", "d")), keep_first=True),
    Contamination(tasks=("t",), goals=("g",), ngram=4, overlap=0.25),
    Split(shares={"val": 0.25, "test": 0.125}, rest="fit", keep="test", goal_jaccard=0.9),
    OnlySplit(split="val"),
    LeakCheck(goal_jaccard=None, cosine=0.9),
]


@pytest.mark.parametrize("made", MADE, ids=lambda s: s.name)
def test_every_stage_survives_a_recipe_in_json(made: Stage) -> None:
    parameters = json.loads(json.dumps(made.parameters()))
    again = stage(made.name, **parameters)
    assert again == made
    assert again.parameters() == parameters == made.parameters()
