"""Runs at held-out tasks stay out, by whatever name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.filters.frames import details, selected, why
from tests.filters.in_memory import frame_of, shuffled, wants
from trajstore.errors import SelectionError
from trajstore.filters import Frame, stage
from trajstore.filters.contamination import Contamination, read_held_out

HELD = "Find the flight from Oslo to Rome on 5 May that costs least and book it"
"""16 words: 9 n-grams of 8 words."""


def reasons(frame: Frame, **parameters: Any) -> dict[str, str]:
    return why(selected(frame, stage("contamination", **parameters)))


def test_a_held_out_task_is_found_by_its_id() -> None:
    frame = frame_of(wants("a", "web/7", "x"), wants("b", "web/8", "x"))
    assert reasons(frame, tasks=["web/7"]) == {"a": "held-out-task"}


def test_a_held_out_goal_is_found_under_another_id() -> None:
    frame = frame_of(wants("a", "t1", f"  {HELD.upper()}\n"), wants("b", "t2", "other"))
    assert reasons(frame, goals=[HELD]) == {"a": "held-out-goal"}


def test_a_goal_that_holds_most_of_a_held_out_one_is_found() -> None:
    wrapped = f"You are an agent. Answer with one call. {HELD.rstrip('it')} two seats, please."
    frame = frame_of(wants("a", "t1", wrapped))
    selection = selected(frame, stage("contamination", goals=[HELD]))
    assert why(selection) == {"a": "held-out-goal-overlap"}
    assert details(selection)["a"] == f"8 of 9 n-grams of: {HELD.lower()}"


def test_a_part_of_a_held_out_goal_is_found() -> None:
    part = " ".join(HELD.split()[:10])
    assert reasons(frame_of(wants("a", "t", part)), goals=[HELD]) == {"a": "held-out-goal-overlap"}


def test_a_shared_beginning_is_not_enough() -> None:
    """10 common words give 3 n-grams of 8, of 13 in the shorter goal."""
    opening = "You are a web agent and you act through tools"
    ours = f"{opening} order green tea for the office in Bergen by Friday noon"
    held = f"{opening} book the cheapest flight out of Oslo on the fifth"
    frame = frame_of(wants("a", "t", ours))
    assert reasons(frame, goals=[held]) == {}
    assert reasons(frame, goals=[held], overlap=0.2) == {"a": "held-out-goal-overlap"}


def test_the_overlap_asked_for_is_enough() -> None:
    ours = " ".join([*HELD.split()[:11], "by", "train", "to", "Bari"])
    frame = frame_of(wants("a", "t", ours))
    assert reasons(frame, goals=[HELD], overlap=0.5) == {"a": "held-out-goal-overlap"}
    assert reasons(frame, goals=[HELD], overlap=0.51) == {}


def test_short_goals_must_be_equal_as_a_whole() -> None:
    frame = frame_of(wants("a", "t1", "hi"), wants("b", "t2", "hi there"), wants("c", "t3", "Hi!"))
    assert reasons(frame, goals=["hi"]) == {"a": "held-out-goal", "c": "held-out-goal-overlap"}


def test_a_run_without_a_goal_is_judged_by_its_task() -> None:
    frame = frame_of(wants("a", "t1", None), wants("b", "t2", None))
    assert reasons(frame, tasks=["t2"], goals=["hi"]) == {"b": "held-out-task"}


def test_the_most_similar_held_out_goal_is_named() -> None:
    less = " ".join([*HELD.split()[:12], "reserve", "a", "seat"])
    frame = frame_of(wants("a", "t", f"{HELD} now"))
    selection = selected(frame, stage("contamination", goals=[less, HELD]))
    assert details(selection)["a"] == f"9 of 9 n-grams of: {HELD.lower()}"


def test_a_file_names_tasks_and_goals(tmp_path: Path) -> None:
    path = tmp_path / "held-out.jsonl"
    lines = [{"task_id": "web/7"}, {"goal": HELD, "answer": 4}, {"task_id": "x", "goal": "y z"}]
    path.write_text("\n".join(json.dumps(x) for x in lines) + "\n\n")
    assert read_held_out(str(path)) == (["web/7", "x"], [HELD, "y z"])
    frame = frame_of(wants("a", "web/7", "q"), wants("b", "t", HELD), wants("c", "u", "Y z"))
    assert sorted(reasons(frame, file=str(path))) == ["a", "b", "c"]


@pytest.mark.parametrize("line", ["{}", "[1]", "no json", '{"task_id": 7}', '"web/7"'])
def test_a_line_that_names_nothing_is_an_error_with_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "held-out.jsonl"
    path.write_text(f'{{"task_id": "web/7"}}\n{line}\n')
    with pytest.raises(SelectionError, match=r"held-out\.jsonl:2 should be an object") as raised:
        read_held_out(str(path))
    assert raised.value.line == 2


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="cannot be read"):
        stage("contamination", file=str(tmp_path / "none.jsonl"))


def test_a_recipe_notices_that_the_list_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "held-out.jsonl"
    path.write_text('{"task_id": "web/7"}\n')
    recipe = stage("contamination", file=str(path)).parameters()
    assert stage("contamination", **recipe).parameters() == recipe
    path.write_text('{"task_id": "web/8"}\n')
    with pytest.raises(SelectionError, match="not the held-out list that the recipe was made with"):
        stage("contamination", **recipe)


def test_nothing_held_out_is_refused() -> None:
    with pytest.raises(SelectionError, match="needs tasks, goals or a file"):
        Contamination()


@pytest.mark.parametrize("parameters", [{"ngram": 0}, {"overlap": 0.0}, {"overlap": 1.2}])
def test_numbers_that_do_not_fit_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(SelectionError, match="ngram of 1 word or more"):
        Contamination(goals=("x",), **parameters)


def test_no_rows_in_no_rows_out() -> None:
    empty = shuffled(frame_of(wants("a", "t", "x")), [])
    assert reasons(empty, goals=["x"], tasks=["t"]) == {}
