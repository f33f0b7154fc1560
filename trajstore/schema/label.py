"""Label: one evaluator's word on a trajectory or a step."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

OUTCOME = "outcome"
"""The label name that decides the effective success and reward of a trajectory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One evaluator's word; labels are only ever added.

    Field meanings are those of the columns in :data:`trajstore.schema.columns.LABELS`. The id is a
    hash of everything but ``created_at`` (see :func:`trajstore.schema.ids.label_id`), so saying the
    same twice keeps one row.
    """

    trajectory_id: str
    evaluator: str
    name: str = OUTCOME
    value: float | None = None
    success: bool | None = None
    step_index: int | None = None
    rationale: str | None = None
    evaluator_version: str | None = None
    created_at: datetime | None = None
    """When it was judged; the time of writing where None."""
