"""A last look at a trajectory made from foreign data: every value has its column's type."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from trajstore.schema import Step, Trajectory

_RUN_TEXTS = (
    "trajectory_id",
    "task_id",
    "goal",
    "environment",
    "environment_version",
    "agent",
    "model",
    "policy_version",
    "parent_id",
    "error",
    "termination_reason",
    "tools",
    "metadata",
)
_STEP_TEXTS = ("text", "reasoning", "content", "state", "model", "sampling", "metadata")
_CALL_TEXTS = ("name", "arguments", "arguments_raw", "call_id")
_RESULT_TEXTS = ("text", "call_id", "content")
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_TIMES = ("started_at", "ended_at")
_IDS = ("prompt_token_ids", "completion_token_ids")


def sound(trajectory: Trajectory) -> Trajectory:
    """The same trajectory, once all its values are known to fit their columns.

    A source may hold a number where a text belongs, or half a list of token ids. Found here, it
    costs one record; found when a batch is written, it would cost the batch.

    Raises:
        TypeError: a value does not fit; the message names step and field.
    """
    _texts(trajectory, _RUN_TEXTS, "")
    _counts(trajectory, ("attempt", "parent_step", *_COUNTS), "")
    for name in ("reward", "cost_usd", "duration_s"):
        _demand(_is_number(getattr(trajectory, name)), "", name, trajectory)
    for name in _TIMES:
        value = getattr(trajectory, name)
        _demand(value is None or isinstance(value, datetime), "", name, trajectory)
    _demand(all(isinstance(t, str) for t in trajectory.tags), "", "tags", trajectory)
    for index, step in enumerate(trajectory.steps):
        _check_step(step, f"step {index}: ")
    return trajectory


def _check_step(step: Step, place: str) -> None:
    _texts(step, _STEP_TEXTS, place)
    _counts(step, _COUNTS, place)
    for name in ("reward", "latency_s"):
        _demand(_is_number(getattr(step, name)), place, name, step)
    for call in step.tool_calls:
        _texts(call, _CALL_TEXTS, f"{place}tool call: ")
    for result in step.observations:
        _texts(result, _RESULT_TEXTS, f"{place}observation: ")
    for name in _IDS:
        ids = getattr(step, name)
        fits = ids is None or all(type(t) is int and 0 <= t < 2**31 for t in ids)
        _demand(fits, place, name, step)
    logprobs = step.logprobs
    fits = logprobs is None or all(isinstance(p, int | float) for p in logprobs)
    _demand(fits, place, "logprobs", step)


def _texts(value: Any, names: Iterable[str], place: str) -> None:
    for name in names:
        found = getattr(value, name)
        if found is not None and not isinstance(found, str):
            raise TypeError(f"{place}{name} is {found!r:.60} and no text")


def _counts(value: Any, names: Iterable[str], place: str) -> None:
    for name in names:
        found = getattr(value, name)
        if found is not None and not (type(found) is int and -(2**31) <= found < 2**63):
            raise TypeError(f"{place}{name} is {found!r:.60} and no count")


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def _demand(fits: bool, place: str, name: str, value: Any) -> None:  # noqa: FBT001
    if not fits:
        raise TypeError(f"{place}{name} is {getattr(value, name)!r:.60}, which does not fit")
