"""Language Agent Tree Search: select, expand, simulate, back up, reflect."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Event

from trajstore.rollouts.attempt import EnvironmentFactory, Limits, _naming, _PartError
from trajstore.rollouts.environment import Environment, Task
from trajstore.rollouts.lats_acting import Acting
from trajstore.rollouts.policy import Policy
from trajstore.rollouts.search_generations import Asking, Generation, Generations, Request
from trajstore.rollouts.search_lessons import Lesson, with_lessons
from trajstore.rollouts.search_options import SearchOptions, SearchTree, Stopped
from trajstore.rollouts.tree import (
    Ending,
    Node,
    Place,
    action_key,
    back_up,
    most_visited,
    promising,
    prune,
    select,
)
from trajstore.rollouts.tree_runs import Counts, Planter
from trajstore.schema import digest, json_text_or_none

_FRUITLESS = 2
"""A node is done with when so many more rounds of samples brought no action that is not there."""
_MOST_FAILURES = 3
"""Runs in a row that fail for technical reasons, and then the search is given up."""


class _StopError(Exception):
    """The search is over."""

    def __init__(self, reason: Stopped) -> None:
        super().__init__(reason)
        self.reason: Stopped = reason


class Lats:
    """One search at one task. :meth:`run` is called once, on any thread."""

    def __init__(
        self,
        make_environment: EnvironmentFactory,
        policy: Policy,
        task: Task,
        *,
        names: tuple[str, str],
        options: SearchOptions,
        seed: int = 0,
        cache: Generations | None = None,
        limits: Limits,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            make_environment: makes the environments of the tree.
            policy: who acts.
            task: at what.
            names: name and version of the environment.
            options: how wide, how deep and how long.
            seed: of the whole search.
            cache: answers of the policy from before.
            limits: retries of calls of the policy, and the pauses before them.
        """
        self._policy, self._task, self._options = policy, task, options
        self._acting = Acting(make_environment, task, policy.model, options)
        self._asking = Asking(
            policy,
            cache if cache is not None else Generations(),
            most=options.policy_calls,
            concurrency=options.concurrency,
            limits=limits,
        )
        self._planter = Planter(policy, task, names, options, seed)
        self._seed_of = digest("lats", *names, task.task_id, policy.agent, policy.model, seed)
        self._root = Node(place=Place(messages=()))
        self._runs: list[Node] = []
        self._lessons: dict[Node, Lesson] = {}
        self._iterations = self._merged = self._pruned = self._failures = 0
        self._error: str | None = None
        self._deadline = float("inf")
        self._cancelled = Event()

    @property
    def tree_id(self) -> str:
        """Of the tree that it makes."""
        return self._planter.tree_id

    def run(self, cancelled: Event | None = None) -> SearchTree:
        """Search to the end; a failing policy or environment ends the search and raises nothing.

        Args:
            cancelled: once set, the search ends before its next call.
        """
        self._cancelled = cancelled or self._cancelled
        if self._options.seconds is not None:
            self._deadline = time.monotonic() + self._options.seconds
        stopped: Stopped = "iterations"
        try:
            self._planter.start = self._acting.start(self._root)
            self._planter.tools = json_text_or_none(list(self._root.place.tools))
            while self._iterations < self._options.iterations:
                self._check()
                self._iterate()
        except _StopError as stop:
            stopped = stop.reason
        except _PartError as error:
            stopped, self._error = "error", str(error)
        finally:
            self._acting.close()
        return self._tree(stopped)

    def _check(self) -> None:
        """Stop where a budget is used up."""
        if self._cancelled.is_set():
            raise _StopError("cancelled")
        if time.monotonic() >= self._deadline:
            raise _StopError("seconds")
        if self._asking.spent:
            raise _StopError("policy calls")

    def _iterate(self) -> None:
        """Bring at least one more run to its end, from a node that no run came through.

        Where every new action ends its run there is nothing to simulate. Samples that bring no new
        action are no iteration; a node is closed after a few of them.
        """
        while True:
            if self._root.closed:
                raise _StopError("exhausted")
            node = self._select()
            if not node.draws and node is not self._root:
                break
            self._check()
            made = self._expand(node)
            if fresh := [child for child in made if child.ending is None]:
                node = promising(fresh)
                break
            if made:
                self._iterations += 1
                return
        self._iterations += 1
        self._simulate(node)

    def _select(self) -> Node:
        options = self._options
        return select(self._root, width=options.expand, c=options.c, alpha=self._alpha)

    @property
    def _alpha(self) -> float:
        return 1.0 if self._options.critic is None else self._options.alpha

    def _expand(self, node: Node) -> list[Node]:
        """Draw samples at a node, and carry out those that are new."""
        width = self._options.expand
        widened = node.draws >= width
        asked = range(node.draws, node.draws + width if widened else width)
        known = {action_key(child.taken.action) for child in node.children if child.taken}
        new: dict[tuple[str, ...], Generation] = {}
        for answer in self._draw(node, asked):
            if answer is None:
                break
            if isinstance(answer, _PartError):
                self._failed(str(answer))
                continue
            key = action_key(answer.response.action)
            if key in known or key in new:
                self._merged += 1
            else:
                new[key] = answer
        node.draws = asked.stop
        made = self._acting.grow(node, list(new.values()), len(self._shown()))
        if widened:
            self._done_with(node, brought=bool(made))
        for child in made:
            if child.ending is not None:
                self._finish(child)
        return made

    def _done_with(self, node: Node, *, brought: bool) -> None:
        node.fruitless = 0 if brought else node.fruitless + 1
        node.closed = node.fruitless >= _FRUITLESS

    def _draw(self, node: Node, numbers: Sequence[int]) -> list[Generation | _PartError | None]:
        messages = with_lessons(node.place.messages, self._shown())
        here = ".".join(map(str, node.path))
        return self._asking.ask(
            [
                Request(
                    messages=messages,
                    tools=node.place.tools,
                    seed=int(digest(self._seed_of, here, number)[:8], 16) & 0x7FFFFFFF,
                )
                for number in numbers
            ]
        )

    def _shown(self) -> list[str]:
        texts = [lesson.text for lesson in self._lessons.values() if lesson.text]
        return texts[len(texts) - min(self._options.lessons, len(texts)) :]

    def _simulate(self, node: Node) -> None:
        """Let the policy go on from a node to the end of the run."""
        environment = self._acting.take(node)
        try:
            while node.ending is None:
                self._check()
                node = self._advance(node, environment)
        finally:
            self._acting.let_go(environment)
        self._finish(node)

    def _advance(self, node: Node, environment: Environment) -> Node:
        (answer,) = self._draw(node, [0])
        if answer is None:
            raise _StopError("policy calls")
        if isinstance(answer, _PartError):
            node.ending = Ending(status="error", reason="policy.act failed", error=str(answer))
            return node
        node.draws = max(node.draws, 1)
        return self._acting.act(node, environment, answer, len(self._shown()))

    def _finish(self, node: Node) -> None:
        """Count a run that has ended, and learn from it."""
        assert node.ending is not None
        node.run, node.closed = len(self._runs), True
        self._runs.append(node)
        value = node.ending.value
        if value is not None:
            back_up(node, value)
        if node.ending.status == "error":
            self._failed(node.ending.error or node.ending.reason)
        else:
            self._failures = 0
        success = node.ending.outcome.success
        if success and self._options.stop_on_success:
            raise _StopError("solved")
        if value is not None and not success:
            self._learn(node, value)

    def _failed(self, error: str) -> None:
        self._error = self._error or error
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            raise _StopError("error")

    def _learn(self, node: Node, value: float) -> None:
        reflect = self._options.reflect
        if reflect is None:
            return
        run = self._planter.run(node)
        earlier = [lesson.text for lesson in self._lessons.values() if lesson.text]
        with _naming("reflect"):
            lesson = reflect(run, earlier)
        if lesson is None:
            return
        self._lessons[node] = lesson
        if lesson.blamed is not None and prune(node, lesson.blamed, value):
            self._pruned += 1

    def _best(self) -> Node | None:
        if self._options.stop_on_success:
            solved = [n for n in self._runs if n.ending and n.ending.outcome.success]
            if solved:
                return max(solved, key=lambda n: (n.total / n.visits, -n.depth, -(n.run or 0)))
        return most_visited(self._root, alpha=self._alpha)

    def _tree(self, stopped: Stopped) -> SearchTree:
        counts = Counts(
            stopped=stopped,
            error=self._error or self._acting.close_error,
            iterations=self._iterations,
            calls=self._asking.calls,
            cached=self._asking.cached,
            merged=self._merged,
            pruned=self._pruned,
        )
        return self._planter.harvest(self._root, self._best(), self._lessons, counts)
