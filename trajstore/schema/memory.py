"""Skill, Reflection, Workflow: what is learnt from trajectories and kept beside them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One version of a named, reusable procedure (Voyager, Wang et al. 2023).

    Columns: :data:`trajstore.schema.columns.SKILLS`. ``skill_id`` is ``name@hash(code)``.
    """

    name: str
    code: str
    language: str
    source: str
    description: str | None = None
    signature: str | None = None
    docstring: str | None = None
    dependencies: tuple[str, ...] = ()
    verified_at: datetime | None = None
    environment: str | None = None
    environment_version: str | None = None
    uses: int = 0
    successes: int = 0
    source_uri: str | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """What an agent wrote about a failed attempt (Reflexion, Shinn et al. 2023).

    Columns: :data:`trajstore.schema.columns.REFLECTIONS`.
    """

    task_id: str
    text: str
    source: str
    trial: int | None = None
    trajectory_id: str | None = None
    environment: str | None = None
    model: str | None = None
    source_uri: str | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A routine induced from successes (Agent Workflow Memory, Wang et al. 2024).

    Columns: :data:`trajstore.schema.columns.WORKFLOWS`. ``steps`` is JSON text.
    """

    name: str
    steps: str
    source: str
    description: str | None = None
    trajectory_ids: tuple[str, ...] = ()
    environment: str | None = None
    metadata: str | None = None
