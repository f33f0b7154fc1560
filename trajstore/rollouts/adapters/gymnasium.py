"""A Gymnasium environment whose observations and actions can be put into words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trajstore.rollouts.environment import (
    Action,
    Observed,
    Outcome,
    Task,
    Tool,
    Transition,
    function_tool,
)
from trajstore.rollouts.environments.tool_calls import (
    BadCallError,
    call_arguments,
    text_argument,
)
from trajstore.schema import Observation, ToolCall

_SUCCESS = ("is_success", "success", "won")
_LISTED = ("admissible_commands", "available_actions", "action_list")
_REMARK = "No action was taken. Call act with one."


class GymnasiumEnvironment:
    """Lets an agent act in a Gymnasium environment, through one tool or in plain text.

    Any object with Gymnasium's ``reset(seed=, options=)``, ``step(action)`` and ``close()`` will
    do; Gymnasium itself is not imported. The seed and the options of a reset are those in the
    task's metadata. An action that is not among those that are known is answered as an error and
    does not reach the environment. The reward of an attempt is the sum of its rewards.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        name: str,
        version: str = "1",
        system_prompt: str | None = None,
        actions: Sequence[str] | None = None,
        describe: Callable[[Any, Mapping[str, Any]], str] | None = None,
        success: Callable[[float, Mapping[str, Any]], bool | None] | None = None,
        plain_text: bool = False,
    ) -> None:
        """Make the environment; nothing is reset yet.

        Args:
            make: makes one, such as ``partial(gymnasium.make, "FrozenLake-v1")``.
            name: name for grouping.
            version: changes whenever the same action could bring another result.
            system_prompt: what the agent is told before the task.
            actions: names of the actions of a discrete space, from its first on. Where None, the
                action is a whole number in such a space and the text itself in any other.
            describe: an observation and its info in words; ``str(observation)`` where None.
            success: whether an attempt succeeded, from its return and its last info; where None,
                what the info says under ``is_success``, ``success`` or ``won``, if anything.
            plain_text: the action is what the agent says, and there is no tool.
        """
        self.name = name
        self.version = version
        self.system_prompt = system_prompt
        self._inner = make()
        self._names = None if actions is None else list(actions)
        self._describe = describe or (lambda observation, _: str(observation))
        self._success = success or _told
        self._plain = plain_text
        self._info: Mapping[str, Any] = {}
        self._return: float | None = None
        self._over = False

    @property
    def tools(self) -> Sequence[Tool]:
        """``act``, or nothing in plain text."""
        if self._plain:
            return ()
        known = self._known()
        words = "What to do." if known is None else f"One of: {', '.join(known)}."
        argument = {"type": "string", "description": words}
        return (function_tool("act", "Take an action.", {"action": argument}),)

    def reset(self, task: Task) -> Observed:
        """Begin an episode; the goal stands before the first observation."""
        given = task.metadata
        observation, self._info = self._inner.reset(
            seed=given.get("seed"), options=given.get("options")
        )
        self._return, self._over = 0.0, False
        words = self._describe(observation, self._info)
        return Observed(text=f"{task.goal}\n\n{words}", state=self._state())

    def step(self, action: Action) -> Transition:
        """Take the actions in order, until the episode ends."""
        if self._plain:
            return self._take_text((action.text or "").strip())
        if not action.tool_calls:
            return Transition(observation=Observed(text=_REMARK, state=self._state()))
        total, ended, cut = 0.0, False, False
        results: list[Observation] = []
        for call in action.tool_calls:
            try:
                words, reward, ended, cut = self._take(self._wanted(call))
            except BadCallError as error:
                text = f"error: {error}"
                results.append(Observation(call_id=call.call_id, text=text, is_error=True))
                continue
            total += reward
            results.append(Observation(call_id=call.call_id, text=words, is_error=False))
        return Transition(
            observation=Observed(results=tuple(results), state=self._state()),
            reward=total,
            terminated=ended,
            truncated=cut,
        )

    def outcome(self) -> Outcome:
        """The return so far, and success where it is known."""
        if self._return is None:
            return Outcome()
        return Outcome(success=self._success(self._return, self._info), reward=self._return)

    def close(self) -> None:
        """Close the environment."""
        self._inner.close()

    def _take_text(self, said: str) -> Transition:
        try:
            words, reward, ended, cut = self._take(said)
        except BadCallError as error:
            observed = Observed(text=f"error: {error}", state=self._state())
            return Transition(observation=observed)
        observed = Observed(text=words, state=self._state())
        return Transition(observation=observed, reward=reward, terminated=ended, truncated=cut)

    def _take(self, said: str) -> tuple[str, float, bool, bool]:
        if self._over:
            raise BadCallError("the episode has ended")
        observation, reward, ended, cut, self._info = self._inner.step(self._action(said))
        self._over = bool(ended or cut)
        self._return = (self._return or 0.0) + float(reward)
        words = self._describe(observation, self._info)
        return words, float(reward), bool(ended), bool(cut)

    def _wanted(self, call: ToolCall) -> str:
        return text_argument(call_arguments(call, self.tools), "action").strip()

    def _action(self, said: str) -> Any:
        """The action as the environment takes it."""
        known = self._known()
        if known is not None and said not in known:
            raise BadCallError(f"there is no action '{said}'; those there are: {', '.join(known)}")
        if self._names is not None:
            return self._first() + self._names.index(said)
        if not self._discrete():
            return said
        try:
            return int(said)
        except ValueError as error:
            raise BadCallError(f"the action '{said}' is no whole number") from error

    def _known(self) -> list[str] | None:
        """The actions that can be taken now, where they are known."""
        if self._names is not None:
            return self._names
        if self._discrete():
            first = self._first()
            return [str(n) for n in range(first, first + int(self._inner.action_space.n))]
        for key in _LISTED:
            if isinstance(listed := self._info.get(key), list | tuple):
                return [str(action) for action in listed]
        return None

    def _discrete(self) -> bool:
        return hasattr(getattr(self._inner, "action_space", None), "n")

    def _first(self) -> int:
        return int(getattr(self._inner.action_space, "start", 0))

    def _state(self) -> dict[str, Any] | None:
        known = self._known()
        return None if known is None else {"actions": known}


def _told(total: float, info: Mapping[str, Any]) -> bool | None:
    del total
    return next((bool(info[key]) for key in _SUCCESS if key in info), None)
