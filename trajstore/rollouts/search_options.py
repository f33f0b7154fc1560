"""What a search is asked for, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trajstore.rollouts.environment import Task
from trajstore.rollouts.policy import Message
from trajstore.rollouts.search_lessons import Reflector
from trajstore.rollouts.tree import Node
from trajstore.schema import Label, Reflection, Trajectory

Critic = Callable[[Task, Sequence[Message]], float]
"""What a place is worth, on the scale of the environment's reward (0 to 1), by its conversation."""

Stopped = Literal[
    "solved", "iterations", "policy calls", "seconds", "exhausted", "error", "cancelled"
]
"""Why a search ended. ``exhausted``: new samples bring no new action anywhere."""


_NUMBERS = (
    "iterations",
    "expand",
    "depth",
    "c",
    "alpha",
    "policy_calls",
    "seconds",
    "stop_on_success",
    "lessons",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How wide, how deep and how long a search goes."""

    iterations: int = 30
    """Runs to the end that are begun (LATS: 30 on WebShop, 50 on HotPotQA)."""
    expand: int = 5
    """Samples that are drawn at a node (LATS: 5)."""
    depth: int = 15
    """Actions of one run at most (LATS on WebShop: 15)."""
    c: float = 1.0
    """Weight of exploration in UCB1, for rewards from 0 to 1 (LATS: 1)."""
    alpha: float = 0.5
    """Weight of the search against the critic, where there is one (Agent Q: 0.5)."""
    policy_calls: int | None = None
    """Calls of the policy at most; answers that are known do not count."""
    seconds: float | None = 300.0
    """Time of one search; it ends before its next call. None sets no limit."""
    stop_on_success: bool = True
    """End at the first run that the environment calls a success, and hand that run in. Where the
    verdict must not be used, False: the most visited way is handed in."""
    lessons: int = 3
    """Lessons of failed runs that the policy is shown, the newest ones (Reflexion: 3)."""
    concurrency: int = 5
    """Calls of one search at one time."""
    critic: Critic | None = None
    """Says what a place is worth, if anyone does; new children are shown to it."""
    reflect: Reflector | None = None
    """Looks at failed runs, if anyone does: its lessons are shown to the policy from then on, and
    prune the tree."""

    def check(self) -> None:
        """Check the values.

        Raises:
            ValueError: one is out of its range.
        """
        for name in ("iterations", "expand", "depth", "concurrency", "policy_calls"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it starts at 1")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is {self.alpha}; it must lie between 0 and 1")
        for name in ("c", "lessons", "seconds"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is {value}; it must be at least 0")

    def parameters(self) -> dict[str, Any]:
        """What decides on the tree, JSON-ready; how many calls are made at a time does not.

        Of the critic and of who reflects it has the names.
        """
        values = {name: getattr(self, name) for name in _NUMBERS}
        for name, guide in (("critic", self.critic), ("reflect", self.reflect)):
            values[name] = guide and getattr(guide, "__qualname__", type(guide).__qualname__)
        return {name: value for name, value in values.items() if value is not None}


DEFAULT_SEARCH = SearchOptions()
"""30 iterations of 5 samples, 15 actions deep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTree:
    """What one search at one task found."""

    tree_id: str
    """The same for the same search; in the metadata of each of its runs."""
    policy: str
    """Version of the policy that searched, or its agent where it has none."""
    task: Task
    """At what."""
    root: Node
    """The tree itself."""
    runs: tuple[Trajectory, ...]
    """Every way from the root to a leaf, in the order in which they ended."""
    best: Trajectory | None
    """The run that is handed in; None where no run was judged."""
    labels: tuple[Label, ...]
    """Values of single steps: ``q_search``, and ``q_critic`` where there is a critic."""
    reflections: tuple[Reflection, ...]
    """Lessons of failed runs."""
    stopped: Stopped
    """Why it ended."""
    error: str | None
    """What went wrong, where something did."""
    iterations: int
    """Runs to the end that were begun."""
    calls: int
    """Calls of the policy for actions."""
    cached: int
    """Questions to the policy that had been asked before."""
    merged: int
    """Samples that were the same action as one before them at their node."""
    pruned: int
    """Branches that were given up because of a reflection."""

    @property
    def success(self) -> bool | None:
        """The verdict on the run that is handed in."""
        return None if self.best is None else self.best.success
