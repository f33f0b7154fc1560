"""An environment of the package ``verifiers`` (0.1), acted in by a policy of ours."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any

from trajstore._optional import require
from trajstore.errors import MissingDependencyError
from trajstore.rollouts.environment import Action, Observed, Outcome, Task, Tool, Transition
from trajstore.schema import Observation, canonical_json

_CUT = ("max_turns_reached", "timeout_reached", "prompt_too_long")
_NATIVE = ("to_native_tool", "to_native_prompt", "get_native_response", "from_native_response")
_UNUSED = (*_NATIVE, "setup_client", "raise_from_native_response", "close")


def verifiers_tasks(environment: Any, count: int = -1, *, name: str) -> list[Task]:
    """The rows of a verifiers environment's dataset as tasks.

    Args:
        environment: what ``verifiers.load_environment`` gives.
        count: how many rows; all where -1.
        name: name of the environment; ids start with it.
    """
    rows = [dict(row) for row in environment.get_dataset(n=count)]
    return [
        Task(
            task_id=f"{name}/{row.get('example_id', number)}",
            goal=_text([m for m in _prompt(row) if _part(m, "role") != "system"]),
            answer=canonical_json(row),
        )
        for number, row in enumerate(rows)
    ]


class VerifiersEnvironment:
    """Lets our policies act in an environment of verifiers, whose rubric gives the reward.

    The environment's own ``rollout`` runs on a thread and asks a client for the next message, as it
    would ask a model; that client is the policy. So its stop conditions, tools, state and rubric
    are at work unchanged. Made and tested for the ``Environment`` of verifiers 0.1.14; later
    versions that run agents as programs have no such method.
    """

    version = "1"

    def __init__(
        self,
        environment: Any,
        *,
        name: str,
        success: Callable[[float], bool] | None = None,
    ) -> None:
        """Take an environment; nothing runs yet.

        Args:
            environment: what ``verifiers.load_environment`` gives. Attempts may share it.
            name: name for grouping.
            success: whether a reward is a success; at least the environment's ``pass_threshold``
                where None.

        Raises:
            MissingDependencyError: the environment has no ``rollout`` that takes a client.
        """
        if not hasattr(environment, "rollout") or not hasattr(environment, "rubric"):
            message = (
                f"{type(environment).__name__} has no rollout and rubric as environments of "
                "verifiers 0.1 have. Install it with: pip install 'verifiers<0.2'"
            )
            raise MissingDependencyError(message)
        self.name = name
        self.system_prompt: str | None = getattr(environment, "system_prompt", None)
        self._inner = environment
        self._success = success or (lambda reward: reward >= environment.pass_threshold)
        self._run: _Run | None = None
        self._ended: Mapping[str, Any] | None = None

    @property
    def tools(self) -> Sequence[Tool]:
        """Those of the environment, in OpenAI's function form."""
        names = ("name", "description", "parameters")
        return [
            {"type": "function", "function": {n: _part(tool, n) for n in names}}
            for tool in self._inner.tool_defs or ()
        ]

    def reset(self, task: Task) -> Observed:
        """Begin a row of the dataset; see :func:`verifiers_tasks`.

        Raises:
            ValueError: the task has no row.
        """
        self.close()
        try:
            row = json.loads(task.answer or "")
        except ValueError as error:
            message = f"task '{task.task_id}' has no row of a dataset; see verifiers_tasks"
            raise ValueError(message) from error
        self._ended, self._run = None, _Run(self._inner, row)
        asked = self._run.next()
        if asked is None:
            self._ended = self._run.state()
            return Observed(text=task.goal)
        system = [m for m in asked if _part(m, "role") == "system"]
        self.system_prompt = _text(system) if system else self.system_prompt
        return Observed(text=_text([m for m in asked if _part(m, "role") != "system"]))

    def step(self, action: Action) -> Transition:
        """Say the action to the environment and wait for what it asks next, or for the end."""
        assert self._run is not None
        if self._ended is None:
            self._run.say(action)
            asked = self._run.next()
            if asked is not None:
                return Transition(observation=_observed(asked))
            self._ended = self._run.state()
        state = self._ended
        last = _observed(state.get("final_env_response") or ())
        cut = bool(state.get("is_truncated")) or state.get("stop_condition") in _CUT
        info = {"stop_condition": state.get("stop_condition")}
        reward = float(state.get("reward") or 0.0)
        return Transition(
            observation=last, reward=reward, terminated=not cut, truncated=cut, info=info
        )

    def outcome(self) -> Outcome:
        """The rubric's word; nothing is known of an attempt that was cut off from outside."""
        if self._ended is None or self._ended.get("reward") is None:
            return Outcome()
        reward = float(self._ended["reward"])
        metrics = self._ended.get("metrics") or {}
        return Outcome(
            success=bool(self._success(reward)),
            reward=reward,
            rewards={str(k): float(v) for k, v in metrics.items()},
        )

    def close(self) -> None:
        """Stop what still runs; the environment itself may be shared and stays as it is."""
        if self._run is not None:
            self._run.stop()
            self._run = None


class _Run:
    """One rollout of verifiers on a thread, in turns with the caller."""

    def __init__(self, environment: Any, row: Mapping[str, Any]) -> None:
        self._types = require("verifiers.types", extra="verifiers", purpose="VerifiersEnvironment")
        self._asked: SimpleQueue[list[Any] | None] = SimpleQueue()
        self._state: Mapping[str, Any] | None = None
        self._error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._said: asyncio.Queue[Action] = asyncio.Queue()
        self._task = self._loop.create_task(self._roll(environment, row))
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def next(self) -> list[Any] | None:
        """The messages that want an answer, or None at the end."""
        return self._asked.get()

    def say(self, action: Action) -> None:
        """Answer them."""
        self._loop.call_soon_threadsafe(self._said.put_nowait, action)

    def state(self) -> Mapping[str, Any]:
        """The state at the end; an error of the environment is raised here."""
        if self._error is not None:
            raise self._error
        assert self._state is not None
        error = self._state.get("error")
        if error is not None:
            raise error
        return self._state

    def stop(self) -> None:
        """End it, wherever it is."""
        if self._thread.is_alive() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(timeout=5)

    def _work(self) -> None:
        try:
            self._state = self._loop.run_until_complete(self._task)
        except BaseException as error:  # noqa: BLE001 - raised by the caller's next step
            self._error = error
        finally:
            self._loop.close()
            self._asked.put(None)

    async def _roll(self, environment: Any, row: Mapping[str, Any]) -> Mapping[str, Any]:
        base = require("verifiers", extra="verifiers", purpose="VerifiersEnvironment").Client
        methods: dict[str, Any] = dict.fromkeys(_UNUSED, _unused)
        methods["get_response"] = self._answer
        client = type("PolicyClient", (base,), methods)
        state = await environment.rollout(dict(row), client(None), "policy", {})
        await environment.rubric.score_rollout(state)
        found: Mapping[str, Any] = state
        return found

    async def _answer(self, *, prompt: list[Any], **_: Any) -> Any:
        """What the environment gets instead of a model's response."""
        self._asked.put(list(prompt))
        action = await self._said.get()
        calls = [
            self._types.ToolCall(id=c.call_id, name=c.name, arguments=c.arguments_raw or "{}")
            for c in action.tool_calls
        ]
        message = self._types.ResponseMessage(
            role="assistant",
            content=action.text,
            reasoning_content=action.reasoning,
            tool_calls=calls or None,
            finish_reason="tool_calls" if calls else "stop",
            is_truncated=False,
        )
        return self._types.Response(
            id="policy", created=int(time.time()), model="policy", message=message
        )


async def _unused(*_: Any, **__: Any) -> None:
    """A method that a client must have, and that is not called."""


def _prompt(row: Mapping[str, Any]) -> list[Any]:
    given = row.get("prompt") or row.get("question") or ""
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


def _part(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _text(messages: Sequence[Any]) -> str:
    return "\n\n".join(_content(message) for message in messages)


def _content(message: Any) -> str:
    content = _part(message, "content")
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(_part(p, "text") or "") for p in content if _part(p, "type") == "text")


def _observed(messages: Sequence[Any]) -> Observed:
    """What came after the last word of the agent."""
    roles = [_part(m, "role") for m in messages]
    start = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
    new = messages[start:]
    results = tuple(
        Observation(call_id=_part(m, "tool_call_id"), text=_content(m), is_error=None)
        for m in new
        if _part(m, "role") == "tool"
    )
    said = [m for m in new if _part(m, "role") != "tool"]
    return Observed(text=_text(said) if said else None, results=results)
