"""Python values to Arrow tables and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import pyarrow as pa

from trajstore.schema.ids import (
    insight_id,
    label_id,
    reflection_id,
    skill_id,
    use_id,
    workflow_id,
)
from trajstore.schema.jsontext import clean_text
from trajstore.schema.label import Label
from trajstore.schema.memory import Insight, Reflection, Skill, Use, Workflow
from trajstore.schema.message import Observation, ToolCall
from trajstore.schema.tables import (
    INSIGHT_SCHEMA,
    LABEL_SCHEMA,
    REFLECTION_SCHEMA,
    SKILL_SCHEMA,
    STEP_SCHEMA,
    TRAJECTORY_SCHEMA,
    USE_SCHEMA,
    WORKFLOW_SCHEMA,
)
from trajstore.schema.trajectory import Step, Trajectory

_CALL_FIELDS = ("call_id", "name", "arguments", "arguments_raw")
_OBSERVATION_FIELDS = ("call_id", "text", "is_error", "content")
_STEP_FIELDS = tuple(f.name for f in fields(Step))
_TRAJECTORY_FIELDS = tuple(f.name for f in fields(Trajectory) if f.name != "steps")


def trajectories_to_arrow(trajectories: Sequence[Trajectory]) -> pa.Table:
    """One row a trajectory in :data:`TRAJECTORY_SCHEMA`, order kept, steps left out."""
    columns = {n: [getattr(t, n) for t in trajectories] for n in _TRAJECTORY_FIELDS}
    columns["rewards"] = [list(t.rewards.items()) for t in trajectories]
    columns["tags"] = [list(t.tags) for t in trajectories]
    return build_table(columns, TRAJECTORY_SCHEMA)


def steps_to_arrow(trajectories: Sequence[Trajectory]) -> pa.Table:
    """One row a step in :data:`STEP_SCHEMA`, in the order of the trajectories and their steps."""
    steps = [s for t in trajectories for s in t.steps]
    columns: dict[str, Any] = {n: [getattr(s, n) for s in steps] for n in _STEP_FIELDS}
    columns["trajectory_id"] = [t.trajectory_id for t in trajectories for _ in t.steps]
    columns["step_index"] = [i for t in trajectories for i in range(len(t.steps))]
    for name, parts in (("tool_calls", _CALL_FIELDS), ("observations", _OBSERVATION_FIELDS)):
        items = [i for s in steps for i in getattr(s, name)]
        columns[name] = struct_lists(
            (len(getattr(s, name)) for s in steps),
            {n: [getattr(i, n) for i in items] for n in parts},
            STEP_SCHEMA.field(name).type,
        )
    return build_table(columns, STEP_SCHEMA)


def labels_to_arrow(labels: Sequence[Label], *, at: datetime | None = None) -> pa.Table:
    """One row a label in :data:`LABEL_SCHEMA`; ``at`` stands in for an unknown ``created_at``."""
    moment = at or datetime.now(UTC)
    rows = [
        {
            **{f.name: getattr(label, f.name) for f in fields(Label)},
            "label_id": label_id(label),
            "created_at": label.created_at or moment,
        }
        for label in labels
    ]
    return build_table(_columns(rows, LABEL_SCHEMA), LABEL_SCHEMA)


def skills_to_arrow(skills: Sequence[Skill], *, at: datetime | None = None) -> pa.Table:
    """One row a skill in :data:`SKILL_SCHEMA`; ``version`` counts up inside the batch by name."""
    counts: dict[str, int] = {}
    rows = []
    for skill in skills:
        counts[skill.name] = counts.get(skill.name, 0) + 1
        row = {f.name: getattr(skill, f.name) for f in fields(Skill)}
        row |= {"skill_id": skill_id(skill), "version": counts[skill.name]}
        row |= {"trajectory_ids": list(skill.trajectory_ids)}
        rows.append(row | {"dependencies": list(skill.dependencies), "created_at": at})
    return build_table(_columns(rows, SKILL_SCHEMA), SKILL_SCHEMA)


def reflections_to_arrow(
    reflections: Sequence[Reflection], *, at: datetime | None = None
) -> pa.Table:
    """One row a reflection in :data:`REFLECTION_SCHEMA`."""
    rows = [
        {f.name: getattr(r, f.name) for f in fields(Reflection)}
        | {"reflection_id": reflection_id(r), "created_at": at}
        for r in reflections
    ]
    return build_table(_columns(rows, REFLECTION_SCHEMA), REFLECTION_SCHEMA)


def workflows_to_arrow(workflows: Sequence[Workflow], *, at: datetime | None = None) -> pa.Table:
    """One row a workflow in :data:`WORKFLOW_SCHEMA`."""
    rows = [
        {f.name: getattr(w, f.name) for f in fields(Workflow)}
        | {"workflow_id": workflow_id(w), "created_at": at}
        | {"trajectory_ids": list(w.trajectory_ids)}
        for w in workflows
    ]
    return build_table(_columns(rows, WORKFLOW_SCHEMA), WORKFLOW_SCHEMA)


def insights_to_arrow(insights: Sequence[Insight], *, at: datetime | None = None) -> pa.Table:
    """One row a version of an insight in :data:`INSIGHT_SCHEMA`; ``at`` where it has no time."""
    rows = [
        {f.name: getattr(i, f.name) for f in fields(Insight)}
        | {"insight_id": insight_id(i), "version_id": f"{insight_id(i)}@{i.version}"}
        | {"created_at": i.created_at or at}
        | {"trajectory_ids": list(i.trajectory_ids), "merged_from": list(i.merged_from)}
        for i in insights
    ]
    return build_table(_columns(rows, INSIGHT_SCHEMA), INSIGHT_SCHEMA)


def uses_to_arrow(uses: Sequence[Use], *, at: datetime | None = None) -> pa.Table:
    """One row a use in :data:`USE_SCHEMA`; ``at`` stands in for an unknown ``given_at``."""
    moment = at or datetime.now(UTC)
    rows = [
        {f.name: getattr(u, f.name) for f in fields(Use)}
        | {"use_id": use_id(u), "given_at": u.given_at or moment}
        for u in uses
    ]
    return build_table(_columns(rows, USE_SCHEMA), USE_SCHEMA)


def _columns(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in schema.names}


def build_table(
    columns: Mapping[str, Sequence[Any] | pa.Array], schema: pa.Schema, *, rows: int | None = None
) -> pa.Table:
    """Arrow table from columns; text that UTF-8 cannot hold is escaped, not refused.

    Args:
        columns: Python values, or Arrow arrays of the column's type.
        schema: of the table.
        rows: how many; a column that is not in ``columns`` is then null throughout.
    """
    if rows is not None:
        absent = {f.name: pa.nulls(rows, f.type) for f in schema if f.name not in columns}
        columns = {**columns, **absent}
    return pa.table([_array(columns[f.name], f.type) for f in schema], schema=schema)


def struct_lists(
    lengths: Iterable[int], columns: Mapping[str, Sequence[Any]], type_: pa.DataType
) -> pa.ListArray:
    """Lists of structs from one column a field, which takes a third of the time of dicts.

    Args:
        lengths: structs in each list.
        columns: the values of each field over all lists.
        type_: a list of structs.
    """
    fields = list(type_.value_type)
    structs = pa.StructArray.from_arrays(
        [_array(columns[f.name], f.type) for f in fields], fields=fields
    )
    ends = pa.array(accumulate(lengths, initial=0), pa.int32())
    return pa.ListArray.from_arrays(ends, structs, type=type_)


def _array(values: Sequence[Any] | pa.Array, type_: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values, type=type_)
    except UnicodeEncodeError:
        return pa.array([_clean(v) for v in values], type=type_)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {k: _clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(v) for v in value]
    return value


def trajectories_from_arrow(trajectories: pa.Table, steps: pa.Table) -> list[Trajectory]:
    """Trajectories with their steps, in the order of ``trajectories``.

    Args:
        trajectories: rows of :data:`TRAJECTORY_SCHEMA` (more columns are ignored).
        steps: rows of :data:`STEP_SCHEMA`, ordered by step_index inside each trajectory.
    """
    grouped: dict[str, list[Step]] = {}
    for row in steps.select([n for n in STEP_SCHEMA.names if n in steps.column_names]).to_pylist():
        key = row.pop("trajectory_id")
        row.pop("step_index")
        grouped.setdefault(key, []).append(_step(row))
    known = [n for n in _TRAJECTORY_FIELDS if n in trajectories.column_names]
    result = []
    for row in trajectories.select(known).to_pylist():
        row["rewards"] = dict(row.get("rewards") or ())
        row["tags"] = tuple(row.get("tags") or ())
        result.append(Trajectory(**row, steps=tuple(grouped.get(row["trajectory_id"], ()))))
    return result


def _step(row: dict[str, Any]) -> Step:
    row["tool_calls"] = tuple(ToolCall(**c) for c in row["tool_calls"] or ())
    row["observations"] = tuple(Observation(**o) for o in row["observations"] or ())
    for name in ("prompt_token_ids", "completion_token_ids", "logprobs"):
        if row.get(name) is not None:
            row[name] = tuple(row[name])
    return Step(**row)


def concat(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """The tables after one another in ``schema``; an empty table where there are none."""
    kept = [t for t in tables if t.num_rows]
    return pa.concat_tables(kept) if kept else schema.empty_table()
