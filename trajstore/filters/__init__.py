"""Filters: which trajectories are taken, and what is taken out of them before they are kept."""

from __future__ import annotations

from trajstore.filters.expression import Expression, col
from trajstore.filters.findings import Finding
from trajstore.filters.integrity import (
    DEFAULT_INTEGRITY_RULES,
    INTEGRITY_RULES,
    integrity_findings,
)
from trajstore.filters.redaction import redact_trajectory
from trajstore.filters.secret_formats import KINDS as SECRET_KINDS
from trajstore.filters.secrets import SecretMatch, find_secrets, redact
from trajstore.filters.selection import (
    DROPPED_SCHEMA,
    SUMMARY_COLUMNS,
    SUMMARY_SCHEMA,
    Frame,
    FunnelStage,
    NamedStage,
    Selection,
    Stage,
    StageResult,
    StepSource,
    run_stages,
)
from trajstore.filters.stages import STAGES, stage, stages_from, usage

__all__ = [
    "DEFAULT_INTEGRITY_RULES",
    "DROPPED_SCHEMA",
    "INTEGRITY_RULES",
    "SECRET_KINDS",
    "STAGES",
    "SUMMARY_COLUMNS",
    "SUMMARY_SCHEMA",
    "Expression",
    "Finding",
    "Frame",
    "FunnelStage",
    "NamedStage",
    "SecretMatch",
    "Selection",
    "Stage",
    "StageResult",
    "StepSource",
    "col",
    "find_secrets",
    "integrity_findings",
    "redact",
    "redact_trajectory",
    "run_stages",
    "stage",
    "stages_from",
    "usage",
]
