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

INSIGHT_SCHEMA = _schema("insights")
"""Schema of ``insights``: one row a version of an insight."""

USE_SCHEMA = _schema("uses")
"""Schema of ``uses``: one row an item of memory that a run was given."""

SCHEMAS: dict[str, pa.Schema] = {
    "trajectories": TRAJECTORY_SCHEMA,
    "steps": STEP_SCHEMA,
    "labels": LABEL_SCHEMA,
    "skills": SKILL_SCHEMA,
    "reflections": REFLECTION_SCHEMA,
    "workflows": WORKFLOW_SCHEMA,
    "insights": INSIGHT_SCHEMA,
    "uses": USE_SCHEMA,
}
"""All schemas by table name."""
