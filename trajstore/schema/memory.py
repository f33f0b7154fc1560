"""Skill, Reflection, Workflow, Insight, Use: what is learnt from runs, and who was given it."""

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
    trajectory_ids: tuple[str, ...] = ()
    verified_at: datetime | None = None
    environment: str | None = None
    environment_version: str | None = None
    uses: int = 0
    successes: int = 0
    source_uri: str | None = None
    metadata: str | None = None
    state: str | None = None


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
    state: str | None = None


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
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """One version of something learnt from runs, in words.

    Columns: :data:`trajstore.schema.columns.INSIGHTS`. ``insight_id`` is a hash of the first text
    where None, and stays when the text is edited; each edit is a version of its own.
    """

    text: str
    kind: str
    source: str
    level: str = "task"
    insight_id: str | None = None
    version: int = 1
    title: str | None = None
    description: str | None = None
    observation: str | None = None
    task_id: str | None = None
    votes: int = 0
    helpful: int = 0
    harmful: int = 0
    trajectory_ids: tuple[str, ...] = ()
    merged_from: tuple[str, ...] = ()
    environment: str | None = None
    environment_version: str | None = None
    created_at: datetime | None = None
    metadata: str | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One item of memory that a run was given.

    Columns: :data:`trajstore.schema.columns.USES`.
    """

    trajectory_id: str
    kind: str
    item_id: str
    score: float | None = None
    rank: int | None = None
    given_at: datetime | None = None
