"""Carry actions out at the nodes of a tree, several side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from trajstore.rollouts.attempt import (
    EnvironmentFactory,
    _agent_step,
    _messages,
    _naming,
    _observations,
    _PartError,
)
from trajstore.rollouts.environment import Environment, Task
from trajstore.rollouts.search_generations import Generation
from trajstore.rollouts.search_options import SearchOptions
from trajstore.rollouts.tree import Ending, Node, Place, Taken
from trajstore.rollouts.tree_places import Places
from trajstore.schema import Status, Step, json_text_or_none, now

_T = TypeVar("_T")
_R = TypeVar("_R")


class Acting:
    """The environments of one tree at work."""

    def __init__(
        self,
        make_environment: EnvironmentFactory,
        task: Task,
        model: str | None,
        options: SearchOptions,
    ) -> None:
        """Make nothing yet.

        Args:
            make_environment: makes the environments of the tree.
            task: the task of the tree.
            model: name of the model that acts, for the steps.
            options: depth, critic, and how much is done at a time.
        """
        self._task, self._model, self._options = task, model, options
        self._places = Places(make_environment, task)
        self._live: dict[Node, Environment] = {}

    def start(self, root: Node) -> tuple[Step, ...]:
        """Begin the task.

        Args:
            root: gets the place where it begins.

        Returns:
            What is said before the first action.
        """
        environment, observed = self._places.start()
        try:
            with _naming("environment.reset"):
                system, tools = environment.system_prompt, tuple(environment.tools)
            text = observed.text if observed.text is not None else self._task.goal
            steps = [Step(actor="user", text=text, timestamp=now())]
            if system is not None:
                steps.insert(0, Step(actor="system", text=system))
            root.place = Place(
                messages=tuple({"role": s.actor, "content": s.text} for s in steps),
                tools=tools,
                state=observed.state,
                state_key=observed.state_key,
            )
            self._places.keep(root, environment)
        finally:
            self.let_go(environment)
        return tuple(steps)

    def grow(self, node: Node, answers: Sequence[Generation], lessons: int) -> list[Node]:
        """Carry out actions at a node, each in an environment of its own.

        Args:
            node: gets a child for each.
            answers: what the policy wants to do, each something else.
            lessons: how many lessons it was shown.

        Returns:
            The children, in the order of the answers.
        """
        made = self._side_by_side(lambda answer: self._branch(node, answer, lessons), answers)
        children: list[Node] = []
        for found in made:
            if not isinstance(found, _PartError):
                child, environment = found
                self._add(node, child)
                children.append(child)
                if child.ending is None:
                    self._live[child] = environment
                else:
                    self.let_go(environment)
        for found in made:
            if isinstance(found, _PartError):
                raise found
        self._judge([child for child in children if child.ending is None])
        return children

    def take(self, node: Node) -> Environment:
        """An environment at a node, for whoever goes on from there and closes it.

        The others that were left from :meth:`grow` are closed: where somebody wants to go on from
        their nodes, they are made again.
        """
        environment = self._live.pop(node, None)
        self._drop()
        return self._places.at(node) if environment is None else environment

    def act(self, node: Node, environment: Environment, answer: Generation, lessons: int) -> Node:
        """Carry out one action in the environment of a node, which is at the new node then."""
        child = self._carry_out(node, environment, answer, lessons)
        self._add(node, child)
        return child

    def close(self) -> None:
        """Close what is open."""
        self._drop()
        self._places.close()

    def let_go(self, environment: Environment) -> None:
        """Close an environment; a search that went well is not lost if that fails."""
        self._places.let_go(environment)

    @property
    def close_error(self) -> str | None:
        """What the first environment that could not be closed says."""
        return self._places.close_error

    def _drop(self) -> None:
        for environment in self._live.values():
            self.let_go(environment)
        self._live.clear()

    @staticmethod
    def _add(node: Node, child: Node) -> None:
        child.number = len(node.children)
        node.children.append(child)

    def _branch(
        self, node: Node, answer: Generation, lessons: int
    ) -> tuple[Node, Environment] | _PartError:
        try:
            environment = self._places.at(node)
        except _PartError as error:
            return error
        try:
            return self._carry_out(node, environment, answer, lessons), environment
        except _PartError as error:
            self.let_go(environment)
            return error

    def _side_by_side(self, work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
        if min(len(items), self._options.concurrency) <= 1:
            return [work(item) for item in items]
        with ThreadPoolExecutor(self._options.concurrency) as pool:
            return list(pool.map(work, items))

    def _judge(self, nodes: list[Node]) -> None:
        """Let the critic say what it thinks of new places."""
        critic = self._options.critic
        if critic is None:
            return

        def value(node: Node) -> float:
            with _naming("critic"):
                return float(critic(self._task, node.place.messages))

        for node, found in zip(nodes, self._side_by_side(value, nodes), strict=True):
            node.critic = found

    def _carry_out(
        self, node: Node, environment: Environment, answer: Generation, lessons: int
    ) -> Node:
        response, place, clock = answer.response, node.place, time.monotonic()
        with _naming("policy.act"):
            step = _agent_step(
                response, self._model, place.state, answer.started_at, answer.latency_s
            )
        taken = Taken(
            action=response.action,
            step=replace(step, state_key=place.state_key),
            cost_usd=response.usage.cost_usd,
            lessons=lessons,
        )
        child = Node(place=place, parent=node, taken=taken)
        try:
            with _naming("environment.step"):
                transition = environment.step(response.action)
                seen, tools = transition.observation, tuple(environment.tools)
        except _PartError as error:
            reason = "environment.step failed"
            child.ending = Ending(status="error", reason=reason, error=str(error))
            return child
        known = json_text_or_none({**response.metadata, **transition.info})
        child.taken = replace(
            taken,
            transition=transition,
            seconds=answer.latency_s + time.monotonic() - clock,
            step=replace(
                taken.step,
                observations=_observations(seen),
                reward=transition.reward,
                metadata=known,
            ),
        )
        child.place = Place(
            messages=(*place.messages, *_messages(response, seen)),
            tools=tools,
            state=seen.state,
            state_key=seen.state_key,
        )
        if transition.terminated or transition.truncated:
            status: Status = "terminated" if transition.terminated else "truncated"
            child.ending = _judged(environment, Ending(status=status, reason="environment"))
        elif child.depth >= self._options.depth:
            child.ending = _judged(environment, Ending(status="truncated", reason="step limit"))
        else:
            self._places.keep(child, environment)
        return child


def _judged(environment: Environment, ending: Ending) -> Ending:
    """The ending with the word of the environment's evaluator."""
    try:
        with _naming("environment.outcome"):
            return replace(ending, outcome=environment.outcome())
    except _PartError as error:
        return Ending(status="error", reason="environment.outcome failed", error=str(error))
