"""Any run as a valid ATIF 1.7 document that the ATIF importer reads back as the same run."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

from trajstore.exports.atif_steps import OWN, UNKNOWN, Record, no_step, plain, step_record
from trajstore.exports.tools import tool_definitions
from trajstore.schema import Trajectory, json_text

VERSION = "ATIF-v1.7"
"""The version that is written."""

_FIELD_NAMES = tuple(f.name for f in fields(Trajectory) if f.name != "steps")
_TOTALS = {
    "prompt_tokens": "total_prompt_tokens",
    "completion_tokens": "total_completion_tokens",
    "cached_tokens": "total_cached_tokens",
    "cost_usd": "total_cost_usd",
}


def to_atif(trajectory: Trajectory) -> dict[str, Any]:
    """The ATIF document of a run, of JSON values only.

    It obeys the rules of Harbor's validator for version 1.7. Every column that ATIF has no field
    for (or whose value its rules forbid) stands under ``extra`` in the key ``trajstore``: of the
    document, the step, the call or the result. A run without steps gets one empty system step that
    is marked as absent.

    >>> from trajstore.testing import sample_trajectory
    >>> document = to_atif(sample_trajectory())
    >>> document["schema_version"], len(document["steps"])
    ('ATIF-v1.7', 10)
    """
    document: dict[str, Any] = json.loads(atif_text(trajectory))
    return document


def atif_text(trajectory: Trajectory) -> str:
    """The ATIF document of a run as one line of JSON."""
    return json_text(_document(trajectory))


def _document(trajectory: Trajectory) -> Record:
    steps = [step_record(step, number) for number, step in enumerate(trajectory.steps, 1)]
    told = _told(trajectory.metadata)
    agent, own = _agent(trajectory, told)
    totals = _totals(trajectory)
    taken = {"trajectory_id", *(n for n, total in _TOTALS.items() if total in totals)}
    taken |= {n for n in ("agent", "model", "tools") if n not in own}
    left = ((n, getattr(trajectory, n)) for n in _FIELD_NAMES if n not in taken)
    kept = {n: plain(v) for n, v in left if v is not None and v not in ((), {})}
    session = told.get("session_id")
    return {
        "schema_version": VERSION,
        **({"session_id": session} if isinstance(session, str) else {}),
        "trajectory_id": trajectory.trajectory_id,
        "agent": agent,
        "steps": steps or [no_step()],
        "final_metrics": totals,
        "extra": {OWN: {**kept, **own}},
    }


def _told(metadata: str | None) -> Record:
    """What the source said of the run, where that is an object."""
    try:
        value = json.loads(metadata or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _agent(trajectory: Trajectory, told: Record) -> tuple[Record, Record]:
    """ATIF's agent, and the columns that it does not tell exactly."""
    about = told.get("agent")
    version = about.get("version") if isinstance(about, dict) else None
    agent: Record = {
        "name": UNKNOWN if trajectory.agent is None else trajectory.agent,
        "version": version if isinstance(version, str) else UNKNOWN,
    }
    own: Record = {"agent": None} if trajectory.agent is None else {}
    if trajectory.model is not None:
        agent["model_name"] = trajectory.model
    tools = tool_definitions(trajectory.tools)
    if tools is not None:
        agent["tool_definitions"] = json.loads(tools)
    if trajectory.tools is not None and tools != trajectory.tools:
        own["tools"] = trajectory.tools
    return agent, own


def _totals(trajectory: Trajectory) -> Record:
    found = {total: getattr(trajectory, name) for name, total in _TOTALS.items()}
    said = {k: v for k, v in found.items() if v is not None and math.isfinite(v)}
    return {**said, "total_steps": len(trajectory.steps)}
