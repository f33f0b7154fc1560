"""Environments of others, and ours in ReAct's format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from trajstore.rollouts import (
    Action,
    CalculatorEnvironment,
    Message,
    Response,
    Task,
    Tool,
    WebShopEnvironment,
    calculator_tasks,
    run_rollouts,
    shop_tasks,
)
from trajstore.rollouts.adapters import GymnasiumEnvironment, ReActEnvironment
from trajstore.schema import ToolCall

# --- Gymnasium -------------------------------------------------------------------------------


class Corridor:
    """Three rooms in a row; the treasure is in the last, and ten steps end it."""

    def __init__(self, space: Any = None) -> None:
        self.action_space = space
        self.closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.room, self.steps = (options or {}).get("room", 0), 0
        return self.room, {"seed": seed}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.room = max(0, self.room + (1 if action in (1, "east") else -1))
        won = self.room == 2
        info = {"won": won, "admissible_commands": ["east", "west"]}
        return self.room, float(won), won, self.steps >= 10, info

    def close(self) -> None:
        self.closed = True


DISCRETE = SimpleNamespace(n=2, start=0)
TASK = Task(task_id="corridor/1", goal="Find the treasure.", metadata={"seed": 7})


def corridor(space: Any = None, **given: Any) -> GymnasiumEnvironment:
    made = GymnasiumEnvironment(
        lambda: Corridor(space),
        name="corridor",
        describe=lambda o, _: f"You are in room {o}.",
        **given,
    )
    made.reset(TASK)
    return made


def act(environment: GymnasiumEnvironment, *actions: str) -> Any:
    calls = (ToolCall.of("act", {"action": a}, f"c{n}") for n, a in enumerate(actions))
    return environment.step(Action(tool_calls=tuple(calls)))


def test_the_goal_stands_before_the_first_observation() -> None:
    assert corridor().reset(TASK).text == "Find the treasure.\n\nYou are in room 0."


def test_the_task_brings_seed_and_options() -> None:
    task = Task(task_id="c", goal="?", metadata={"options": {"room": 1}})
    assert "room 1" in str(corridor().reset(task).text)


def test_named_actions_reach_a_discrete_space_as_numbers() -> None:
    environment = corridor(DISCRETE, actions=["west", "east"])
    assert act(environment, "east").observation.results[0].text == "You are in room 1."
    last = act(environment, "east")
    assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)
    assert (environment.outcome().success, environment.outcome().reward) == (True, 1.0)


def test_without_names_the_numbers_are_the_names_from_the_start_of_the_space() -> None:
    environment = corridor(SimpleNamespace(n=2, start=0))
    assert "One of: 0, 1." in str(environment.tools)
    assert act(environment, "1").observation.results[0].text == "You are in room 1."


def test_text_actions_and_what_is_admissible_now() -> None:
    environment = corridor()
    seen = act(environment, "east").observation
    assert seen.state == {"actions": ["east", "west"]}
    wrong = act(environment, "fly").observation.results[0]
    assert wrong.is_error
    assert wrong.text == "error: there is no action 'fly'; those there are: east, west"


def test_calls_after_the_end_are_refused() -> None:
    seen = act(corridor(), "east", "east", "east")
    assert [r.is_error for r in seen.observation.results] == [False, False, True]
    assert (seen.reward, seen.terminated) == (1.0, True)


def test_a_cut_episode_is_truncated() -> None:
    environment = corridor(DISCRETE)
    for _ in range(9):
        assert not act(environment, "0").truncated
    assert act(environment, "0").truncated
    assert environment.outcome().success is False


def test_plain_text_needs_no_tool() -> None:
    environment = corridor(plain_text=True)
    assert environment.tools == ()
    assert environment.step(Action(text=" east ")).observation.text == "You are in room 1."
    assert "there is no action 'fly'" in str(environment.step(Action(text="fly")).observation.text)


def test_success_can_be_told_from_the_return() -> None:
    environment = corridor(success=lambda total, _: total > 5)
    act(environment, "east", "east")
    assert environment.outcome().success is False


class East:
    """Goes east."""

    agent = "east"
    model = None
    version = "1"

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        del tools, seed
        call = ToolCall.of("act", {"action": "east"}, f"c{len(messages)}")
        return Response(action=Action(tool_calls=(call,)))


def test_it_drops_into_the_runner() -> None:
    (run,) = run_rollouts(corridor, East(), [TASK])
    assert (run.status, run.success, run.reward, run.environment) == (
        *("terminated", True, 1.0, "corridor"),
    )


def test_a_real_gymnasium_environment() -> None:
    """FrozenLake without slipping: right, right, down, down, down, right is a way to the goal."""
    gymnasium = pytest.importorskip("gymnasium")
    environment = GymnasiumEnvironment(
        lambda: gymnasium.make("FrozenLake-v1", is_slippery=False),
        name="lake",
        actions=["left", "down", "right", "up"],
    )
    environment.reset(Task(task_id="lake/1", goal="Reach the goal.", metadata={"seed": 1}))
    last = act(environment, "right", "right", "down", "down", "down", "right")
    assert (last.reward, last.terminated) == (1.0, True)
    environment.close()


# --- ReAct -----------------------------------------------------------------------------------


def react(goal: str = "How much is 6 times 7?") -> ReActEnvironment:
    made = ReActEnvironment(CalculatorEnvironment())
    made.reset(Task(task_id="calculator/x", goal=goal, answer="42"))
    return made


def said(text: str, environment: ReActEnvironment | None = None) -> str:
    return str((environment or react()).step(Action(text=text)).observation.text)


def test_the_prompt_says_the_form_and_lists_the_tools() -> None:
    prompt = react().system_prompt
    assert "Action: tool[argument]" in prompt
    assert "\ncalculate[expression]: Work out an arithmetic expression" in prompt
    assert "\nfinish[answer]: Give the final answer." in prompt
    assert react().tools == ()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Thought: easy\nAction: calculate[6 * 7]", "Observation: 42"),
        ("Thought 1: x\nAction 1: calculate[(1 + 2) * 3]  ", "Observation: 9"),
        ("Action: calculate[1]\nObservation: 1\nAction: calculate[2]", "Observation: 2"),
        ("Action: calculate[1 / 0]", "Observation: error: division by zero in '1 / 0'"),
        ("Action: browse[x]", "Observation: error: there is no tool 'browse'"),
        ("Action: search[K2 [mountain]]", "Observation: [K2] K2 is a mountain"),
        ("calculate[1]", "Observation: no action was found"),
        ("", "Observation: no action was found"),
    ],
)
def test_an_action_is_read_and_answered(text: str, answer: str) -> None:
    assert said(text).startswith(answer)


def test_finish_ends_the_task_with_its_reward() -> None:
    environment = react()
    last = environment.step(Action(text="Thought: done\nAction: finish[42]"))
    assert (last.terminated, last.reward) == (True, 1.0)
    assert environment.outcome().success is True


def test_tools_of_no_and_of_several_arguments() -> None:
    (task,) = shop_tasks(1)
    environment = ReActEnvironment(WebShopEnvironment())
    environment.reset(task)
    assert "\nbuy[]: Buy the open product" in environment.system_prompt
    assert "error: no product is open" in said("Action: buy[]", environment)


class Calculates:
    """Writes ReAct: one calculation that is never right, then an answer."""

    agent = "react"
    model = None
    version = "1"

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        del tools, seed
        turn = sum(m["role"] == "assistant" for m in messages)
        text = ["Thought: try\nAction: calculate[1 + 1]", "Thought: so\nAction: finish[2]"][turn]
        return Response(action=Action(text=text))


def test_runs_keep_the_text_and_the_call_that_was_read_from_it() -> None:
    (run,) = run_rollouts(
        lambda: ReActEnvironment(CalculatorEnvironment()), Calculates(), calculator_tasks(1)
    )
    own = [step for step in run.steps if step.actor == "agent"]
    assert run.environment == "calculator-react"
    assert own[0].text == "Thought: try\nAction: calculate[1 + 1]"
    assert own[0].observations[0].text == "Observation: 2"
    told = json.loads(str(own[0].metadata))["react"]
    assert told == {"tool": "calculate", "arguments": '{"expression":"1 + 1"}'}
