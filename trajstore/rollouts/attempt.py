"""One attempt: a policy and an environment in turns, recorded as a trajectory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Event
from typing import Any

from trajstore.errors import ContextFullError
from trajstore.rollouts.environment import Environment, Observed, Outcome, Task, Transition
from trajstore.rollouts.policy import Message, Policy, Response
from trajstore.schema import (
    Observation,
    Status,
    Step,
    ToolCall,
    Trajectory,
    canonical_json,
    digest,
    finish,
    json_text,
    json_text_or_none,
    now,
    trajectory_id,
)

EnvironmentFactory = Callable[[], Environment]
"""Makes a fresh environment for one attempt."""


_LONGEST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far rollouts may go."""

    max_steps: int = 20
    """Agent steps of one attempt; then it is truncated."""
    timeout_s: float | None = 300.0
    """Seconds of one attempt; then it is truncated. None waits for ever."""
    concurrency: int = 8
    """Attempts under way at one time."""
    retries: int = 0
    """How often an attempt that failed for technical reasons starts again."""
    backoff_s: float = 1.0
    """Seconds before the first retry; doubled each time, 60 at most, and up to a quarter less, by
    the attempt's seed, so that attempts that failed together do not come back together."""

    def pause_s(self, retry: int, seed: int) -> float:
        """Seconds before a retry.

        Args:
            retry: its number, from 1.
            seed: of the attempt.
        """
        jitter = 1.0 - (seed % 1024) / 4096
        return min(self.backoff_s * 2.0 ** min(retry - 1, 30), _LONGEST_PAUSE_S) * jitter


class _PartError(Exception):
    """The policy or the environment raised; the message says which and what."""


@contextmanager
def _naming(part: str) -> Iterator[None]:
    """Tell whose fault an exception is; code of others may raise anything.

    A full context is nobody's fault: the attempt ends there and the environment judges it.
    """
    try:
        yield
    except ContextFullError:
        raise
    except (Exception, SystemExit) as error:
        raise _PartError(f"{part}: {type(error).__name__}: {error}") from error


@dataclass(slots=True, kw_only=True)
class _Record:
    """What is known so far of one run from reset to end; a retry starts a new one."""

    started_at: datetime
    clock: float
    steps: list[Step] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    tools: str | None = None
    costs: list[float] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    state: Mapping[str, Any] | None = None
    state_key: str | None = None
    status: Status = "running"
    reason: str | None = None
    error: str | None = None
    close_error: str | None = None
    context: str | None = None
    outcome: Outcome = field(default_factory=Outcome)
    seconds: float | None = None

    def end(self, status: Status, reason: str, error: str | None = None) -> None:
        """Say how the run ended and stop the clock."""
        self.status, self.reason, self.error = status, reason, error
        self.seconds = time.monotonic() - self.clock


class Attempt:
    """One attempt at a task by one policy. :meth:`run` is called once, on any thread."""

    def __init__(
        self,
        make_environment: EnvironmentFactory,
        policy: Policy,
        task: Task,
        *,
        names: tuple[str, str],
        number: int,
        seed: int,
        limits: Limits,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            make_environment: makes the environment of this attempt.
            policy: who acts.
            task: at what.
            names: name and version of the environment.
            number: trial number inside the task and policy, from 0.
            seed: seed of the whole set of rollouts.
            limits: steps, seconds and retries.
        """
        self._make = make_environment
        self._policy = policy
        self._task = task
        self._names = names
        self._number = number
        self._run_seed = seed
        self._limits = limits
        self._version = policy.version
        identity = (*names, task.task_id, policy.agent, policy.model, self._version, seed, number)
        self.trajectory_id = trajectory_id("rollout", canonical_json(identity))
        """Id of the trajectory that this attempt becomes."""
        self._seed = int(digest("rollout", *identity)[:8], 16) & 0x7FFFFFFF
        self._retries = 0
        self._record = _Record(started_at=now(), clock=time.monotonic())

    def run(self, cancelled: Event) -> Trajectory:
        """Go to the end of the attempt, with retries; never raises for a failing part.

        Args:
            cancelled: once set, the attempt stops before its next step.
        """
        first = self._record.clock = time.monotonic()
        self._record.started_at = now()
        self._once(cancelled, first)
        while self._may_retry(cancelled, first):
            self._retries += 1
            self._record = _Record(started_at=now(), clock=time.monotonic())
            self._once(cancelled, first)
        return self.trajectory()

    def _may_retry(self, cancelled: Event, first: float) -> bool:
        """Whether it failed and may start again; waits before it does."""
        limits = self._limits
        if self._record.status != "error" or self._retries >= limits.retries:
            return False
        pause_s = limits.pause_s(self._retries + 1, self._seed)
        if limits.timeout_s is not None and time.monotonic() + pause_s - first >= limits.timeout_s:
            return False
        return not cancelled.wait(pause_s)

    def cut_off(self) -> Trajectory:
        """The attempt as far as it came, truncated by the clock; it may still be running.

        The evaluator is not asked, as the environment is busy, so the outcome is unknown.
        """
        record = replace(
            self._record,
            steps=list(self._record.steps),
            versions=set(self._record.versions),
            outcome=Outcome(),
        )
        record.end("truncated", "timeout")
        return self._trajectory(record)

    def trajectory(self) -> Trajectory:
        """The attempt as it was recorded."""
        return self._trajectory(self._record)

    def _once(self, cancelled: Event, first: float) -> None:
        record = self._record
        try:
            with _naming("environment could not be made"):
                environment = self._make()
        except _PartError as error:
            record.end("error", "environment could not be made", str(error))
            return
        try:
            self._reset(record, environment)
            self._loop(record, environment, cancelled, first)
            with _naming("environment.outcome"):
                record.outcome = environment.outcome()
        except _PartError as error:
            record.end("error", str(error).partition(":")[0] + " failed", str(error))
        finally:
            self._close(record, environment)

    @staticmethod
    def _close(record: _Record, environment: Environment) -> None:
        """Close the environment; a run that went well is not lost if that fails."""
        try:
            with _naming("environment.close"):
                environment.close()
        except _PartError as error:
            record.close_error = str(error)

    def _reset(self, record: _Record, environment: Environment) -> None:
        with _naming("environment.reset"):
            record.tools = json_text_or_none(list(environment.tools))
            observed = environment.reset(self._task)
            system = environment.system_prompt
        if system is not None:
            record.messages.append({"role": "system", "content": system})
            record.steps.append(Step(actor="system", text=system))
        text = observed.text if observed.text is not None else self._task.goal
        record.messages.append({"role": "user", "content": text})
        record.steps.append(Step(actor="user", text=text, timestamp=now()))
        record.state, record.state_key = observed.state, observed.state_key

    def _loop(
        self, record: _Record, environment: Environment, cancelled: Event, first: float
    ) -> None:
        timeout_s = self._limits.timeout_s
        for _ in range(self._limits.max_steps):
            if cancelled.is_set():
                record.end("truncated", "cancelled")
                return
            if timeout_s is not None and time.monotonic() - first >= timeout_s:
                record.end("truncated", "timeout")
                return
            try:
                transition = self._step(record, environment)
            except ContextFullError as full:
                record.end("truncated", "context full")
                record.context = str(full)
                return
            if transition.terminated or transition.truncated:
                status: Status = "terminated" if transition.terminated else "truncated"
                record.end(status, "environment")
                return
        record.end("truncated", "step limit")

    def _step(self, record: _Record, environment: Environment) -> Transition:
        """One action and what it brought; the action is kept also if the environment fails."""
        started_at, clock = now(), time.monotonic()
        with _naming("policy.act"):
            response = self._policy.act(
                tuple(record.messages), tuple(environment.tools), seed=self._seed
            )
            latency_s = time.monotonic() - clock
            step = _agent_step(response, self._policy.model, record.state, started_at, latency_s)
            step = replace(step, state_key=record.state_key)
        record.steps.append(step)
        if (sampled_by := response.metadata.get("policy_version")) is not None:
            record.versions.add(str(sampled_by))
        if response.usage.cost_usd is not None:
            record.costs.append(response.usage.cost_usd)
        with _naming("environment.step"):
            transition = environment.step(response.action)
            observed = transition.observation
            record.steps[-1] = replace(
                step,
                observations=_observations(observed),
                reward=transition.reward,
                metadata=json_text_or_none({**response.metadata, **transition.info}),
            )
        record.messages += _messages(response, observed)
        record.state, record.state_key = observed.state, observed.state_key
        return transition

    def _trajectory(self, record: _Record) -> Trajectory:
        seconds = record.seconds or 0.0
        task = self._task
        metadata: dict[str, Any] = {"seed": self._run_seed, "attempt_seed": self._seed}
        if self._retries:
            metadata["retries"] = self._retries
        if record.versions - {self._version}:
            metadata["policy_versions"] = sorted(record.versions)
        if record.close_error is not None:
            metadata["close_error"] = record.close_error
        if record.context is not None:
            metadata["context"] = record.context
        if task.metadata:
            metadata["task"] = dict(task.metadata)
        return finish(
            Trajectory(
                trajectory_id=self.trajectory_id,
                task_id=task.task_id,
                attempt=self._number,
                goal=task.goal,
                source="rollout",
                environment=self._names[0],
                environment_version=self._names[1],
                agent=self._policy.agent,
                model=self._policy.model,
                policy_version=self._version,
                steps=tuple(record.steps),
                status=record.status,
                termination_reason=record.reason,
                error=record.error,
                success=record.outcome.success,
                reward=record.outcome.reward,
                rewards=dict(record.outcome.rewards),
                tools=record.tools,
                cost_usd=sum(record.costs) if record.costs else None,
                duration_s=seconds,
                started_at=record.started_at,
                ended_at=record.started_at + timedelta(seconds=seconds),
                metadata=json_text(metadata),
            )
        )


def _agent_step(
    response: Response,
    model: str | None,
    state: Mapping[str, Any] | None,
    started_at: datetime,
    latency_s: float,
) -> Step:
    action, usage = response.action, response.usage
    return Step(
        actor="agent",
        text=action.text,
        reasoning=action.reasoning,
        tool_calls=action.tool_calls,
        state=None if state is None else json_text(state),
        format_error=response.format_error or not all(map(_is_object, action.tool_calls)),
        model=response.model or model,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        latency_s=latency_s,
        timestamp=started_at,
        prompt_token_ids=response.prompt_token_ids,
        completion_token_ids=response.completion_token_ids,
        logprobs=response.logprobs,
        sampling=None if response.sampling is None else json_text(response.sampling),
        metadata=json_text_or_none(dict(response.metadata)),
    )


def _is_object(call: ToolCall) -> bool:
    """Whether the arguments are a JSON object, or none were given."""
    if call.arguments is None:
        return call.arguments_raw is None
    return isinstance(json.loads(call.arguments), dict)


def _observations(observed: Observed) -> tuple[Observation, ...]:
    """The results, and the remark beside them as a result without a call."""
    if observed.text is None:
        return observed.results
    return (*observed.results, Observation(text=observed.text))


def _messages(response: Response, observed: Observed) -> list[Message]:
    """The turn as chat messages, for the next call of the policy, with its tokens if known."""
    action = response.action
    said: dict[str, Any] = {"role": "assistant", "content": action.text}
    if action.reasoning is not None:
        said["reasoning_content"] = action.reasoning
    if action.tool_calls:
        said["tool_calls"] = [_call_message(call) for call in action.tool_calls]
    if response.prompt_token_ids and response.completion_token_ids:
        said["prompt_token_ids"] = response.prompt_token_ids
        said["completion_token_ids"] = response.completion_token_ids
    results: list[Message] = [
        {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        for result in observed.results
    ]
    remark = [] if observed.text is None else [{"role": "user", "content": observed.text}]
    return [said, *results, *remark]


def _call_message(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments_raw or "{}"}
    return {"id": call.call_id, "type": "function", "function": function}
