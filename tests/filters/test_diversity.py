from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import NoSteps, call, details, run, selected, stored, summaries, why
from trajstore import Pool, Trajectory
from trajstore import open as open_store
from trajstore.errors import SelectionError
from trajstore.filters import Frame, stage
from trajstore.filters.diversity import Diverse, most_like
from trajstore.filters.kernels import Cosine
from trajstore.pipeline.selecting import select, summary_frame

METHODS = ["facility-location", "mmr", "k-center", "dpp", "k-means"]


def attempt(identity: str, words: str, **fields: Any) -> Trajectory:
    steps = [call(w, {"of": identity}) for w in words.split()]
    return run(identity, *steps, **({"success": True, "reward": 1.0} | fields))


def two_strategies(folder: Path) -> Frame:
    """Five runs that search, one of them twice, and one that asks."""
    searching = [attempt(f"s{i}", "search open edit test") for i in range(4)]
    return stored(
        folder,
        *searching,
        attempt("s4", "search search open edit test"),
        attempt("x", "ask wait"),
    )


@pytest.mark.parametrize("method", METHODS)
def test_two_picks_of_two_strategies_are_one_of_each(tmp_path: Path, method: str) -> None:
    selection = selected(two_strategies(tmp_path), stage("diverse", k=2, method=method))
    assert {i[0] for i in selection.ids()} == {"s", "x"}
    assert Counter(why(selection).values()) == {"less-diverse": 4}


def test_what_is_dropped_names_the_pick_that_stands_for_it(tmp_path: Path) -> None:
    selection = selected(two_strategies(tmp_path), stage("diverse", k=2))
    assert selection.ids() == ["s0", "x"]
    assert details(selection)["s1"] == "1.000 like s0"
    assert details(selection)["s4"] == "0.833 like s0"


def test_picks_are_numbered_in_their_order(tmp_path: Path) -> None:
    rows = selected(two_strategies(tmp_path), stage("diverse", k=2)).rows
    assert rows.column("pick").to_pylist() == [1, 2]


def test_a_task_of_no_more_than_k_runs_is_kept_whole(tmp_path: Path) -> None:
    frame = stored(
        tmp_path,
        attempt("a", "x", task_id="small"),
        *(attempt(f"b{i}", f"y{i}", task_id="large") for i in range(3)),
    )
    selection = selected(frame, stage("diverse", k=2))
    picks = dict(zip(selection.ids(), selection.rows.column("pick").to_pylist(), strict=True))
    assert picks.pop("a") is None
    assert sorted(picks.values()) == [1, 2]


def test_over_the_pool_k_is_for_all_tasks_together(tmp_path: Path) -> None:
    frame = stored(tmp_path, *(attempt(f"r{i}", f"w{i}", task_id=f"t{i}") for i in range(5)))
    assert len(selected(frame, stage("diverse", k=3, per="pool"))) == 3


def test_edits_tell_apart_what_bigrams_do_not(tmp_path: Path) -> None:
    frame = stored(
        tmp_path, attempt("a", "x x x"), attempt("b", "x x x"), attempt("c", "x x x x x x x x")
    )
    assert selected(frame, stage("diverse", k=2, compare="edits")).ids() == ["a", "c"]
    assert selected(frame, stage("diverse", k=2)).ids() == ["a", "b"]


def test_k_center_looks_at_successes_only(tmp_path: Path) -> None:
    """The failed run is the farthest from all others, and garbage."""
    frame = stored(
        tmp_path,
        attempt("a", "search open"),
        attempt("b", "search open edit"),
        attempt("c", "search"),
        attempt("d", "panic panic", success=False),
        attempt("e", "panic", success=None),
    )
    selection = selected(frame, stage("diverse", k=2, method="k-center"))
    assert why(selection)["d"] == "failure"
    assert why(selection)["e"] == "unknown-outcome"
    assert len(selection) == 2


@pytest.mark.parametrize("method", ["mmr", "dpp", "k-means"])
def test_of_equal_strategies_the_better_run_is_picked(tmp_path: Path, method: str) -> None:
    runs = [attempt(f"s{i}", "search open", reward=i / 10) for i in range(4)]
    frame = stored(tmp_path, *runs, attempt("x", "ask", reward=0.2))
    selection = selected(frame, stage("diverse", k=2, method=method))
    assert selection.ids() == ["s3", "x"]


def test_quality_can_be_another_column_or_none(tmp_path: Path) -> None:
    runs = [attempt(f"s{i}", "search", duration_s=7.0 + i) for i in range(3)]
    frame = stored(tmp_path, *runs, attempt("x", "ask", duration_s=8.0))
    by_time = stage("diverse", k=2, method="mmr", quality="duration_s")
    assert selected(frame, by_time).ids() == ["s2", "x"]
    assert selected(frame, stage("diverse", k=2, method="mmr", quality=None)).ids() == ["s0", "x"]


def test_a_reward_that_nobody_knows_counts_as_the_lowest(tmp_path: Path) -> None:
    rewards = {"a": None, "b": 0.5, "c": 0.0}
    runs = [attempt(i, "x", reward=r) for i, r in rewards.items()]
    frame = stored(tmp_path, *runs, attempt("d", "y"))
    assert selected(frame, stage("diverse", k=2, method="mmr")).ids() == ["b", "d"]
    unknown = stored(tmp_path / "2", *(attempt(i, "x", reward=None) for i in "ab"))
    assert selected(unknown, stage("diverse", k=1, method="mmr")).ids() == ["a"]


VECTORS = [[1.0, 0.0], [0.99, 0.1], [0.98, 0.2], [0.0, 1.0], None]


def embedded_rows() -> Frame:
    frame = summaries(*[{"success": True}] * 5)
    column = pa.array(VECTORS, pa.list_(pa.float32()))
    return Frame(frame.rows.append_column("embedding", column), NoSteps())


@pytest.mark.parametrize("method", METHODS)
def test_vectors_of_a_column_are_compared_and_no_step_is_read(method: str) -> None:
    made = stage("diverse", k=2, over="embedding", method=method)
    selection = selected(embedded_rows(), made)
    assert "d" in selection.ids()
    assert len(selection) == 2
    assert why(selection)["e"] == "no-embedding"


def test_both_needs_a_difference_in_either(tmp_path: Path) -> None:
    """Goals e1, e1, e2 and strategies x, y, x: with both, b differs from a by half, c by half."""
    frame = stored(tmp_path, *(attempt(i, w) for i, w in zip("abc", "xyx", strict=True)))
    column = pa.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    frame = Frame(frame.rows.append_column("embedding", column), frame.steps)
    goals_only = stage("diverse", k=2, over="both", weight=1.0, per="pool")
    actions_only = stage("diverse", k=2, over="both", weight=0.0, per="pool")
    assert selected(frame, goals_only).ids() == ["a", "c"]
    assert selected(frame, actions_only).ids() == ["a", "b"]
    halves = selected(frame, stage("diverse", k=1, over="both", per="pool"))
    assert details(halves) == {"b": "0.500 like a", "c": "0.500 like a"}


def test_k_means_over_both_weighs_the_two(tmp_path: Path) -> None:
    frame = stored(tmp_path, *(attempt(i, w) for i, w in zip("abcd", "xyxy", strict=True)))
    column = pa.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    frame = Frame(frame.rows.append_column("embedding", column), frame.steps)
    made = stage("diverse", k=2, over="both", method="k-means", weight=0.99, per="pool")
    kept = selected(frame, made).ids()
    assert {i in "ab" for i in kept} == {True, False}


def test_a_function_embeds_goals_over_the_pool_and_its_name_is_kept(tmp_path: Path) -> None:
    def by_length(texts: list[str]) -> list[list[float]]:
        return [[float(len(t)), 4.0] for t in texts]

    goals = {"a": "x", "b": "xx", "c": "x" * 50}
    frame = stored(tmp_path, *(attempt(i, "w", task_id=i, goal=g) for i, g in goals.items()))
    made = Diverse(2, over="embedding", per="pool", method="k-center", embed=by_length)
    assert "c" in selected(frame, made).ids()
    assert made.parameters()["embedder"].endswith("by_length")
    assert "embed" not in made.parameters()


def test_a_recipe_makes_the_stage_again() -> None:
    made = stage("diverse", k=3, method="dpp", over="embedding", trade=0.4)
    assert stage("diverse", **made.parameters()) == made


def test_the_goal_cannot_tell_runs_of_one_task_apart(tmp_path: Path) -> None:
    frame = stored(tmp_path, *(attempt(i, "w") for i in "ab"))
    with pytest.raises(SelectionError, match="Inside one task all runs have the same goal"):
        selected(frame, stage("diverse", k=1, over="both"))


def test_edits_are_refused_in_a_group_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trajstore.filters.diversity._MOST_EDITS", 3)
    frame = stored(tmp_path, *(attempt(f"r{i}", "w") for i in range(4)))
    with pytest.raises(SelectionError, match="in a group of 4 runs; up to 3"):
        selected(frame, stage("diverse", k=1, compare="edits"))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 0}, "at least 1 run"),
        ({"k": 1, "weight": 2.0}, "weight and trade are from 0 to 1"),
        ({"k": 1, "method": "dpp", "trade": 1.0}, "trade below 1"),
        ({"k": 1, "epsilon": 0.0}, "above 0 and below 1"),
        ({"k": 1, "method": "annealing"}, "method"),
    ],
)
def test_what_is_out_of_range_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        stage("diverse", **parameters)


def test_a_quality_that_is_no_column_is_refused() -> None:
    with pytest.raises(SelectionError, match="no column 'stars'"):
        selected(embedded_rows(), stage("diverse", k=1, over="embedding", quality="stars"))


def test_each_item_knows_the_pick_that_it_is_most_like() -> None:
    draw = np.random.default_rng(0)
    kernel, picks = Cosine(draw.normal(size=(50, 4))), np.array([7, 3, 40])
    which, how = most_like(kernel, picks)
    whole = kernel.block(slice(None))[picks]
    np.testing.assert_array_equal(which, picks[whole.argmax(axis=0)])
    np.testing.assert_allclose(how, whole.max(axis=0))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=12, deadline=None)
@given(st.permutations(range(12)))
def test_the_picks_do_not_depend_on_the_order_of_rows(method: str, places: list[int]) -> None:
    draw = np.random.default_rng(1)
    frame = summaries(*({"success": True, "reward": r} for r in draw.random(12)))
    column = pa.array(list(draw.normal(size=(12, 3))))
    rows = frame.rows.append_column("embedding", column)
    made = Diverse(4, over="embedding", method=method)  # type: ignore[arg-type]
    alone = made.apply(Frame(rows.take(pa.array(places)), NoSteps())).rows
    found = dict(zip(alone["trajectory_id"].to_pylist(), alone["pick"].to_pylist(), strict=True))
    whole = made.apply(Frame(rows, NoSteps())).rows
    expected = dict(zip(whole["trajectory_id"].to_pylist(), whole["pick"].to_pylist(), strict=True))
    assert found == expected


@pytest.fixture(scope="module")
def airline(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Pool:
    pool = open_store(tmp_path_factory.mktemp("airline") / "pool", durable=False)
    pool.import_files(real_data / "tau_bench")
    return pool


@pytest.mark.parametrize("method", METHODS)
def test_real_runs_two_strategies_of_each_task(airline: Pool, method: str) -> None:
    """50 tasks of four attempts; 36 have successes, of which 12 have one: k-centre keeps 60."""
    selection = select(airline, [stage("diverse", k=2, method=method)])
    counts = Counter(selection.rows.column("task_id").to_pylist())
    assert max(counts.values()) == 2
    assert len(selection) == (60 if method == "k-center" else 100)


def covered(airline: Pool, ids: list[str]) -> int:
    """Different bigrams of calls in some runs."""
    from trajstore.filters.strategies import bigrams, strategies

    frame = summary_frame(airline.reader())
    mask = pa.compute.is_in(frame.rows.column("trajectory_id"), value_set=pa.array(ids))
    words = strategies(Frame(frame.rows.filter(mask), frame.steps), "tools").to_pylist()
    return len(set().union(*(bigrams(w) for w in words)))


@pytest.mark.parametrize("method", ["facility-location", "mmr", "k-center", "dpp"])
def test_real_runs_20_diverse_ones_hold_more_strategies_than_20_random_ones(
    airline: Pool, method: str
) -> None:
    good = stage("success")
    diverse = select(airline, [good, stage("diverse", k=20, per="pool", method=method)])
    drawn = [
        covered(airline, select(airline, [good, stage("sample", n=20, seed=s)]).ids())
        for s in range(5)
    ]
    assert covered(airline, diverse.ids()) > max(drawn)
