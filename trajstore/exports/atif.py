"""Any run as a valid ATIF 1.7 document that the ATIF importer reads back as the same run."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from trajstore.errors import ExportError
from trajstore.exports.atif_steps import OWN, UNKNOWN, Record, no_step, plain, step_record
from trajstore.exports.tools import tool_definitions
from trajstore.schema import Trajectory, digest, json_text

VERSION = "ATIF-v1.7"
"""The version that is written."""

_FIELD_NAMES = tuple(f.name for f in fields(Trajectory) if f.name != "steps")
_TOTALS = {
    "prompt_tokens": "total_prompt_tokens",
    "completion_tokens": "total_completion_tokens",
    "cached_tokens": "total_cached_tokens",
    "cost_usd": "total_cost_usd",
}
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,150}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtifReport:
    """What :func:`export_atif` wrote."""

    folder: Path
    """Where the files lie."""
    runs: int
    """Files written, one a run."""
    size_bytes: int
    """Bytes of all of them."""


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
    document: dict[str, Any] = json.loads(json_text(_document(trajectory)))
    return document


def export_atif(trajectories: Iterable[Trajectory], folder: Path | str) -> AtifReport:
    """Write ``ID.trajectory.json`` for each run; a file of the same name is replaced.

    Each file appears complete or not at all. An id that cannot be a file name is replaced by its
    hash in the name, never in the file. Memory holds one run.

    Raises:
        ExportError: ``folder`` is a file, or two runs have the same id.
    """
    out = Path(folder)
    if out.exists() and not out.is_dir():
        raise ExportError(f"{out} is a file; an export goes into a folder", path=out)
    out.mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    size = 0
    for trajectory in trajectories:
        name = _file_name(trajectory.trajectory_id)
        if name in names:
            which = trajectory.trajectory_id
            raise ExportError(f"two runs have the id {which!r}; export one of them", path=out)
        names.add(name)
        size += _write(out / name, json_text(_document(trajectory)) + "\n")
    return AtifReport(folder=out, runs=len(names), size_bytes=size)


def _file_name(trajectory_id: str) -> str:
    stem = trajectory_id if _SAFE.fullmatch(trajectory_id) else digest(trajectory_id)
    return f"{stem}.trajectory.json"


def _write(path: Path, text: str) -> int:
    content = text.encode("utf-8")
    staged = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        staged.write_bytes(content)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
    return len(content)


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
