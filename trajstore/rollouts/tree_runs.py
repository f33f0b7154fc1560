"""The tree of a search as trajectories: every way from the root to a leaf is a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from trajstore.rollouts.environment import Task
from trajstore.rollouts.policy import Policy
from trajstore.rollouts.search_lessons import Lesson
from trajstore.rollouts.search_options import SearchOptions, SearchTree, Stopped
from trajstore.rollouts.tree import Ending, Node, blended
from trajstore.schema import (
    Label,
    Reflection,
    Step,
    Trajectory,
    canonical_json,
    digest,
    finish,
    json_text,
    json_text_or_none,
    trajectory_id,
)

AGENT = "lats"
"""Agent of the runs, and evaluator of the values."""
TAG = "lats"
"""Tag of every run of a search."""
BEST_TAG = "lats-best"
"""Tag of the run that a search hands in."""
VERSION = "lats/1"
"""Version of the evaluator of the values."""

_CUT_OFF = Ending(status="truncated", reason="not simulated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What is known of a whole search; the fields are those of :class:`SearchTree`."""

    stopped: Stopped
    error: str | None
    iterations: int
    calls: int
    cached: int
    merged: int
    pruned: int


class Planter:
    """Makes the runs of one tree."""

    def __init__(
        self,
        policy: Policy,
        task: Task,
        names: tuple[str, str],
        options: SearchOptions,
        seed: int,
    ) -> None:
        """Keep what all runs of the tree share; see :class:`Lats`."""
        self._policy, self._task, self._names = policy, task, names
        self._options, self._seed = options, seed
        self._version = policy.version
        who = (policy.agent, policy.model, self._version)
        self._key = canonical_json(["lats", *names, task.task_id, *who, seed, options.parameters()])
        self.tree_id = digest(self._key)[:16]
        self.start: tuple[Step, ...] = ()
        """What was said before the first action."""
        self.tools: str | None = None
        """JSON text of the tools."""

    def run(self, leaf: Node, *, more: Mapping[str, Any] | None = None) -> Trajectory:
        """The run that ends at a leaf.

        Args:
            leaf: where it ends.
            more: what else its metadata says of the search.
        """
        ending = leaf.ending or _CUT_OFF
        line = leaf.line()[1:]
        steps = [self._step(node) for node in line]
        seconds = sum(node.taken.seconds for node in line if node.taken)
        costs = [n.taken.cost_usd for n in line if n.taken and n.taken.cost_usd is not None]
        started_at = next((s.timestamp for s in (*self.start, *steps) if s.timestamp), None)
        search = {"tree": self.tree_id, "node": _name(leaf), "policy_agent": self._policy.agent}
        metadata: dict[str, Any] = {"seed": self._seed, "lats": {**search, **(more or {})}}
        if self._task.metadata:
            metadata["task"] = dict(self._task.metadata)
        return Trajectory(
            trajectory_id=trajectory_id("rollout", f"{self._key}/{_name(leaf)}"),
            task_id=self._task.task_id,
            attempt=leaf.run,
            goal=self._task.goal,
            source="rollout",
            environment=self._names[0],
            environment_version=self._names[1],
            agent=AGENT,
            model=self._policy.model,
            policy_version=self._version,
            steps=(*self.start, *steps),
            status=ending.status,
            termination_reason=ending.reason,
            error=ending.error,
            success=ending.outcome.success,
            reward=ending.outcome.reward,
            rewards=dict(ending.outcome.rewards),
            tools=self.tools,
            cost_usd=sum(costs) if costs else None,
            duration_s=seconds,
            started_at=started_at,
            ended_at=_later(started_at, seconds),
            tags=(TAG,),
            metadata=json_text(metadata),
        )

    def harvest(
        self, root: Node, best: Node | None, lessons: Mapping[Node, Lesson], counts: Counts
    ) -> SearchTree:
        """Everything that a search found.

        A run that shares its first actions with an earlier one descends from it: ``parent_step``
        is the last step that both have. Tokens, seconds and costs of the steps that it shares are
        left to the earlier one, so that sums count every model call once.
        """
        leaves = self._numbered(root)
        firsts = _firsts(leaves)
        runs: dict[Node, Trajectory] = {}
        by_number: list[Trajectory] = []
        for leaf in leaves:
            more = {"best": leaf is best, **asdict(counts), "options": self._options.parameters()}
            run = self._descended(self.run(leaf, more=more), leaf, firsts, by_number)
            tags = (TAG, BEST_TAG) if leaf is best else (TAG,)
            runs[leaf] = finish(replace(run, tags=tags))
            by_number.append(runs[leaf])
        return SearchTree(
            tree_id=self.tree_id,
            policy=self._version or self._policy.agent,
            task=self._task,
            root=root,
            runs=tuple(by_number),
            best=None if best is None else runs[best],
            labels=tuple(self._labels(runs)),
            reflections=tuple(self._reflections(runs, lessons)),
            **asdict(counts),
        )

    @staticmethod
    def _numbered(root: Node) -> list[Node]:
        """The leaves in the order in which their runs ended; those that never did come last."""
        leaves = [node for node in root.walk() if not node.children and node is not root]
        ended = [leaf for leaf in leaves if leaf.run is not None]
        rest = [leaf for leaf in leaves if leaf.run is None]
        for number, leaf in enumerate(rest, start=len(ended)):
            leaf.run = number
        return [*sorted(ended, key=lambda leaf: leaf.run or 0), *rest]

    def _descended(
        self, run: Trajectory, leaf: Node, firsts: Mapping[Node, int], before: list[Trajectory]
    ) -> Trajectory:
        line = leaf.line()
        number = len(before)
        shared = max(d for d, node in enumerate(line) if d == 0 or firsts[node] < number)
        if number == 0:
            return run
        parent = before[firsts[line[shared]]]
        last = len(self.start) + shared
        steps = [_counted_elsewhere(s) for s in run.steps[len(self.start) : last]]
        own = [node.taken for node in line[shared + 1 :] if node.taken]
        costs = [taken.cost_usd for taken in own if taken.cost_usd is not None]
        seconds = sum(taken.seconds for taken in own)
        started_at = own[0].step.timestamp if own else run.started_at
        return replace(
            run,
            steps=(*self.start, *steps, *run.steps[last:]),
            parent_id=parent.trajectory_id,
            parent_step=last - 1,
            relation="branch",
            cost_usd=sum(costs) if costs else None,
            duration_s=seconds,
            started_at=started_at,
            ended_at=_later(started_at, seconds),
        )

    def _step(self, node: Node) -> Step:
        """The step that led to a node, with what the search knows of it."""
        assert node.taken is not None
        step = node.taken.step
        known = {} if step.metadata is None else json.loads(step.metadata)
        search = {
            "node": _name(node),
            "depth": node.depth,
            "visits": node.visits,
            "q": blended(node.q_search, node.critic, self._options.alpha),
            "pruned": node.pruned or None,
            "lessons": node.taken.lessons or None,
        }
        stated = {name: value for name, value in search.items() if value is not None}
        return replace(step, metadata=json_text_or_none({**known, "lats": stated}))

    def _labels(self, runs: Mapping[Node, Trajectory]) -> Iterator[Label]:
        for leaf, run in runs.items():
            for place, node in enumerate(leaf.line()[1:], start=len(self.start)):
                for name, value in (("q_search", node.q_search), ("q_critic", node.critic)):
                    if value is not None:
                        yield Label(
                            trajectory_id=run.trajectory_id,
                            step_index=place,
                            name=name,
                            value=value,
                            evaluator=AGENT,
                            evaluator_version=VERSION,
                        )

    def _reflections(
        self, runs: Mapping[Node, Trajectory], lessons: Mapping[Node, Lesson]
    ) -> Iterator[Reflection]:
        for leaf, lesson in lessons.items():
            run = runs[leaf]
            if lesson.text:
                yield Reflection(
                    task_id=run.task_id,
                    text=lesson.text,
                    source=AGENT,
                    trial=run.attempt,
                    trajectory_id=run.trajectory_id,
                    environment=run.environment,
                    metadata=json_text({"tree": self.tree_id, "blamed": lesson.blamed}),
                )


def _firsts(leaves: list[Node]) -> dict[Node, int]:
    """The first run through each node."""
    firsts: dict[Node, int] = {}
    for number, leaf in enumerate(leaves):
        for node in leaf.line():
            firsts.setdefault(node, number)
    return firsts


def _counted_elsewhere(step: Step) -> Step:
    return replace(
        step, prompt_tokens=None, completion_tokens=None, cached_tokens=None, latency_s=None
    )


def _later(moment: datetime | None, seconds: float) -> datetime | None:
    return None if moment is None else moment + timedelta(seconds=seconds)


def _name(node: Node) -> str:
    """The id of a node in its tree."""
    return ".".join(map(str, node.path))
