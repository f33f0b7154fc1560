"""The text-environment protocol: Gymnasium's reset and step, with messages and tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from trajstore.schema import Observation, ToolCall

Tool = Mapping[str, Any]
"""One tool definition in OpenAI's function form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is attempted."""

    task_id: str
    """Group key, prefixed by the environment: attempts at one task share it."""
    goal: str
    """What is asked, in words."""
    answer: str | None = None
    """What the environment's evaluator compares with; never shown to a policy."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of the task; kept with each of its trajectories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a policy does in one step: it says something, calls tools, or both."""

    text: str | None = None
    """What is said."""
    reasoning: str | None = None
    """Thinking beside the text."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls in order, each with an id of its own inside the trajectory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the agent gets to see."""

    text: str | None = None
    """What the environment says beside the results: the task at reset, a remark after a step."""
    results: tuple[Observation, ...] = ()
    """One result a tool call, linked by its id."""
    state: Mapping[str, Any] | None = None
    """Variables that the agent can see beside the messages, such as an open file."""
    state_key: str | None = None
    """Equal for equal states, where the environment knows better than what was seen on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What one step brought."""

    observation: Observed = Observed()
    """What the agent gets to see."""
    reward: float = 0.0
    """Reward of this step, any range."""
    terminated: bool = False
    """The environment came to an end of its own: an answer was given, the goal was reached."""
    truncated: bool = False
    """The environment was cut off from outside its rules, by a limit."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """What is worth keeping and not shown to the agent; goes to the step's metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The evaluator's word on an attempt."""

    success: bool | None = None
    """Whether the task is solved; None where the evaluator cannot say."""
    reward: float | None = None
    """Reward of the whole attempt, any range."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Named components of the reward."""


class Environment(Protocol):
    """Something to act in. One object serves one attempt at a time.

    Bad input by the agent (an unknown tool, arguments that do not parse) is answered with a result
    flagged ``is_error``; an exception means that the environment itself has failed.
    """

    @property
    def name(self) -> str:
        """Name of the environment, for grouping."""

    @property
    def version(self) -> str:
        """Changes whenever the same action could bring another result."""

    @property
    def system_prompt(self) -> str | None:
        """What the agent is told before the task, where there is anything."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools on offer."""

    def reset(self, task: Task) -> Observed:
        """Begin a task; the text of the observation is the first user message."""

    def step(self, action: Action) -> Transition:
        """Carry out an action and answer each of its calls."""

    def outcome(self) -> Outcome:
        """Judge the attempt as it stands, also after it was cut off."""

    def close(self) -> None:
        """Let go of whatever the environment holds."""


def function_tool(
    name: str, description: str, properties: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A tool definition in OpenAI's function form, every argument required.

    Args:
        name: the tool's name.
        description: what it does, for the model.
        properties: JSON schema of each argument by name.
    """
    parameters = {
        "type": "object",
        "properties": {key: dict(value) for key, value in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}
