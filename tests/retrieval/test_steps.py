"""Steps: found by what the agent saw, answered by what it did next."""

from __future__ import annotations

import pytest

from tests.retrieval.conftest import Fill, run
from trajstore import Observation, Pool, Step, ToolCall, Trajectory
from trajstore.errors import RetrievalError
from trajstore.retrieval import next_turns, step_query


def acting(tool: str, seen: str, **values: object) -> Step:
    call = ToolCall.of(tool, {"path": "x"})
    return Step(
        actor="agent",
        tool_calls=(call,),
        observations=(Observation(text=seen),),
        **values,  # type: ignore[arg-type]
    )


@pytest.fixture
def steps(fill: Fill) -> Pool:
    """Two runs: one meets a missing file and lists the folder, one meets a failing test."""
    one = Trajectory(
        trajectory_id="one",
        task_id="t1",
        goal="open the report",
        source="test",
        steps=(
            Step(actor="user", text="open the report"),
            acting("read", "FileNotFoundError: no such file report.txt"),
            acting("list", "a.txt b.txt", state_key="listing"),
            Step(actor="agent", text="copied", is_copied=True),
            Step(actor="agent", text="It is not there."),
        ),
    )
    two = Trajectory(
        trajectory_id="two",
        task_id="t2",
        goal="repair the code",
        source="test",
        steps=(acting("pytest", "AssertionError: 1 != 2"), acting("edit", "saved")),
    )
    return fill(one, two)


def test_a_step_is_found_by_the_observation_before_it(steps: Pool) -> None:
    hit = steps.search("FileNotFoundError no such file", level="step")[0]
    assert (hit.trajectory_id, hit.step_index, hit.item_id) == ("one", 2, "one/2")
    assert (
        hit.text == 'open the report\nread {"path":"x"}\nFileNotFoundError: no such file report.txt'
    )


def test_the_next_turn_is_what_was_done_there(steps: Pool) -> None:
    hits = steps.search("FileNotFoundError no such file", level="step", k=1)
    (turn,) = next_turns(steps, hits)
    assert [s.tool_calls[0].name for s in turn] == ["list"]
    (more,) = next_turns(steps, hits, count=3)
    assert [s.text for s in more] == [None, "copied", "It is not there."]


def test_next_turns_are_of_steps(steps: Pool) -> None:
    with pytest.raises(RetrievalError, match="Only hits of level 'step'"):
        next_turns(steps, steps.search("report"))


def test_every_own_step_is_an_item_and_copied_ones_are_not(steps: Pool) -> None:
    found = {h.item_id for h in steps.search("x", level="step", k=99)}
    assert found == {"one/1", "one/2", "one/4", "two/0", "two/1"}


def test_tools_that_are_not_at_hand_are_left_out(steps: Pool) -> None:
    hits = steps.search("x", level="step", k=99, tools=["list", "edit"])
    assert {h.item_id for h in hits} == {"one/2", "one/4", "two/1"}
    assert hits.cuts == {"tools": 2}


def test_the_very_same_state_comes_first(steps: Pool) -> None:
    hits = steps.search("AssertionError", level="step", state="listing", mode="text")
    assert hits[0].item_id == "one/2"
    assert hits[0].parts["similarity"] == 1.0


def test_steps_of_the_asking_task_are_left_out(steps: Pool) -> None:
    hits = steps.search("FileNotFoundError", level="step", task_id="t1")
    assert {h.task_id for h in hits} == {"t2"}


def test_a_query_is_cut_like_the_index(fill: Fill) -> None:
    seen = "head " * 200 + "the cause stands at the end"
    store = fill(
        Trajectory(
            trajectory_id="r",
            task_id="t",
            goal="g" * 400,
            source="test",
            steps=(acting("a", seen), acting("b", "")),
        )
    )
    text = {h.item_id: h.text for h in store.search("x", level="step")}["r/1"]
    assert text == step_query("g" * 400, seen, 'a {"path":"x"}')
    assert text.endswith("the cause stands at the end")


def test_the_goal_is_not_said_twice(fill: Fill) -> None:
    store = fill(run("r", "just a goal"))
    assert store.search("x", level="step", mode="vector", k=1, where="true")[0].text
    texts = {h.item_id: h.text for h in store.search("x", level="step")}
    assert texts["r/1"] == step_query("just a goal", "just a goal") == "just a goal"
