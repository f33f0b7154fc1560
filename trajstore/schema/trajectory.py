"""Trajectory and Step: one attempt at one task, and one turn of one actor."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from trajstore.schema.message import Observation, ToolCall

Actor = Literal["system", "user", "agent", "environment"]
Status = Literal["terminated", "truncated", "error", "running"]
Relation = Literal["branch", "sub-agent", "continuation", "retry", "rationalization"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn of one actor. Its index is its place in :attr:`Trajectory.steps`.

    Field meanings and units are those of the columns in :data:`trajstore.schema.columns.STEPS`.
    """

    actor: Actor
    text: str | None = None
    reasoning: str | None = None
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    observations: tuple[Observation, ...] = ()
    reward: float | None = None
    state: str | None = None
    state_key: str | None = None
    is_copied: bool = False
    format_error: bool = False
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    latency_s: float | None = None
    timestamp: datetime | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    sampling: str | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One attempt at one task, with its steps.

    Field meanings and units are those of the columns in
    :data:`trajstore.schema.columns.TRAJECTORIES`. The counts, sums and hashes are filled in by
    :func:`trajstore.schema.summary.finish`; a writer need not set them. A token sum that is set is
    kept (some sources know only the total).
    """

    trajectory_id: str
    task_id: str
    source: str
    steps: tuple[Step, ...] = ()
    attempt: int | None = None
    goal: str | None = None
    source_uri: str | None = None
    source_digest: str | None = None
    environment: str | None = None
    environment_version: str | None = None
    agent: str | None = None
    model: str | None = None
    policy_version: str | None = None
    parent_id: str | None = None
    parent_step: int | None = None
    relation: Relation | None = None
    status: Status | None = None
    error: str | None = None
    termination_reason: str | None = None
    success: bool | None = None
    reward: float | None = None
    rewards: dict[str, float] = field(default_factory=dict)
    tools: str | None = None
    n_steps: int = 0
    n_agent_steps: int = 0
    n_tool_calls: int = 0
    n_tool_errors: int = 0
    n_format_errors: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    duration_s: float | None = None
    size_bytes: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    imported_at: datetime | None = None
    expires_at: datetime | None = None
    tags: tuple[str, ...] = ()
    metadata: str | None = None
