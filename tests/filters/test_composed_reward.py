from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.filters.frames import call, run, stored
from trajstore.errors import SelectionError
from trajstore.filters import Frame, Selection, run_stages, stage


@pytest.fixture
def frame(tmp_path: Path) -> Frame:
    search, edit = call("search", {"q": 1}), call("edit", {"line": 1})
    return stored(
        tmp_path,
        run("a", search, search, success=True),
        run("b", edit, success=False),
        run("c", edit, success=None),
    )


def scored(frame: Frame, **parameters: Any) -> Selection:
    return run_stages(frame, [stage("compose-reward", **parameters)])


def test_each_run_gets_its_reward_as_a_score(frame: Frame) -> None:
    """a: 1 - 2 * 0.05; b: 0."""
    rows = scored(frame, reward="search").rows.select(["trajectory_id", "score"]).to_pylist()
    assert [tuple(r.values()) for r in rows] == [("a", pytest.approx(0.9)), ("b", 0.0)]


def test_a_run_without_a_reward_is_dropped_and_named(frame: Frame) -> None:
    dropped = scored(frame, reward="react").dropped.to_pylist()
    assert [(d["trajectory_id"], d["reason"]) for d in dropped] == [("c", "unknown-reward")]


def test_low_rewards_can_be_dropped(frame: Frame) -> None:
    dropped = scored(frame, reward="react", least=0.5).dropped.sort_by("trajectory_id").to_pylist()
    assert [d["reason"] for d in dropped] == ["low-reward", "unknown-reward"]


def test_a_reward_of_steps_counts_as_its_sum(frame: Frame) -> None:
    """a: two calls that worked and one that repeats; b and c: one that worked."""
    rows = scored(frame, reward="dense-tool-agent", column="dense").rows
    assert rows.column("dense").to_pylist() == pytest.approx([0.0, 0.05, 0.05])


def test_the_shortest_success_of_the_task_is_that_of_the_whole_store(tmp_path: Path) -> None:
    """Two calls against four: 2/4, although the shorter run is not in the frame."""
    look = call("look", {})
    frame = stored(
        tmp_path, run("a", look, look, success=True), run("d", *[look] * 4, success=True)
    )
    longer = frame.rows.filter([i == "d" for i in frame.rows["trajectory_id"].to_pylist()])
    assert scored(Frame(longer, frame.steps), reward="spl").rows["score"].to_pylist() == [0.5]


def test_rows_keep_their_order_and_values_follow(frame: Frame) -> None:
    made = stage("compose-reward", reward="search")
    turned = made.apply(Frame(frame.rows.take([1, 0]), frame.steps)).rows
    assert turned.column("trajectory_id").to_pylist() == ["b", "a"]
    assert turned.column("score").to_pylist() == pytest.approx([0.0, 0.9])


def test_no_rows_are_no_problem(frame: Frame) -> None:
    empty = Frame(frame.rows.slice(0, 0), frame.steps)
    assert len(scored(empty, reward="react")) == 0


def test_settings_of_the_reward_are_kept_in_the_recipe(frame: Frame) -> None:
    selection = scored(frame, reward="turn-budget", settings={"max_turns": 4})
    assert selection.recipe[0]["settings"] == {"max_turns": 4}
    assert selection.rows.column("score").to_pylist() == pytest.approx([0.95, -0.025])


def test_a_wrong_reward_or_parameter_is_refused_before_anything_runs() -> None:
    with pytest.raises(SelectionError, match="no reward 'nope'"):
        stage("compose-reward", reward="nope")
    with pytest.raises(SelectionError, match="no parameter 'lamda'"):
        stage("compose-reward", reward="react", settings={"lamda": 1})


def test_a_column_that_is_there_is_not_overwritten(frame: Frame) -> None:
    with pytest.raises(SelectionError, match="have a column 'reward' already"):
        scored(frame, reward="react", column="reward")
