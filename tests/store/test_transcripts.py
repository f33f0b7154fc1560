"""What is read to show runs is what whole runs hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.store.workers import run
from trajstore import Observation, Pool, Step, ToolCall, Trajectory
from trajstore.testing import generate, sample_trajectories

TOLD = ("actor", "text", "reasoning", "is_copied")


def told(step: Step) -> tuple[object, ...]:
    """What a reader of a prompt sees of a step."""
    calls = [(c.name, c.arguments_raw or c.arguments) for c in step.tool_calls]
    seen = [(o.text, bool(o.is_error)) for o in step.observations]
    return (*(getattr(step, name) for name in TOLD), calls, seen)


@pytest.mark.parametrize(
    "runs",
    [list(generate(40, seed=11)), sample_trajectories(12)],
    ids=["generated", "every field"],
)
def test_they_tell_what_whole_runs_hold(pool: Pool, runs: list[Trajectory]) -> None:
    for part in (runs[::3], runs[1::3], runs[2::3]):
        pool.append(part)
    ids = [r.trajectory_id for r in runs]
    found = pool.reader().transcripts(ids)
    whole = {r.trajectory_id: r for r in pool.get_many(ids)}
    assert found.keys() == whole.keys()
    for key, transcript in found.items():
        assert transcript.goal == whole[key].goal
        assert [told(s) for s in transcript.steps] == [told(s) for s in whole[key].steps]


def test_several_calls_of_one_step_are_told(pool: Pool) -> None:
    calls = tuple(ToolCall.of("search", {"page": n}, f"c{n}") for n in range(3))
    seen = tuple(Observation(call_id=f"c{n}", text=f"page {n}", is_error=n == 1) for n in range(3))
    step = Step(actor="agent", tool_calls=calls, observations=seen)
    pool.append(replace(run("a", 2), steps=(Step(actor="user", text="hi"), step)))
    (_, found) = pool.reader().transcripts(["a"])["a"].steps
    assert told(found) == told(step)


def test_a_deleted_run_and_an_unknown_one_tell_nothing(pool: Pool) -> None:
    pool.append([run("a", 2), run("b", 3)])
    pool.delete("trajectory_id = 'a'")
    assert list(pool.reader().transcripts(["a", "b", "c"])) == ["b"]


def test_a_replaced_run_tells_its_longer_version(pool: Pool) -> None:
    pool.append(run("a", 2))
    pool.append(run("a", 4))
    (found,) = pool.reader().transcripts(["a"]).values()
    assert [told(s) for s in found.steps] == [told(s) for s in run("a", 4).steps]


def test_a_run_without_goal_and_steps_is_there(pool: Pool) -> None:
    pool.append(Trajectory(trajectory_id="a", task_id="t", source="s"))
    (found,) = pool.reader().transcripts(["a"]).values()
    assert (found.goal, found.steps) == (None, ())
