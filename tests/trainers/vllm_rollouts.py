"""What the tests of a real vLLM let a small model do: two turns of talk, and a reward for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trajstore.rollouts import (
    Action,
    Limits,
    Observed,
    Outcome,
    Policy,
    Sampling,
    Task,
    Transition,
    run_rollouts,
)
from trajstore.schema import Trajectory

SAMPLING = Sampling(max_tokens=24)
TASKS = [
    Task(task_id=f"talk/{topic}", goal=f"Tell me about {topic} in one sentence.")
    for topic in ("bees", "the sea")
]


class Talk:
    """Two turns; the reward is the share of words that hold an ``e``."""

    name, version = "talk", "1"
    system_prompt: str | None = None
    tools: Sequence[Any] = ()

    def reset(self, task: Task) -> Observed:
        self.said: list[str] = []
        return Observed(text=task.goal)

    def step(self, action: Action) -> Transition:
        self.said.append(action.text or "")
        return Transition(observation=Observed(text="Go on."), terminated=len(self.said) == 2)

    def outcome(self) -> Outcome:
        words = " ".join(self.said).split() or ["-"]
        return Outcome(reward=sum("e" in word for word in words) / len(words))

    def close(self) -> None:
        """Nothing is held."""


def talk(policy: Policy, *, attempts: int, seed: int = 0) -> list[Trajectory]:
    """Attempts at each task, in order of their ids."""
    limits = Limits(concurrency=16)
    runs = run_rollouts(Talk, policy, TASKS, attempts=attempts, seed=seed, limits=limits)
    return sorted(runs, key=lambda run: run.trajectory_id)
