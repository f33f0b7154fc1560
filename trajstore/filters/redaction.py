"""Take the secrets out of a whole trajectory, and whatever would still give them away."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajstore.filters.secrets import find_secrets, redact
from trajstore.schema import Observation, Step, ToolCall, Trajectory, canonical_json, json_text

_BETWEEN = "\n\x00\n"
"""Stands between texts that are searched together, and in no secret."""

_ESCAPED_ASCII = re.compile(r"\\u00[2-7][0-9A-Fa-f]")
"""A JSON escape that may hide part of a secret; other text is searched as it stands."""


def redact_trajectory(trajectory: Trajectory) -> tuple[Trajectory, dict[str, int]]:
    """Replace every secret in a trajectory by its placeholder.

    Looks at goal, error, termination reason, source URI, tools and metadata, and in each step at
    text, reasoning, content, tool calls, observations, state, sampling and metadata. JSON stays
    JSON, and canonical arguments stay the canonical form of the raw ones. Token ids and logprobs
    that spell a secret are dropped: all three of a step whose own output changed, and
    ``prompt_token_ids`` of every step that could see a change.

    Call it before :func:`trajstore.schema.finish`, so that digest and sizes are of what is kept.

    Returns:
        The trajectory (the same object where nothing was found) and how many secrets of each kind
        were replaced, each place counted once.
    """
    if not find_secrets(_BETWEEN.join(_all_texts(trajectory))):
        return trajectory, {}
    work = _Redaction()
    clean = work.trajectory(trajectory)
    return (clean, dict(work.counts)) if work.counts else (trajectory, {})


def _all_texts(trajectory: Trajectory) -> Iterator[str]:
    """Every text that is searched; JSON with escapes also in its decoded form."""
    for text in (
        trajectory.goal,
        trajectory.error,
        trajectory.termination_reason,
        trajectory.source_uri,
    ):
        if text:
            yield text
    yield from _json_texts(trajectory.tools, trajectory.metadata)
    for step in trajectory.steps:
        yield from filter(None, (step.text, step.reasoning))
        yield from _json_texts(step.content, step.state, step.sampling, step.metadata)
        for call in step.tool_calls:
            yield call.name
            yield from _json_texts(call.arguments_raw)
            if call.arguments and call.arguments != call.arguments_raw:
                yield call.arguments
        for observation in step.observations:
            if observation.text:
                yield observation.text
            yield from _json_texts(observation.content)


def _json_texts(*texts: str | None) -> Iterator[str]:
    for text in texts:
        if text:
            yield text
            if _ESCAPED_ASCII.search(text):
                yield from _strings(_parsed(text))


def _parsed(text: str) -> Any:
    """The value of JSON text, or None where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


class _Redaction:
    """Redacts one trajectory part by part and counts what it found."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def text(self, text: str | None) -> str | None:
        """Plain text without its secrets."""
        if not text:
            return text
        clean, found = redact(text)
        self.counts.update(found)
        return clean

    def json(self, text: str | None) -> str | None:
        """JSON text without its secrets; only what held one is written anew."""
        if not text:
            return text
        clean, found = redact(text)
        if clean is text and not _ESCAPED_ASCII.search(text):
            return text
        before, after = _parsed(text), _parsed(clean)
        if before is None:
            self.counts.update(found)
            return clean
        if after is None:  # a block that ran over the end of a string: go value by value
            return json_text(self._value(before))
        self.counts.update(found)
        rest = self._value(after)
        return clean if rest == after else json_text(rest)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(k): self._value(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._value(v) for v in value]
        return value

    def trajectory(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory without its secrets."""
        goal, tools = self.text(trajectory.goal), self.json(trajectory.tools)
        visible = goal != trajectory.goal or tools != trajectory.tools
        steps: list[Step] = []
        for step in trajectory.steps:
            clean = self.step(step)
            steps.append(_without_token_ids(step, clean, seen_before=visible))
            visible = visible or _visible(clean) != _visible(step)
        return replace(
            trajectory,
            goal=goal,
            tools=tools,
            error=self.text(trajectory.error),
            termination_reason=self.text(trajectory.termination_reason),
            source_uri=self.text(trajectory.source_uri),
            metadata=self.json(trajectory.metadata),
            steps=tuple(steps),
        )

    def step(self, step: Step) -> Step:
        """The step without its secrets; token ids are not looked at here."""
        return replace(
            step,
            text=self.text(step.text),
            reasoning=self.text(step.reasoning),
            content=self.json(step.content),
            tool_calls=tuple(self.call(c) for c in step.tool_calls),
            observations=tuple(self.observation(o) for o in step.observations),
            state=self.json(step.state),
            sampling=self.json(step.sampling),
            metadata=self.json(step.metadata),
        )

    def call(self, call: ToolCall) -> ToolCall:
        """The call without its secrets; canonical arguments are made again from the raw ones."""
        raw = self.json(call.arguments_raw)
        return replace(
            call,
            name=self.text(call.name) or "",
            arguments_raw=raw,
            arguments=self._arguments(call, raw),
        )

    def _arguments(self, call: ToolCall, raw: str | None) -> str | None:
        if call.arguments is None:
            return None
        if raw is not None and _canonical(call.arguments_raw) == call.arguments:
            return call.arguments if raw == call.arguments_raw else _canonical(raw)
        own = _Redaction()
        clean = own.json(call.arguments)
        if raw is None or raw == call.arguments_raw:  # else counted with the raw ones
            self.counts.update(own.counts)
        return call.arguments if clean == call.arguments else _canonical(clean)

    def observation(self, observation: Observation) -> Observation:
        """The observation without its secrets."""
        return replace(
            observation,
            text=self.text(observation.text),
            content=self.json(observation.content),
        )


def _canonical(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return canonical_json(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _output(step: Step) -> tuple[object, ...]:
    """What the actor of a step brought forth."""
    return step.text, step.reasoning, step.content, step.tool_calls


def _visible(step: Step) -> tuple[object, ...]:
    """What a later model call may have in its prompt."""
    return (*_output(step), step.observations, step.state)


def _without_token_ids(before: Step, after: Step, *, seen_before: bool) -> Step:
    """Drop the token ids that spell what was redacted.

    Args:
        before: the step as it was.
        after: the step without its secrets.
        seen_before: whether anything that its model call could see was redacted.
    """
    if _output(after) != _output(before):
        return replace(after, prompt_token_ids=None, completion_token_ids=None, logprobs=None)
    if seen_before or after.state != before.state:
        return replace(after, prompt_token_ids=None)
    return after
