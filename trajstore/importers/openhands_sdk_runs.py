"""A conversation of the OpenHands SDK as a trajectory: identity, counts and outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trajstore.importers.building import number, whole
from trajstore.importers.openhands_sdk_events import Conversation, finished_steps
from trajstore.schema import Status, Trajectory, digest, json_text_or_none, trajectory_id

FAMILY = "openhands-sdk"
"""Family of the ids: conversation folders, event streams and completion logs."""

_STATUSES: Mapping[str, Status] = {
    "finished": "terminated",
    "error": "error",
    "stuck": "truncated",
    "running": "running",
    "paused": "running",
    "waiting_for_confirmation": "running",
}
"""Execution status -> how the run ended; an idle conversation has not begun or waits."""

_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "max_output_tokens",
    "max_completion_tokens",
    "max_tokens",
    "reasoning_effort",
)
_PER_CALL = frozenset({"costs", "response_latencies", "token_usages"})


def sampling_of(config: Mapping[str, Any]) -> str | None:
    """JSON text of the sampling settings in the configuration of a model or of one call."""
    return json_text_or_none({k: config[k] for k in _SAMPLING if config.get(k) is not None})


def from_conversation(
    conversation: Conversation, metrics: Mapping[str, Any] | None = None
) -> Trajectory:
    """The run as a trajectory, without its place.

    The conversation is known by its own id, where the base state or an event that repeats the full
    state tells it, else by the id of the first event that belongs to the talk.

    Args:
        conversation: what was read.
        metrics: counts of the run where the state has none, in the form of one entry of
            ``stats.usage_to_metrics``.

    Raises:
        ValueError: no event is part of the talk.
    """
    state = conversation.state
    key = str(state["id"]).replace("-", "") if state.get("id") else conversation.first_id
    if conversation.first_id is None or key is None:
        message = "no event of the conversation says anything"
        raise ValueError(message)
    metered = _metered(state) or ([metrics] if metrics else [])
    _count(conversation, metered)
    llm = (state.get("agent") or {}).get("llm") or {}
    goal, status = conversation.goal, state.get("execution_status")
    return Trajectory(
        trajectory_id=trajectory_id(FAMILY, key),
        task_id=f"{FAMILY}/{digest(goal)[:16] if goal else key}",
        source="openhands-sdk",
        steps=finished_steps(conversation, sampling_of(llm)),
        goal=goal,
        agent="openhands",
        model=llm.get("model") or _model(metered),
        status=_status(conversation, status),
        error=conversation.error,
        termination_reason=conversation.reason or status,
        tools=json_text_or_none(conversation.tools),
        prompt_tokens=_total(metered, "prompt_tokens"),
        completion_tokens=_total(metered, "completion_tokens"),
        cached_tokens=_total(metered, "cache_read_tokens"),
        cost_usd=_cost(metered),
        duration_s=_seconds(conversation),
        started_at=conversation.started_at,
        ended_at=conversation.ended_at,
        metadata=json_text_or_none(_about(state)),
    )


def _metered(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    metrics = (state.get("stats") or {}).get("usage_to_metrics") or {}
    return [m for m in metrics.values() if isinstance(m, dict)]


def _count(conversation: Conversation, metered: Iterable[Mapping[str, Any]]) -> None:
    """Put usage and latency of each model call on its step, found by the response id."""
    usages = {response: dict(usage) for response, usage in conversation.logged.items()}
    for metrics in metered:
        for name in ("token_usages", "response_latencies"):
            for one in metrics.get(name) or ():
                usages.setdefault(one.get("response_id", ""), {}).update(one)
    for response, draft in conversation.responses.items():
        usage = usages.get(response, {})
        counted = {
            "model": usage.get("model"),
            "prompt_tokens": whole(usage.get("prompt_tokens")),
            "completion_tokens": whole(usage.get("completion_tokens")),
            "cached_tokens": whole(usage.get("cache_read_tokens")),
            "latency_s": number(usage.get("latency")),
        }
        draft.values.update({k: v for k, v in counted.items() if v is not None})


def _status(conversation: Conversation, status: Any) -> Status | None:
    if conversation.reason is not None and "iteration" in conversation.reason.lower():
        return "truncated"
    return _STATUSES.get(str(status), "error" if conversation.error else None)


def _about(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state without the lists of single calls, which stand on the steps."""
    about = {k: v for k, v in state.items() if k not in {"stats", "execution_status"}}
    metrics = (state.get("stats") or {}).get("usage_to_metrics") or {}
    usage = {
        name: {k: v for k, v in m.items() if k not in _PER_CALL}
        for name, m in metrics.items()
        if isinstance(m, dict)
    }
    return {**about, "usage": usage} if usage else about


def _seconds(conversation: Conversation) -> float | None:
    if conversation.started_at is None or conversation.ended_at is None:
        return None
    return (conversation.ended_at - conversation.started_at).total_seconds()


def _total(metered: Iterable[Mapping[str, Any]], name: str) -> int | None:
    counts = [whole((m.get("accumulated_token_usage") or {}).get(name)) for m in metered]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _cost(metered: Iterable[Mapping[str, Any]]) -> float | None:
    costs = [number(m.get("accumulated_cost")) for m in metered]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def _model(metered: Iterable[Mapping[str, Any]]) -> str | None:
    return next((m["model_name"] for m in metered if m.get("model_name")), None)
