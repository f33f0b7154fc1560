"""A run of OpenHands V0 as a trajectory: from its events alone or from a line of an output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from trajstore.importers import swe_bench
from trajstore.importers.building import moment, number, whole
from trajstore.importers.openhands_events import Stream, flatten, is_event
from trajstore.importers.openhands_sdk_events import Conversation, is_sdk_event
from trajstore.importers.openhands_sdk_runs import from_conversation, sampling_of
from trajstore.schema import (
    Label,
    Status,
    Step,
    Trajectory,
    digest,
    json_text_or_none,
    trajectory_id,
)

AGENT = "openhands"
"""Name of the scaffold; its agent class stands in the metadata."""

_LIMIT = re.compile(r"\bmaximum\b|max[ _-]?iteration|max[ _-]?budget|time[d ]? ?out", re.IGNORECASE)
_STATES: Mapping[str, Status] = {
    "finished": "terminated",
    "rejected": "terminated",
    "stopped": "terminated",
    "error": "error",
    "rate_limited": "error",
    "loading": "running",
    "running": "running",
}
"""Agent state -> how the run ended; the states that wait for somebody say nothing of it."""

_PER_CALL = frozenset({"token_usages", "response_latencies"})


def is_output(value: Any) -> bool:
    """Whether a value is a line of an evaluation output or of a resolver output."""
    if not isinstance(value, dict) or not isinstance(value.get("history", 0), list | None):
        return False
    named = {"instance_id", "test_result"} <= value.keys() or (
        isinstance(value.get("issue"), dict) and "git_patch" in value
    )
    first = (value["history"] or [None])[0]
    entry = first[0] if isinstance(first, list) and first else first
    return named and (entry is None or is_event(entry) or is_sdk_event(entry))


def from_events(history: Iterable[Any], session: Mapping[str, Any], where: str) -> Trajectory:
    """A run of which only the events are known.

    Args:
        history: the events in order.
        session: metadata of a stored session, or nothing.
        where: its ``source_uri``.

    Raises:
        ValueError: an entry is no event, or there is none at all.
    """
    events = list(flatten(history))
    if not events:
        message = "the list of events is empty"
        raise ValueError(message)
    stream = Stream().read(events)
    about = {**_of_stream(stream), "session": session or None}
    return replace(
        _from_stream(stream, events, {}),
        task_id=f"openhands/{digest(stream.goal)[:16]}",
        source_uri=where,
        metadata=json_text_or_none({k: v for k, v in about.items() if v is not None}),
    )


def from_output(record: Mapping[str, Any], where: str) -> Trajectory:
    """A run from one line of an evaluation or resolver output.

    Args:
        record: the line; its history holds V0 events, pairs of them, or SDK events.
        where: its ``source_uri``.

    Raises:
        ValueError: an entry of the history is no event.
    """
    history = record["history"] or []
    metrics = record.get("metrics") or {}
    if history and is_sdk_event(history[0]):
        run, about = from_conversation(Conversation().read(history), metrics), {}
    else:
        events = list(flatten(history))
        stream = Stream().read(events)
        run, about = _from_stream(stream, events, record), _of_stream(stream)
    if not run.steps and record.get("instruction"):
        run = replace(run, steps=(Step(actor="user", text=record["instruction"]),))
    setup = record.get("metadata") or {}
    config = setup.get("llm_config") or setup.get("llm") or {}
    error = record.get("error") or None
    total = metrics.get("accumulated_token_usage") or {}
    cost = number(metrics.get("accumulated_cost"))
    return replace(
        run,
        source="openhands",
        task_id=_task_id(record),
        attempt=whole(record.get("attempt")),
        goal=swe_bench.issue_of(run.goal or record.get("instruction")),
        environment=_environment(record, setup),
        model=config.get("model") or run.model,
        status=_status_with(run, error),
        error=error,
        success=_success(record),
        prompt_tokens=_count(total.get("prompt_tokens"), run.prompt_tokens),
        completion_tokens=_count(total.get("completion_tokens"), run.completion_tokens),
        cached_tokens=_count(total.get("cache_read_tokens"), run.cached_tokens),
        cost_usd=run.cost_usd if cost is None else cost,
        steps=_with_sampling(run.steps, sampling_of(config)),
        source_uri=where,
        metadata=json_text_or_none({**_of_record(record, run.goal), **about}),
    )


def verdict(record: Mapping[str, Any], trajectory_id: str) -> Label | None:
    """The benchmark's verdict in a line as a label, or None where the line has none.

    The evaluation writes the lines once more with its report, so the same run is met first without
    and then with its outcome.
    """
    resolved = _success(record)
    if resolved is None or "issue" in record:
        return None
    return Label(
        trajectory_id=trajectory_id,
        evaluator=swe_bench.EVALUATOR,
        success=resolved,
        value=float(resolved),
    )


def _from_stream(
    stream: Stream, events: list[dict[str, Any]], record: Mapping[str, Any]
) -> Trajectory:
    latencies = {
        one["response_id"]: float(one["latency"])
        for one in (record.get("metrics") or {}).get("response_latencies") or ()
    }
    usage = (stream.usage or {}).get("accumulated_token_usage") or {}
    took = (
        (stream.ended_at - stream.started_at).total_seconds()
        if stream.started_at and stream.ended_at
        else None
    )
    finished = stream.last_action in {"finish", "reject"}
    return Trajectory(
        trajectory_id=_identity(stream, events, record),
        task_id="",
        source="openhands",
        steps=stream.steps(latencies),
        goal=stream.goal,
        agent=AGENT,
        model=stream.model,
        status="terminated" if finished else _STATES.get(stream.state or ""),
        termination_reason=stream.last_action if finished else stream.state,
        tools=json_text_or_none(stream.tools),
        prompt_tokens=whole(usage.get("prompt_tokens")),
        completion_tokens=whole(usage.get("completion_tokens")),
        cached_tokens=whole(usage.get("cache_read_tokens")),
        cost_usd=number((stream.usage or {}).get("accumulated_cost")),
        duration_s=took,
        started_at=stream.started_at,
        ended_at=stream.ended_at,
    )


def _identity(stream: Stream, events: list[dict[str, Any]], record: Mapping[str, Any]) -> str:
    """The time and text of the first user message, else everything that there is."""
    first = stream.first_user or {}
    began = moment(first.get("timestamp"))
    if began is not None:
        return trajectory_id("openhands", digest("events", began, stream.goal), began)
    setup = record.get("metadata") or {}
    where = [setup.get(k) for k in ("eval_output_dir", "start_time")]
    named = record.get("instance_id", record.get("issue"))
    return trajectory_id("openhands", digest("history", named, where, events))


def _of_stream(stream: Stream) -> dict[str, Any]:
    facts = {"agent_class": stream.agent_class, "openhands_version": stream.version}
    return {k: v for k, v in facts.items() if v is not None}


def _of_record(record: Mapping[str, Any], goal: str | None) -> dict[str, Any]:
    """What of the line has no column; the per-call lists stand on the steps."""
    about = {
        k: v
        for k, v in record.items()
        if k not in {"history", "error", "attempt", "instruction"} and v is not None
    }
    if record.get("instruction") != goal:
        about["instruction"] = record.get("instruction")
    if isinstance(record.get("metrics"), dict):
        about["metrics"] = {k: v for k, v in record["metrics"].items() if k not in _PER_CALL}
    return about


def _task_id(record: Mapping[str, Any]) -> str:
    if "instance_id" in record:
        return swe_bench.task_id(str(record["instance_id"]), "openhands")
    issue = record["issue"]
    return f"github/{issue.get('owner')}/{issue.get('repo')}/{issue.get('number')}"


def _environment(record: Mapping[str, Any], setup: Mapping[str, Any]) -> str | None:
    if "issue" in record:
        return "github"
    return swe_bench.benchmark_of(str(record["instance_id"])) or setup.get("dataset")


def _success(record: Mapping[str, Any]) -> bool | None:
    """The evaluator's word: the benchmark's report, or the resolver's own judge."""
    result = record.get("test_result")
    report = (result or {}).get("report") or record.get("report")
    verdict = report.get("resolved") if isinstance(report, dict) else None
    if verdict is None and "issue" in record:
        verdict = record.get("success")
    return verdict if isinstance(verdict, bool) else None


def _status_with(run: Trajectory, error: str | None) -> Status | None:
    if error is None or run.status == "terminated":
        return run.status
    return "truncated" if _LIMIT.search(error) else "error"


def _count(total: Any, otherwise: int | None) -> int | None:
    found = whole(total)
    return otherwise if found is None else found


def _with_sampling(steps: tuple[Step, ...], sampling: str | None) -> tuple[Step, ...]:
    return tuple(
        replace(s, sampling=sampling) if s.actor == "agent" and s.sampling is None else s
        for s in steps
    )
