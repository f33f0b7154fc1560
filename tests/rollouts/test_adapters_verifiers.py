"""Environments of verifiers 0.1 with our policies; needs the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from trajstore.errors import MissingDependencyError
from trajstore.rollouts import Action, Limits, Message, Response, Task, Tool, run_rollouts
from trajstore.rollouts.adapters import VerifiersEnvironment, verifiers_tasks
from trajstore.schema import ToolCall, Trajectory


def test_what_is_no_environment_of_verifiers_is_refused() -> None:
    with pytest.raises(MissingDependencyError, match="object has no rollout and rubric"):
        VerifiersEnvironment(object(), name="x")


def adder(**more: Any) -> Any:
    """A ToolEnv with one tool; the reward is 1 where the last message names the answer."""
    vf = pytest.importorskip("verifiers")
    datasets = pytest.importorskip("datasets")
    if not hasattr(vf, "ToolEnv"):
        pytest.skip("this verifiers has no ToolEnv")

    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: one.
            b: the other.
        """
        return a + b

    async def right(completion: Any, answer: str) -> float:
        return float(answer in str(completion[-1].content))

    rows = {"question": ["17 + 25?", "1 + 1?"], "answer": ["42", "2"]}
    return vf.ToolEnv(
        dataset=datasets.Dataset.from_dict(rows),
        tools=[add],
        rubric=vf.Rubric(funcs=[right]),
        system_prompt="Use the tool.",
        **more,
    )


class Adds:
    """Calls the tool, then says what it said; or only talks, or never ends."""

    agent = "adds"
    model = None
    version = "1"

    def __init__(self, how: str = "right") -> None:
        self.how = how

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        del seed
        assert [m["role"] for m in messages[:2]] == ["system", "user"]
        assert tools[0]["function"]["name"] == "add"
        turn = len(messages)
        a, b = str(messages[1]["content"]).rstrip("?").split(" + ")
        call = ToolCall.of("add", {"a": int(a), "b": int(b)}, f"c{turn}")
        if self.how == "talks":
            return Response(action=Action(text="I do not know."))
        if self.how == "loops" or turn == 2:
            return Response(action=Action(text="Let me add.", tool_calls=(call,)))
        return Response(action=Action(text=f"It is {messages[-1]['content']}."))


def run(how: str = "right", limits: Limits | None = None, **more: Any) -> list[Trajectory]:
    environment = adder(**more)
    return list(
        run_rollouts(
            lambda: VerifiersEnvironment(environment, name="adder"),
            Adds(how),
            verifiers_tasks(environment, name="adder"),
            limits=limits,
        )
    )


def test_rows_become_tasks() -> None:
    tasks = verifiers_tasks(adder(), 1, name="adder")
    assert [(t.task_id, t.goal) for t in tasks] == [("adder/0", "17 + 25?")]


def test_tools_answer_and_the_rubric_gives_the_reward() -> None:
    for trajectory in run():
        own = [s for s in trajectory.steps if s.actor == "agent"]
        assert trajectory.error is None
        assert (trajectory.status, trajectory.success, trajectory.reward) == (
            *("terminated", True, 1.0),
        )
        assert own[0].observations[0].text in ("42", "2")
        assert own[-1].reward == 1.0
        assert dict(trajectory.rewards)["add_calls"] == 1.0
        assert trajectory.steps[0].text == "Use the tool."


def test_an_answer_without_the_tool_ends_it_without_reward() -> None:
    for trajectory in run("talks"):
        assert (trajectory.status, trajectory.success, trajectory.reward) == (
            *("terminated", False, 0.0),
        )


def test_the_turns_of_the_environment_truncate() -> None:
    for trajectory in run("loops", max_turns=3):
        assert (trajectory.status, trajectory.reward) == ("truncated", 0.0)
        assert sum(s.actor == "agent" for s in trajectory.steps) == 3


def test_our_step_limit_leaves_the_outcome_unknown() -> None:
    for trajectory in run("loops", limits=Limits(max_steps=2), max_turns=10):
        assert (trajectory.status, trajectory.success) == ("truncated", None)
        assert trajectory.termination_reason == "step limit"


def test_a_task_without_a_row_is_refused() -> None:
    environment = VerifiersEnvironment(adder(), name="adder")
    with pytest.raises(ValueError, match="no row of a dataset"):
        environment.reset(Task(task_id="x", goal="?"))


def test_an_error_of_the_environment_is_an_error_of_the_attempt() -> None:
    environment = adder(stop_errors=[Exception])
    environment.tool_map["add"] = None
    tasks = verifiers_tasks(environment, name="adder")
    runs = run_rollouts(lambda: VerifiersEnvironment(environment, name="adder"), Adds(), tasks)
    assert {trajectory.status for trajectory in runs} == {"error"}
