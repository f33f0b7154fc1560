"""A policy whose luck is drawn at each call."""

from __future__ import annotations

from collections.abc import Sequence

from trajstore.rollouts.environment import Tool
from trajstore.rollouts.policy import Message, Policy, Response
from trajstore.schema import digest


class FreshSeeds:
    """Asks a policy with another seed at each step of an attempt.

    A scripted agent draws its faults from the seed, which is the same at each step of an attempt.
    Asked through this class it may go wrong at any step and right at the next, as a model that is
    sampled does, in single attempts and in a search alike.
    """

    def __init__(self, policy: Policy) -> None:
        """Ask this policy."""
        self._policy = policy

    @property
    def agent(self) -> str:
        """That of the policy."""
        return self._policy.agent

    @property
    def model(self) -> str | None:
        """That of the policy."""
        return self._policy.model

    @property
    def version(self) -> str:
        """That of the policy, marked."""
        return f"{self._policy.version or self._policy.agent}/fresh-seeds"

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """What the policy does under a seed made from this one and the number of messages."""
        fresh = int(digest("fresh", seed, len(messages))[:8], 16) & 0x7FFFFFFF
        return self._policy.act(messages, tools, seed=fresh)
