"""Put an environment back to a node of a search tree: by a copy, or by doing it all again."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from trajstore.rollouts.attempt import EnvironmentFactory, _naming, _PartError
from trajstore.rollouts.environment import Environment, Observed, Task, Transition
from trajstore.rollouts.tree import Node
from trajstore.schema import Observation, mask_volatile


@runtime_checkable
class ForkingEnvironment(Environment, Protocol):
    """An environment that can be copied as it stands; a search then replays nothing."""

    def fork(self) -> ForkingEnvironment:
        """Return another environment in the same state, that no action in this one reaches."""


class ReplayError(_PartError):
    """An environment did not do again what it had done before."""


class Places:
    """The environments of one tree: a fresh one at the start, others at the nodes asked for."""

    def __init__(self, make: EnvironmentFactory, task: Task) -> None:
        """Make nothing yet.

        Args:
            make: makes a fresh environment.
            task: the task of the tree.
        """
        self._make = make
        self._task = task
        self._start: Observed | None = None
        self._kept: dict[Node, ForkingEnvironment] = {}
        self.close_error: str | None = None
        """What the first environment that could not be closed says."""

    def start(self) -> tuple[Environment, Observed]:
        """An environment at the start of the task, and what was seen there.

        Raises:
            ReplayError: another time something else was seen.
        """
        with _naming("environment could not be made"):
            environment = self._make()
        try:
            with _naming("environment.reset"):
                observed = environment.reset(self._task)
            self._start = self._start or observed
            self._compare(environment, "reset", self._start, observed)
        except BaseException:
            self.let_go(environment)
            raise
        return environment, observed

    def keep(self, node: Node, environment: Environment) -> None:
        """Keep a copy of the environment at a node, where it can be copied."""
        if isinstance(environment, ForkingEnvironment):
            with _naming("environment.fork"):
                self._kept[node] = environment.fork()

    def at(self, node: Node) -> Environment:
        """An environment in the state of a node; who asks closes it.

        Raises:
            ReplayError: the actions that led there bring something else this time.
        """
        kept = self._kept.get(node)
        if kept is not None:
            with _naming("environment.fork"):
                return kept.fork()
        environment, _ = self.start()
        try:
            for number, passed in enumerate(node.line()[1:], start=1):
                self._repeat(environment, passed, number)
        except BaseException:
            self.let_go(environment)
            raise
        return environment

    def let_go(self, environment: Environment) -> None:
        """Close an environment; if that fails, keep what it says."""
        try:
            with _naming("environment.close"):
                environment.close()
        except _PartError as error:
            self.close_error = self.close_error or str(error)

    def close(self) -> None:
        """Close the copies."""
        for environment in self._kept.values():
            self.let_go(environment)
        self._kept.clear()

    def _repeat(self, environment: Environment, node: Node, number: int) -> None:
        taken = node.taken
        assert taken is not None
        assert taken.transition is not None
        with _naming("environment.step"):
            again = environment.step(taken.action)
        self._compare(environment, f"action {number}", taken.transition, again)

    def _compare(
        self,
        environment: Environment,
        what: str,
        before: Observed | Transition,
        again: Observed | Transition,
    ) -> None:
        first, second = _brought(before), _brought(again)
        if first != second:
            message = (
                f"{environment.name} is not deterministic, so its states cannot be restored by "
                f"doing the actions again: {what} of task {self._task.task_id} brought "
                f"{_shown(first)} before and {_shown(second)} now. Give the environment a method "
                "fork() that returns a copy of it, or let only the task decide what it does."
            )
            raise ReplayError(message)


def _seen(observed: Observed) -> tuple[object, ...]:
    """What has to be equal; times, addresses and temporary paths may differ."""
    return (_masked(observed.text), *map(_result, observed.results), observed.state_key)


def _result(result: Observation) -> tuple[object, ...]:
    return (_masked(result.text), result.call_id, result.is_error, _masked(result.content))


def _masked(text: str | None) -> str | None:
    return None if text is None else mask_volatile(text)


def _brought(what: Observed | Transition) -> tuple[object, ...]:
    if isinstance(what, Observed):
        return _seen(what)
    return (*_seen(what.observation), what.reward, what.terminated, what.truncated)


def _shown(seen: tuple[object, ...]) -> str:
    text = repr(seen)
    return text if len(text) <= 200 else f"{text[:197]}..."
