"""A small world to search in: three doors in a row, each left or right; only one way is right."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from threading import Lock
from typing import Any, ClassVar

from trajstore.rollouts import (
    Action,
    Environment,
    Observed,
    Outcome,
    Response,
    Task,
    Tool,
    Transition,
    function_tool,
)
from trajstore.schema import Observation, ToolCall

TOOLS = (function_tool("go", "Go through a door.", {"door": {"type": "string"}}),)
TASK = Task(task_id="doors/rrr", goal="Find the way out.", answer="right right right")


def going(door: str, text: str | None = None) -> Action:
    return Action(text=text, tool_calls=(ToolCall.of("go", {"door": door}, "c"),))


class Doors:
    """The reward is the share of right doors before the first wrong one."""

    name, version, system_prompt = "doors", "1", "Go."
    tools: Sequence[Tool] = TOOLS
    made: ClassVar[int] = 0
    open_now: ClassVar[int] = 0
    lock = Lock()

    def __init__(self) -> None:
        self.way: list[str] = []
        self.wanted: list[str] = []
        with self.lock:
            Doors.made += 1
            Doors.open_now += 1

    def reset(self, task: Task) -> Observed:
        self.wanted = str(task.answer).split()
        return Observed(text=task.goal)

    def step(self, action: Action) -> Transition:
        (call,) = action.tool_calls
        self.way.append("right" if "right" in (call.arguments or "") else "left")
        seen = Observation(call_id=call.call_id, text=f"room {len(self.way)}", is_error=False)
        ended = len(self.way) == len(self.wanted)
        return Transition(
            observation=Observed(results=(seen,)),
            terminated=ended,
            reward=self.outcome().reward or 0.0 if ended else 0.0,
        )

    def outcome(self) -> Outcome:
        right = 0
        while right < len(self.way) and self.way[right] == self.wanted[right]:
            right += 1
        return Outcome(success=right == len(self.wanted), reward=right / len(self.wanted))

    def close(self) -> None:
        with self.lock:
            Doors.open_now -= 1


class Gambler:
    """Takes the right door with a chance; keeps what it was asked."""

    agent, model, version = "gambler", "dice", "1"

    def __init__(self, chance: float = 0.4) -> None:
        self.chance = chance
        self.asked: list[tuple[Any, int]] = []
        self.lock = Lock()

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        del tools
        with self.lock:
            self.asked.append((messages, seed))
        right = Random(seed).random() < self.chance
        return Response(action=going("right" if right else "left", f"I roll {seed}."))


def always(door: str) -> Gambler:
    return Gambler(1.0 if door == "right" else 0.0)


def make() -> Environment:
    return Doors()
