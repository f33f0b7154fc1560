"""One Arrow schema per table of record, built from :mod:`.columns`."""

from __future__ import annotations

import pyarrow as pa

from trajstore.schema.columns import TABLES


def _schema(table: str) -> pa.Schema:
    return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in TABLES[table]])


TRAJECTORY_SCHEMA = _schema("trajectories")
"""Schema of ``trajectories``: one row an attempt."""

STEP_SCHEMA = _schema("steps")
"""Schema of ``steps``: one row a step."""

LABEL_SCHEMA = _schema("labels")
"""Schema of ``labels``: one row an evaluator's word."""

SKILL_SCHEMA = _schema("skills")
"""Schema of ``skills``: one row a version of a skill."""

REFLECTION_SCHEMA = _schema("reflections")
"""Schema of ``reflections``: one row a reflection."""

WORKFLOW_SCHEMA = _schema("workflows")
"""Schema of ``workflows``: one row a workflow."""

SCHEMAS: dict[str, pa.Schema] = {
    "trajectories": TRAJECTORY_SCHEMA,
    "steps": STEP_SCHEMA,
    "labels": LABEL_SCHEMA,
    "skills": SKILL_SCHEMA,
    "reflections": REFLECTION_SCHEMA,
    "workflows": WORKFLOW_SCHEMA,
}
"""All schemas by table name."""
