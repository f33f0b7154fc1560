"""The vocabulary: values, tables, columns, ids. Imports nothing of trajstore but its errors."""

from __future__ import annotations

from trajstore.schema.columns import ACTORS, RELATIONS, STATUSES, TABLES, Column
from trajstore.schema.convert import (
    build_table,
    concat,
    labels_to_arrow,
    reflections_to_arrow,
    skills_to_arrow,
    steps_to_arrow,
    trajectories_from_arrow,
    trajectories_to_arrow,
    workflows_to_arrow,
)
from trajstore.schema.ids import (
    canonical_action,
    digest,
    label_id,
    mask_volatile,
    reflection_id,
    skill_id,
    trajectory_id,
    workflow_id,
)
from trajstore.schema.jsontext import canonical_json, clean_text, json_text, json_text_or_none
from trajstore.schema.label import OUTCOME, Label
from trajstore.schema.memory import Reflection, Skill, Workflow
from trajstore.schema.message import Observation, ToolCall
from trajstore.schema.migrations import SCHEMA_VERSION, check_version
from trajstore.schema.summary import content_digest, counted, finish, now, texts
from trajstore.schema.tables import (
    LABEL_SCHEMA,
    REFLECTION_SCHEMA,
    SCHEMAS,
    SKILL_SCHEMA,
    STEP_SCHEMA,
    TRAJECTORY_SCHEMA,
    WORKFLOW_SCHEMA,
)
from trajstore.schema.trajectory import Actor, Relation, Status, Step, Trajectory
from trajstore.schema.validate import SchemaProblem, check, validate

__all__ = [
    "ACTORS",
    "LABEL_SCHEMA",
    "OUTCOME",
    "REFLECTION_SCHEMA",
    "RELATIONS",
    "SCHEMAS",
    "SCHEMA_VERSION",
    "SKILL_SCHEMA",
    "STATUSES",
    "STEP_SCHEMA",
    "TABLES",
    "TRAJECTORY_SCHEMA",
    "WORKFLOW_SCHEMA",
    "Actor",
    "Column",
    "Label",
    "Observation",
    "Reflection",
    "Relation",
    "SchemaProblem",
    "Skill",
    "Status",
    "Step",
    "ToolCall",
    "Trajectory",
    "Workflow",
    "build_table",
    "canonical_action",
    "canonical_json",
    "check",
    "check_version",
    "clean_text",
    "concat",
    "content_digest",
    "counted",
    "digest",
    "finish",
    "json_text",
    "json_text_or_none",
    "label_id",
    "labels_to_arrow",
    "mask_volatile",
    "now",
    "reflection_id",
    "reflections_to_arrow",
    "skill_id",
    "skills_to_arrow",
    "steps_to_arrow",
    "texts",
    "trajectories_from_arrow",
    "trajectories_to_arrow",
    "trajectory_id",
    "validate",
    "workflow_id",
    "workflows_to_arrow",
]
