from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import details, selected, summaries, why
from trajstore.errors import SelectionError
from trajstore.filters import Frame, Stage, stage
from trajstore.filters.quotas import quotas


def many(n: int, **columns: Any) -> Frame:
    """``n`` runs with ids r000, r001, ...; a column's values are repeated in turn."""
    rows = [
        {"trajectory_id": f"r{i:03}"} | {k: v[i % len(v)] for k, v in columns.items()}
        for i in range(n)
    ]
    return summaries(*rows)


def test_a_sample_keeps_as_many_rows_as_asked() -> None:
    selection = selected(many(100), stage("sample", n=30))
    assert len(selection) == 30
    assert Counter(why(selection).values()) == {"not-sampled": 70}


def test_a_sample_larger_than_the_rows_keeps_all() -> None:
    assert len(selected(many(5), stage("sample", n=30))) == 5


@pytest.mark.parametrize(("fraction", "kept"), [(0.0, 0), (0.25, 3), (0.5, 5), (1.0, 10)])
def test_a_fraction_is_rounded_to_whole_rows(fraction: float, kept: int) -> None:
    """A quarter of 10 is 2.5, which is rounded up."""
    assert len(selected(many(10), stage("sample", fraction=fraction))) == kept


def test_another_seed_draws_another_sample() -> None:
    one, other = (selected(many(100), stage("sample", n=50, seed=s)).ids() for s in (0, 1))
    assert one != other


def test_rows_that_come_later_push_out_and_never_reshuffle() -> None:
    small = set(selected(many(60), stage("sample", n=20)).ids())
    large = set(selected(many(70), stage("sample", n=20)).ids())
    assert {i for i in large if i < "r060"} <= small


def test_heavy_rows_are_drawn_in_proportion_to_their_weight() -> None:
    """Of as many rows of weight 3 and 1 the first of few draws are heavy in three of four."""
    frame = many(8000, reward=[3.0, 1.0])
    kept = selected(frame, stage("sample", n=400, weight="reward")).rows
    heavy = kept.column("reward").to_pylist().count(3.0)
    assert 0.69 < heavy / 400 < 0.81


def test_every_row_is_drawn_as_often_as_any_other() -> None:
    """30 of 60 rows under 20 seeds: 10 times each on average, with a deviation of 2.2."""
    drawn = Counter(
        i for s in range(20) for i in selected(many(60), stage("sample", n=30, seed=s)).ids()
    )
    assert set(drawn.values()) <= set(range(2, 19))
    assert len(drawn) == 60


def test_what_weighs_nothing_is_never_drawn() -> None:
    frame = many(4, reward=[0.0, None, -1.0, float("nan")])
    selection = selected(frame, stage("sample", n=4, weight="reward"))
    assert (len(selection), set(why(selection).values())) == (0, {"no-weight"})


def test_a_fraction_of_weighted_rows_counts_those_that_can_be_drawn() -> None:
    frame = many(8, reward=[1.0, 0.0])
    assert len(selected(frame, stage("sample", fraction=0.5, weight="reward"))) == 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "n or fraction"),
        ({"n": 1, "fraction": 0.5}, "n or fraction"),
        ({"n": -1}, "0 rows or more"),
        ({"fraction": 1.5}, "from 0 to 1"),
    ],
)
def test_a_sample_without_a_size_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        stage("sample", **parameters)


@pytest.mark.parametrize(
    ("column", "message"), [("weight", "no column 'weight'"), ("model", "hold numbers, not string")]
)
def test_a_weight_that_is_none_is_refused(column: str, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        selected(many(2), stage("sample", n=1, weight=column))


def test_balanced_keeps_as_many_successes_as_failures() -> None:
    frame = many(40, success=[True, False, False, None])
    selection = selected(frame, stage("balanced"))
    assert Counter(selection.rows.column("success").to_pylist()) == {True: 10, False: 10}
    assert Counter(why(selection).values()) == {"over-balance": 10, "unknown-success": 10}
    assert "false: 10 of 20" in details(selection).values()


def test_balanced_keeps_a_rare_value_whole() -> None:
    frame = many(30, agent=["a", "a", "b"])
    kept = selected(frame, stage("balanced", by="agent", each=15)).rows
    assert Counter(kept.column("agent").to_pylist()) == {"a": 15, "b": 10}


def test_balanced_by_a_column_that_nobody_knows_keeps_nothing() -> None:
    selection = selected(many(3), stage("balanced", by="agent"))
    assert set(why(selection).values()) == {"unknown-agent"}


def test_stratified_shares_its_budget_as_in_the_worked_example() -> None:
    """129 runs of three tasks, 100, 25 and 4, and a budget of 20: 12, 6 and 2."""
    tasks = ["x"] * 100 + ["y"] * 25 + ["z"] * 4
    selection = selected(many(129, task_id=tasks), stage("stratified", n=20, by=["task_id"]))
    assert Counter(selection.rows.column("task_id").to_pylist()) == {"x": 12, "y": 6, "z": 2}
    assert set(details(selection).values()) == {"x: 12 of 100", "y: 6 of 25", "z: 2 of 4"}


def test_unknown_is_a_stratum_of_its_own() -> None:
    frame = many(30, agent=["a", None, "b"])
    kept = selected(frame, stage("stratified", n=9, by=["agent"], share="equal")).rows
    assert Counter(kept.column("agent").to_pylist()) == {"a": 3, "b": 3, None: 3}


def test_strata_are_the_combinations_that_occur() -> None:
    frame = many(60, agent=["a", "b", "a"], success=[True, False])
    selection = selected(frame, stage("stratified", n=4, by=["agent", "success"], share="equal"))
    pairs = zip(*(selection.rows.column(c).to_pylist() for c in ("agent", "success")), strict=True)
    assert len(set(pairs)) == 4


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=40),
    st.integers(0, 50),
    st.sampled_from(["sqrt", "proportional", "equal"]),
)
def test_a_stratum_has_its_quota(agents: list[str], n: int, share: Any) -> None:
    counts = Counter(agents)
    names = sorted(counts)
    expected = dict(zip(names, quotas([counts[a] for a in names], n, share), strict=True))
    made = stage("stratified", n=n, by=["agent"], share=share)
    kept = selected(many(len(agents), agent=agents), made).rows
    assert Counter(kept.column("agent").to_pylist()) == Counter(expected)


@pytest.mark.parametrize("parameters", [{"n": -1, "by": ["agent"]}, {"n": 1, "by": []}])
def test_stratified_needs_a_size_and_columns(parameters: dict[str, Any]) -> None:
    with pytest.raises(SelectionError, match="needs n of 0 or more, and columns"):
        stage("stratified", **parameters)


def test_an_unknown_column_is_answered_with_the_real_ones() -> None:
    with pytest.raises(SelectionError, match=r"no column 'kind'. Columns here: trajectory_id"):
        selected(many(2), stage("stratified", n=1, by=["kind"]))


STAGES = [
    stage("sample", n=7),
    stage("sample", n=7, weight="reward"),
    stage("balanced", by="agent"),
    stage("stratified", n=9, by=["agent", "success"]),
    stage("per-task-cap", most=2),
    stage("resample-on-correct", n=3),
    stage("curriculum", n=2),
]


@pytest.mark.parametrize("made", STAGES, ids=lambda s: f"{s.name}")
@settings(max_examples=15, deadline=None)
@given(st.permutations(range(24)))
def test_what_is_drawn_depends_on_the_rows_and_never_on_their_order(
    made: Stage, places: list[int]
) -> None:
    frame = many(
        24,
        agent=["a", "b", "c", "a"],
        success=[True, False, None, True, False],
        reward=[0.5, 1.0, 2.0],
        task_id=["s", "t", "u", "v"],
    )
    shuffled = Frame(frame.rows.take(pa.array(places)), frame.steps)
    alone = made.apply(shuffled).rows.column("trajectory_id").to_pylist()
    assert sorted(alone) == sorted(selected(frame, made).ids())
