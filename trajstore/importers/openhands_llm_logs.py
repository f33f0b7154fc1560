"""Completion logs of the OpenHands SDK: one file a model call, each with the whole talk so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trajstore.importers.building import Draft, StepBuilder, moment, number, openai_steps, text_of
from trajstore.importers.openhands_sdk_runs import FAMILY, sampling_of
from trajstore.importers.response_items import response_steps, usage_fields
from trajstore.schema import Step, Trajectory, digest, json_text_or_none, trajectory_id


def is_completion_log(value: Any) -> bool:
    """Whether a value is the log of one model call, answered or failed."""
    if not isinstance(value, dict) or not {"timestamp", "cost"} <= value.keys():
        return False
    asked = isinstance(value.get("messages"), list) or isinstance(value.get("input"), list)
    answered = isinstance(value.get("response"), dict) or isinstance(value.get("error"), dict)
    return asked and answered


@dataclass(slots=True)
class _Call:
    """What one log adds to the step of its answer."""

    answer: str
    values: dict[str, Any]
    cost: float | None
    when: datetime | None


@dataclass(slots=True)
class _Run:
    """The longest talk of a run that has been seen, and its calls by place among agent steps."""

    drafts: list[Draft]
    log: dict[str, Any]
    where: str
    calls: dict[int, _Call] = field(default_factory=dict)


@dataclass(slots=True)
class CompletionLogs:
    """Runs put together from the logs of their calls.

    The last log of a run holds all earlier messages, so the longest one gives the steps and the
    others only tokens, cost and time of theirs. A log names no run: what tells runs apart is all
    up to the first answer, with the ids of its tool calls. A condensed history loses that answer
    and comes as a run of its own.
    """

    _runs: dict[str, _Run] = field(default_factory=dict)

    def add(self, log: Mapping[str, Any], where: str) -> None:
        """Take in one log.

        Args:
            log: the parsed file.
            where: its place, the ``source_uri`` should it be the longest of its run.

        Raises:
            ValueError: the log has no messages at all.
        """
        drafts = _drafts(log)
        if not drafts:
            message = "the log of a model call has no messages"
            raise ValueError(message)
        run = self._runs.setdefault(_key(drafts), _Run(drafts, dict(log), where))
        if _size(drafts) > _size(run.drafts):
            run.drafts, run.log, run.where = drafts, dict(log), where
        agents = [d for d in drafts if d.actor == "agent"]
        if isinstance(log.get("response"), dict) and agents:
            run.calls[len(agents) - 1] = _call(log, agents[-1])

    def trajectories(self) -> Iterator[Trajectory]:
        """One trajectory a run, in the order in which the runs were first seen."""
        for key, run in self._runs.items():
            yield _trajectory(key, run)


def _drafts(log: Mapping[str, Any]) -> list[Draft]:
    """The talk up to and including the answer of this log."""
    builder = StepBuilder()
    response = log.get("response") or {}
    if isinstance(log.get("input"), list):
        if log.get("instructions"):
            builder.add("system", log["instructions"])
        response_steps([*log["input"], *(response.get("output") or ())], builder)
    else:
        choices = response.get("choices") or ()
        answer = [choices[0]["message"]] if choices else []
        openai_steps([*log["messages"], *answer], builder)
    return builder.drafts


def _size(drafts: Iterable[Draft]) -> int:
    return sum(1 + len(draft.observations) for draft in drafts)


def _answer(draft: Draft) -> str:
    calls = [(c.call_id, c.name, c.arguments or c.arguments_raw) for c in draft.calls]
    return digest((draft.text or "").strip(), calls)


def _key(drafts: Iterable[Draft]) -> str:
    seen = []
    for draft in drafts:
        seen.append((draft.actor, _answer(draft)))
        if draft.actor == "agent":
            break
    return digest("completions", seen)


def _call(log: Mapping[str, Any], draft: Draft) -> _Call:
    response = log["response"]
    kwargs = log.get("kwargs") or {}
    values = {
        "model": response.get("model"),
        **usage_fields(response.get("usage")),
        "latency_s": number(log.get("latency_sec")),
        "timestamp": moment(log.get("timestamp")),
        "sampling": sampling_of(kwargs),
    }
    kept = {k: v for k, v in values.items() if v is not None}
    return _Call(_answer(draft), kept, number(log.get("cost")), moment(log.get("timestamp")))


def _trajectory(key: str, run: _Run) -> Trajectory:
    agents = [d for d in run.drafts if d.actor == "agent"]
    own = [c for i, c in run.calls.items() if i < len(agents) and c.answer == _answer(agents[i])]
    for place, call in run.calls.items():
        if place < len(agents) and call in own:
            agents[place].values.update(call.values)
    goal = next((d.text for d in run.drafts if d.actor == "user"), None)
    times = sorted(c.when for c in own if c.when is not None)
    costs = [c.cost for c in own if c.cost is not None]
    failed = run.log.get("error") if "response" not in run.log else None
    finished = any(c.name == "finish" for c in agents[-1].calls) if agents else False
    given = run.log.get("kwargs")
    kwargs = given if isinstance(given, dict) else {}
    about = {
        "kwargs": {k: v for k, v in kwargs.items() if k != "tools"} or None,
        "context_window": run.log.get("context_window"),
        "logged_calls": len(own),
    }
    return Trajectory(
        trajectory_id=trajectory_id(FAMILY, key),
        task_id=f"{FAMILY}/{digest(goal)[:16]}",
        source="openhands-sdk",
        steps=_steps(run.drafts),
        goal=goal,
        agent="openhands",
        model=next((c.values["model"] for c in own if "model" in c.values), None),
        status="terminated" if finished else "error" if failed else None,
        error=text_of(failed.get("message")) if isinstance(failed, dict) else None,
        termination_reason="finish" if finished else None,
        tools=json_text_or_none(run.log.get("tools") or kwargs.get("tools")),
        cost_usd=sum(costs) if costs else None,
        started_at=times[0] if times else None,
        ended_at=times[-1] if times else None,
        source_uri=run.where,
        metadata=json_text_or_none({k: v for k, v in about.items() if v is not None}),
    )


def _steps(drafts: Iterable[Draft]) -> tuple[Step, ...]:
    return tuple(draft.build() for draft in drafts)
