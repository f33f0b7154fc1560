"""``docs/reference/schema.md``: tables, views, files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

import trajstore
from docs.markdown import codes, page, table
from trajstore.schema import TABLES, Column
from trajstore.store import VIEW_MEANINGS
from trajstore.store.layout import STORED_SCHEMAS

_TABLE_MEANINGS = {
    "trajectories": "One row an attempt at a task.",
    "steps": "One row a step; the steps of a trajectory are contiguous and in order.",
    "labels": "One row an evaluator's word. Labels are only added, never changed.",
    "skills": "One row a version of a named, reusable procedure.",
    "reflections": "One row a reflection on a failed attempt.",
    "workflows": "One row a workflow made from successes.",
    "insights": "One row a version of something learnt from runs, in words.",
    "uses": "One row an item of memory that a run was given.",
}

_SCHEMA_INTRO = """
Every column of the store: its type, whether null is allowed, and what a value says. Null always
means unknown or not there. Types are Arrow's; SQL shows `string` as `VARCHAR`, `double` as
`DOUBLE`, `int32` as `INTEGER`, `int64` as `BIGINT` and `timestamp[us, UTC]` as `TIMESTAMPTZ`.
[Data model](../concepts/data-model.md) explains how the tables belong together.

- [Tables](#tables): what is stored
- [Views](#views): what SQL sees
- [Files](#files): what lies on disk
"""

_TABLES_INTRO = """
`trajstore.schema.SCHEMAS` holds these tables as Arrow schemas. JSON columns are text; DuckDB
reads inside them: `metadata->>'$.seed'`.
"""

_VIEWS_INTRO = """
The views of `trajstore query`, `trajstore shell`, `Store.sql` and `Store.query`. Each shows one
snapshot. Replaced versions and deleted rows are in none of them.
"""

_USED = {
    "uses": "runs that were given it",
    "successes": "those of them that succeeded, by the effective outcome",
    "failures": "those of them that failed; the rest is unknown",
    "last_success_at": "end of the last run that was given it and succeeded",
}

_VIEW_COLUMNS = {
    "trajectories": {
        "source_success": "success as the source's own evaluator gave it; `success` is the "
        "effective one",
        "source_reward": "reward as the source gave it; `reward` is the effective one",
        "outcome_evaluator": "whose label decided; null where the source's own outcome stands",
    },
    "tool_calls": {
        "trajectory_id": "the trajectory",
        "step_index": "the step in it, from 0",
        "actor": "who called",
        "call_index": "place of the call in its step, from 0",
        "name": "name of the tool",
        "call_id": "id that links the result, where the source has one",
        "arguments": "canonical JSON text; null where what the model wrote is no JSON",
        "arguments_raw": "the arguments exactly as the model wrote them",
        "observation": "text of the result; null where there is none",
        "is_error": "whether the source says that the call failed; null is unknown",
        "is_copied": "context repeated from another trajectory",
        "timestamp": "when the step happened",
    },
    "messages": {
        "trajectory_id": "the trajectory",
        "step_index": "the step in it, from 0",
        "part_index": "0 for what was said, then 1, 2, ... for the results behind it",
        "role": "`system`, `user`, `assistant`, `tool` or `environment`",
        "content": "the text",
        "reasoning": "thinking beside the text",
        "tool_calls": "calls made in this message, in order",
        "call_id": "of a tool message: the call it answers",
        "is_error": "of a tool message: whether the call failed",
        "is_copied": "context repeated from another trajectory",
    },
    "tasks": {
        "task_id": "the task",
        "attempts": "number of trajectories",
        "successes": "those that succeeded",
        "unknown": "those whose outcome is unknown",
        "success_rate": "successes over judged attempts, 0 to 1; null where none is judged",
        "min_reward": "smallest reward",
        "max_reward": "largest reward",
        "shortest_success": "fewest tool calls of a success",
        "goal": "goal of one of the attempts",
        "environment": "environment of one of the attempts",
        "source": "source of one of the attempts",
    },
    "skills": {"last_success_at": "end of the last run that was given it and succeeded"},
    **dict.fromkeys(("reflections", "workflows", "insights"), _USED),
}
"""What the columns say that a view has and its table of record has not."""

_FILES_INTRO = """
One Delta table, `STORE/trajectories`, holds four kinds of rows in the partitions
`record=trajectory`, `record=step`, `record=label` and `record=tombstone`. Beside the columns of
the tables above it has these. [Reading elsewhere](../guides/reading-elsewhere.md) says how other
engines use them.
"""

_STORED_MEANINGS = {
    "revision": "random number that one version of a trajectory shares with its steps; each label "
    "has its own. A row whose revision a tombstone names is dead",
    "shape": "of a step: a sum of 1 (it has a call), 2 (it has a result), 4 (`arguments_raw` is "
    "`arguments`, and null here), 8 (the result's id is `call_id`, and `result_call_id` is null). "
    "Null: it has more, and its lists are in `tool_calls` and `observations`, which are null else",
    "call_id": "of a step with a shape: id of its call",
    "tool_name": "of a step with a shape: name of its call; null where it has none",
    "arguments": "of a step with a shape: the call's arguments as canonical JSON text",
    "arguments_raw": "of a step with a shape: the arguments as the model wrote them",
    "result_call_id": "of a step with a shape: the call id that its result names",
    "observation": "of a step with a shape: text of its result",
    "is_error": "of a step with a shape: whether its result is an error",
    "observation_content": "of a step with a shape: JSON text, the parts of its result",
    "tool_names": "of a step without a shape: the name of each call",
    "tool_errors": "of a step without a shape: for each call, whether its result is an error; null "
    "where unknown",
    "tool_results": "of a step without a shape: for each call, the place of its result among the "
    "observations, from 1; null where there is none",
    "name": "of a tombstone: `replaced` by a longer version, or `deleted`",
    "trajectory_id": "of a tombstone: whose revision it names",
    "created_at": "of a tombstone: when it was written",
}


def type_name(type_: pa.DataType) -> str:
    """An Arrow type in few words.

    >>> type_name(pa.list_(pa.struct([("name", pa.string()), ("ok", pa.bool_())])))
    'list<struct<name string, ok bool>>'
    """
    if pa.types.is_list(type_):
        return f"list<{type_name(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{type_name(type_.key_type)}, {type_name(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(f'{f.name} {type_name(f.type)}' for f in type_)}>"
    if pa.types.is_timestamp(type_):
        return f"timestamp[{type_.unit}, {str(type_.tz).removeprefix('Etc/')}]"
    return str(type_)


def schema_page() -> str:
    """``docs/reference/schema.md``: tables, views, files."""
    tables = [
        f"### {name}\n\n{_TABLE_MEANINGS[name]}\n\n{_column_table(columns)}"
        for name, columns in TABLES.items()
    ]
    views = [
        f"### View {name}\n\n{meaning[0].upper()}{meaning[1:]}.\n\n{columns}"
        for name, meaning, columns in _views()
    ]
    return page(
        "Schema",
        _SCHEMA_INTRO,
        "## Tables",
        _TABLES_INTRO,
        *tables,
        "## Views",
        _VIEWS_INTRO,
        *views,
        "## Files",
        _FILES_INTRO,
        _stored_table(),
    )


def _column_table(columns: Sequence[Column]) -> str:
    rows = [
        (
            f"`{c.name}`",
            f"`{type_name(c.type)}`",
            "yes" if c.nullable else "no",
            c.meaning + (f". One of {codes(c.allowed)}" if c.allowed else ""),
        )
        for c in columns
    ]
    return table(("column", "type", "null", "meaning"), rows)


def _views() -> Iterator[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        reader = trajstore.open(Path(folder) / "pool", durable=False).reader()
        for name, meaning in VIEW_MEANINGS.items():
            schema = reader.query(f"SELECT * FROM {name}").schema
            yield name, meaning, _view_columns(name, schema)


def _view_columns(view: str, schema: pa.Schema) -> str:
    """The columns of a view; those of its table of record only by a link."""
    known = {c.name for c in TABLES.get(view, ())}
    words = _VIEW_COLUMNS.get(view, {})
    rows = [
        (f"`{f.name}`", f"`{type_name(f.type)}`", _meaning(words, f.name))
        for f in schema
        if f.name not in known
    ]
    own = table(("column", "type", "meaning"), rows)
    if not known:
        return own
    same = f"The columns of the table [`{view}`](#{view})"
    return f"{same}, and:\n\n{own}" if rows else f"{same}.\n"


def _stored_table() -> str:
    """Columns of the files that the tables do not have; each must have its words here."""
    kinds: dict[str, list[str]] = {}
    types: dict[str, pa.DataType] = {}
    for record, schema in STORED_SCHEMAS.items():
        declared = {c.name for c in TABLES.get(_RECORDS.get(record, ""), ())}
        for field in schema:
            if field.name not in declared:
                kinds.setdefault(field.name, []).append(record)
                types[field.name] = field.type
    rows = [
        (f"`{n}`", f"`{type_name(types[n])}`", codes(kinds[n]), _meaning(_STORED_MEANINGS, n))
        for n in kinds
    ]
    first = ("`record`", "`string`", "all", "partition: which kind of row it is")
    return table(("column", "type", "in", "meaning"), [first, *rows])


def _meaning(words: Mapping[str, str], column: str) -> str:
    if column not in words:
        raise LookupError(f"docs/schema_page.py must say what the column '{column}' means")
    return words[column]


_RECORDS = {"trajectory": "trajectories", "step": "steps", "label": "labels"}
