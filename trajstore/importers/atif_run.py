"""A trajectory from the segments of one ATIF run, and the id of that run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trajstore.importers import harbor
from trajstore.importers.adp import adp_identity
from trajstore.importers.atif_files import Segment, references
from trajstore.importers.atif_steps import add_steps
from trajstore.importers.building import Draft, StepBuilder, moment, number, rest, text_of
from trajstore.importers.plain import count, words
from trajstore.schema import Trajectory, digest, json_text_or_none, trajectory_id

_TASK = re.compile(r"Task Description:\n(.*?)\n+Current terminal state:", re.DOTALL)
_ROOT_TAKEN = frozenset({"steps", "subagent_trajectories"})
_AGENT_TAKEN = frozenset({"name", "model_name", "tool_definitions"})

Trial = tuple[Mapping[str, Any], str | None]
"""A trial result and the name of the step of it that a run is (None: the trial has no steps)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The trajectory that handed work to a sub-agent."""

    trajectory_id: str
    """Its id."""
    task_id: str
    """Its task; the sub-agent's own is named below it."""
    step: int | None
    """Index of the step that handed over, where the reference is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A built trajectory and where its steps came from."""

    trajectory: Trajectory
    """The trajectory."""
    indices: tuple[Mapping[int, int], ...]
    """For each segment: position in its ``steps`` -> index in the trajectory."""


def identify(document: Mapping[str, Any], parent_id: str | None = None) -> str:
    """Id of the run whose first document this is (see :class:`AtifImporter`).

    Args:
        document: the document.
        parent_id: id of the trajectory that it is embedded in, if it is.
    """
    agent, own = document.get("agent") or {}, document.get("trajectory_id")
    if agent.get("name") == "adp" and own:
        return adp_identity(str(own))
    key = digest(
        parent_id,
        document.get("session_id"),
        own,
        agent.get("name"),
        (_goal(document) or "").strip(),
        _first_call(document),
    )
    return trajectory_id("atif", key, _time(document["steps"][0]))


def _first_call(document: Mapping[str, Any]) -> list[Any] | None:
    for step in document["steps"]:
        if step.get("source") == "agent" and not step.get("is_copied_context"):
            calls = [
                [c.get("function_name"), c.get("arguments")] for c in step.get("tool_calls") or ()
            ]
            when = _time(step)
            return [when.timestamp() if when else None, step.get("message"), calls]
    return None


def _time(step: Mapping[str, Any]) -> datetime | None:
    return moment(step.get("timestamp"))


def _goal(document: Mapping[str, Any]) -> str | None:
    """The first user message that is not copied context; of Terminus prompts the task only."""
    asked = [s for s in document["steps"] if s.get("source") == "user"]
    fresh = [s for s in asked if not s.get("is_copied_context")] or asked
    text = text_of(fresh[0].get("message")) if fresh else None
    task = _TASK.search(text or "")
    return task[1] if task else text


def task_of(document: Mapping[str, Any], parent: Parent | None, trial: Trial | None) -> str:
    """Group key: the trial's task, a place below the parent's task, or a hash of the goal."""
    if parent is not None:
        return f"{parent.task_id}/{(document.get('agent') or {}).get('name') or 'sub-agent'}"
    if trial is not None:
        return harbor.task_id(*trial)
    return f"atif/{digest((_goal(document) or '').strip())[:16]}"


def build(
    segments: Sequence[Segment],
    where: str,
    *,
    parent: Parent | None = None,
    embedded: bool = False,
    trial: Trial | None = None,
) -> Run:
    """The trajectory of a run.

    Args:
        segments: its documents in order.
        where: ``source_uri``.
        parent: the trajectory that handed over to it, for a sub-agent.
        embedded: it lies inside the parent's document.
        trial: Harbor's result of it.
    """
    builder = StepBuilder()
    drafts = [add_steps(s.document, builder) for s in segments]
    place = {id(draft): index for index, draft in enumerate(builder.drafts)}
    first, agent = segments[0].document, segments[0].document.get("agent") or {}
    told = {} if trial is None else harbor.run_fields(*trial)
    times = [d.values["timestamp"] for d in builder.drafts if "timestamp" in d.values]
    trajectory = Trajectory(
        trajectory_id=identify(first, parent.trajectory_id if parent and embedded else None),
        task_id=task_of(first, parent, trial),
        goal=_goal(first),
        source="atif",
        source_uri=where,
        agent=words(agent.get("name")),
        model=words(agent.get("model_name")) or _model(builder.drafts),
        parent_id=parent.trajectory_id if parent else None,
        parent_step=parent.step if parent else None,
        relation="sub-agent" if parent else None,
        tools=json_text_or_none(agent.get("tool_definitions")),
        steps=builder.steps(),
        started_at=times[0] if times else None,
        ended_at=max(times, default=None),
        metadata=_metadata(segments, told.pop("trial", None)),
        **_totals(segments),
        **{k: v for k, v in told.items() if k != "task_id"},
    )
    indices = tuple({at: place[id(d)] for at, d in found.items()} for found in drafts)
    return Run(trajectory=trajectory, indices=indices)


def _model(drafts: Sequence[Draft]) -> str | None:
    return next((d.values["model"] for d in drafts if d.values.get("model")), None)


def _totals(segments: Sequence[Segment]) -> dict[str, Any]:
    """Cost of the run's own steps, and token totals where no step has any.

    The totals of ``final_metrics`` include sub-agents, so they serve only where there are none.
    """
    own = [m for s in segments for m in _own_metrics(s.document)]
    costs = [c for c in (number(m.get("cost_usd")) for m in own) if c is not None]
    final = segments[-1].document.get("final_metrics")
    delegated = any(
        s.document.get("subagent_trajectories") or any(references(s.document)) for s in segments
    )
    totals = final if isinstance(final, Mapping) and not delegated else {}
    fields: dict[str, Any] = {
        "cost_usd": sum(costs) if costs else number(totals.get("total_cost_usd"))
    }
    if not any(count(m.get("prompt_tokens")) is not None for m in own):
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            fields[name] = count(totals.get(f"total_{name}"))
    return fields


def _own_metrics(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    steps = (s for s in document["steps"] if not s.get("is_copied_context"))
    metrics = (s.get("metrics") for s in steps)
    return [m for m in metrics if isinstance(m, Mapping)]


def _metadata(segments: Sequence[Segment], trial: Any) -> str | None:
    heads = [_root(s.document) for s in segments]
    told = {**heads[0], "continuations": heads[1:] or None, "harbor": trial}
    return rest(told, ())


def _root(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a document says of itself beside its steps."""
    kept = {k: v for k, v in document.items() if k not in _ROOT_TAKEN and v is not None}
    agent = document.get("agent") or {}
    kept["agent"] = {k: v for k, v in agent.items() if k not in _AGENT_TAKEN and v is not None}
    return kept
