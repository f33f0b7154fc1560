"""What every scripted agent is: a script that is played over the conversation, and its faults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from trajstore.rollouts.environment import Action, Tool
from trajstore.rollouts.policy import Message, Response
from trajstore.schema import ToolCall, json_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How likely an agent makes which faults."""

    name: str
    """Name of the profile: the policy's version."""
    faults: Mapping[Any, float] = field(default_factory=dict)
    """Probability from 0 to 1 that a fault is part of an attempt, drawn for each by itself."""

    def draw(self, seed: int) -> frozenset[Any]:
        """The faults of one attempt; the same for the same seed."""
        random = Random(seed)  # noqa: S311 - a seeded choice of faults, no secret
        return frozenset(fault for fault, p in self.faults.items() if random.random() < p)


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing to do: words, and a tool with its arguments (as text where they are broken)."""

    text: str
    tool: str | None = None
    arguments: Mapping[str, str] | str | None = None
    fault: str | None = None
    reasoning: str | None = None


Script = Generator[Turn, str, None]
"""Yields turns and is sent what the environment answered to each."""


class ScriptPlayer(ABC):
    """A policy that plays a script with the faults of one profile.

    It keeps no state: at each call the script is played again over the conversation so far, so it
    can go on from any prefix. A fault that was acted out is named in the step's metadata.
    """

    agent = "scripted"
    model: str | None = None
    profiles: ClassVar[Mapping[str, Profile]]
    """Profiles by name; the first is the one that is taken where none is named."""

    def __init__(self, profile: Profile | str | None = None) -> None:
        """Take a profile, or the name of one of :attr:`profiles`; the first where None.

        Raises:
            ValueError: there is no profile of that name.
        """
        if profile is None:
            profile = next(iter(self.profiles))
        if isinstance(profile, str):
            if profile not in self.profiles:
                message = f"no profile '{profile}'; known are {', '.join(self.profiles)}"
                raise ValueError(message)
            profile = self.profiles[profile]
        self.profile = profile

    @property
    def version(self) -> str:
        """Name of the profile."""
        return self.profile.name

    @abstractmethod
    def script(self, goal: str, faults: frozenset[str], random: Random) -> Script:
        """The script of one attempt.

        Args:
            goal: the first user message.
            faults: those of this attempt.
            random: seeded by the attempt; the same at each of its steps.
        """

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """The next turn of the script, after what was answered so far."""
        del tools
        goal = next((str(m["content"]) for m in messages if m["role"] == "user"), "")
        replies = _replies(messages)
        script = self.script(goal, self.profile.draw(seed), Random(seed))  # noqa: S311 - no secret
        turn = next(script)
        try:
            for reply in replies:
                turn = script.send(reply)
        except StopIteration:
            turn = Turn("I have nothing to add.")
        metadata = {} if turn.fault is None else {"fault": turn.fault}
        return Response(
            action=_action(turn, len(replies)), sampling={"seed": seed}, metadata=metadata
        )


def _replies(messages: Sequence[Message]) -> list[str]:
    """What the environment said after each turn of the agent."""
    replies: list[list[str]] = []
    for message in messages:
        if message["role"] == "assistant":
            replies.append([])
        elif replies:
            replies[-1].append(str(message["content"] or ""))
    return ["\n".join(parts) for parts in replies]


def _action(turn: Turn, index: int) -> Action:
    calls: tuple[ToolCall, ...] = ()
    if turn.tool is not None:
        given: Any = turn.arguments
        raw = given if isinstance(given, str) else json_text(dict(given or {}))
        calls = (ToolCall.of(turn.tool, raw, f"call_{index}"),)
    return Action(text=turn.text, reasoning=turn.reasoning, tool_calls=calls)
