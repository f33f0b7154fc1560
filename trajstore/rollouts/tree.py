"""The tree of a search: places, what runs through them were worth, and how one is chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trajstore.rollouts.environment import Action, Outcome, Tool, Transition
from trajstore.rollouts.policy import Message
from trajstore.schema import Status, Step, canonical_action, mask_volatile


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a policy needs to act somewhere."""

    messages: tuple[Message, ...]
    """The conversation so far."""
    tools: tuple[Tool, ...] = ()
    """The tools on offer."""
    state: Any = None
    """Variables that the agent can see beside the messages."""
    state_key: str | None = None
    """The environment's own key of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An action that was carried out, and what it brought."""

    action: Action
    """What the policy did."""
    step: Step
    """The same as it is stored."""
    transition: Transition | None = None
    """What came back; None where the environment failed."""
    seconds: float = 0.0
    """Time of the model call and the environment together."""
    cost_usd: float | None = None
    """Price of the model call, where known."""
    lessons: int = 0
    """How many lessons of failed runs the policy was shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended."""

    status: Status
    reason: str
    error: str | None = None
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def value(self) -> float | None:
        """The reward, else 1 or 0 by the verdict; None where nobody judged it."""
        if self.status == "error":
            return None
        if self.outcome.reward is not None:
            return self.outcome.reward
        return None if self.outcome.success is None else float(self.outcome.success)


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """A place in the tree: the start of a task, or where an action of the parent led to."""

    place: Place
    """What a policy sees here."""
    parent: Node | None = None
    """None at the root."""
    number: int = 0
    """Place among the siblings, in the order in which they were made."""
    taken: Taken | None = None
    """The action that led here; None at the root."""
    children: list[Node] = field(default_factory=list)
    """One for each different action that was drawn here."""
    draws: int = 0
    """Samples that the policy was asked for here."""
    fruitless: int = 0
    """How often drawing again brought no new action."""
    visits: int = 0
    """Judged runs that came through here."""
    total: float = 0.0
    """Sum of their values."""
    best: float = -math.inf
    """Highest of their values."""
    critic: float | None = None
    """What a critic thinks of this place."""
    ending: Ending | None = None
    """Set where runs end."""
    run: int | None = None
    """Number of the run that ended here, in the order in which runs ended."""
    closed: bool = False
    """Nothing is left to try from here on."""
    pruned: bool = False
    """A reflection says that it went wrong here."""

    @property
    def depth(self) -> int:
        """Actions since the start."""
        return len(self.path)

    @property
    def path(self) -> tuple[int, ...]:
        """Numbers of the nodes from the root down to here: the id of the node in its tree."""
        return tuple(node.number for node in self.line())[1:]

    @property
    def q_search(self) -> float | None:
        """Mean value of the runs that came through here; None before the first."""
        return self.total / self.visits if self.visits else None

    @property
    def open_children(self) -> list[Node]:
        """Children below which something is left to try."""
        return [child for child in self.children if not child.closed and not child.pruned]

    def line(self) -> list[Node]:
        """The nodes from the root down to this one."""
        found = [self]
        while (above := found[-1].parent) is not None:
            found.append(above)
        return found[::-1]

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first, siblings in order."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


def blended(search: float | None, critic: float | None, alpha: float) -> float | None:
    """``alpha * Q_search + (1 - alpha) * Q_critic``; the one that is there where one is missing.

    Source: Agent Q (Putta et al. 2024, 2408.07199), equation 10.

    >>> round(blended(0.8, 0.6, 0.5), 3)
    0.7
    """
    if search is None or critic is None:
        return critic if search is None else search
    return alpha * search + (1 - alpha) * critic


def ucb1(q: float, visits: int, parent_visits: int, *, c: float = 1.0) -> float:
    """``Q + c * sqrt(ln N(parent) / N)``: how promising a child is; infinite if unvisited.

    Source: Kocsis and Szepesvari 2006, as in LATS (Zhou et al. 2023, 2310.04406).

    >>> round(ucb1(0.5, 4, 10), 4), round(ucb1(0.6, 6, 10), 4)
    (1.2587, 1.2195)
    """
    if not visits:
        return math.inf
    return q + c * math.sqrt(math.log(parent_visits) / visits)


def select(root: Node, *, width: int, c: float = 1.0, alpha: float = 1.0) -> Node:
    """Go down to the node where the search goes on.

    At a node whose ``width`` samples were drawn, a child without a visit comes first (the one that
    the critic thinks most of, then the first), else the one of the highest :func:`ucb1`. The way
    ends at a node that lacks samples, or has no child left to try.

    Args:
        root: where to start; it is not closed.
        width: samples of a node.
        c: weight of exploration.
        alpha: weight of the search against the critic.
    """
    node = root
    while node.draws >= width and node.open_children:
        fresh = [child for child in node.open_children if not child.visits]
        node = promising(fresh) if fresh else _most_bound(node, c, alpha)
    return node


def _most_bound(parent: Node, c: float, alpha: float) -> Node:
    def bound(node: Node) -> tuple[float, int]:
        return ucb1(_q(node, alpha), node.visits, parent.visits, c=c), -node.number

    return max(parent.open_children, key=bound)


def promising(nodes: list[Node]) -> Node:
    """The node that the critic thinks most of; the first among equals."""
    return max(nodes, key=lambda n: (0.0 if n.critic is None else n.critic, -n.number))


def back_up(leaf: Node, value: float) -> None:
    """Count a run that ended at ``leaf`` at every node that it came through."""
    for node in leaf.line():
        node.visits += 1
        node.total += value
        node.best = max(node.best, value)


def most_visited(root: Node, *, alpha: float = 1.0) -> Node | None:
    """Where one ends who always takes the child with most visits; ties by Q, then by id.

    Pruned children are taken only where there are no others. None where no run was judged.
    """
    node = root
    while choices := [child for child in node.children if child.visits]:
        kept = [child for child in choices if not child.pruned]
        node = max(kept or choices, key=lambda n: (n.visits, _q(n, alpha), -n.number))
    return None if node is root else node


def prune(leaf: Node, blamed: int, value: float) -> bool:
    """Give up the node behind the blamed action of a failed run, and all below it.

    A node through which a better run came stays, whatever a reflection says.

    Args:
        leaf: where the run ended.
        blamed: number of the action, from 0.
        value: what the run was worth.

    Returns:
        Whether a node was given up.
    """
    line = leaf.line()
    if not 0 <= blamed < len(line) - 1 or line[blamed + 1].best > value:
        return False
    line[blamed + 1].pruned = True
    return True


def action_key(action: Action) -> tuple[str, ...]:
    """Equal for two actions that do the same: equal calls, or equal words where nothing is called.

    It is the equality of pairs and credit: arguments are compared as canonical JSON, volatile
    values are masked, and what is said beside a call does not count.
    """
    if action.tool_calls:
        calls = (
            canonical_action(c.name, c.arguments or c.arguments_raw) for c in action.tool_calls
        )
        return ("calls", *map(mask_volatile, calls))
    return ("said", mask_volatile(" ".join((action.text or "").casefold().split())))


def _q(node: Node, alpha: float) -> float:
    return blended(node.q_search, node.critic, alpha) or 0.0
