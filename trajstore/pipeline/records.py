"""Plain dicts to Arrow by columns: the quick way for records in the shape of the plain JSONL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.importers import read_json, read_time
from trajstore.schema import (
    STEP_SCHEMA,
    TRAJECTORY_SCHEMA,
    argument_texts,
    build_table,
    struct_lists,
)
from trajstore.store import Batch

_RUN_KEYS = frozenset(TRAJECTORY_SCHEMA.names) - {"imported_at"} | {"steps"}
_STEP_KEYS = frozenset(STEP_SCHEMA.names) - {"trajectory_id", "step_index"}
_CALL_KEYS = frozenset({"name", "arguments", "call_id"})
_RESULT_KEYS = frozenset({"text", "call_id", "is_error", "content"})
_JSON = frozenset({"content", "state", "sampling", "metadata", "tools"})
_TIMES = frozenset({"timestamp", "started_at", "ended_at", "expires_at"})
_FLAGS = ("is_copied", "format_error")
_MANY_STEPS = 4000
_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")

_Columns = dict[str, Any]
_Rows = Sequence[Mapping[str, Any]]


class UnplainError(Exception):
    """A record that only the careful reader can take (or refuse)."""


def batches_of_records(records: _Rows) -> Iterator[Batch]:
    """Arrow tables of records that are plain: one batch, or three ever smaller ones of many steps.

    Plain are records with ids, a goal and steps under the names of the schema, and nothing that has
    to be derived, merged, escaped or refused. Others the caller reads one by one, which gives the
    same rows or the error that names the place.

    Raises:
        UnplainError: a record is not plain.
    """
    try:
        runs = sorted(records, key=lambda r: r["trajectory_id"])
        ids = {r["trajectory_id"] for r in runs}
        steps = sum(len(r["steps"]) for r in runs)
        if len(ids) < len(runs):
            raise UnplainError
        for start, end in pairwise(_bounds(len(runs), steps)):
            yield _batch(runs[start:end])
    except (pa.ArrowException, TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnplainError from error


def _bounds(runs: int, steps: int) -> list[int]:
    """Where to cut: the last part is small, since nothing is made while it is encoded."""
    shares = (0.0, 0.45, 0.8, 1.0) if steps >= _MANY_STEPS else (0.0, 1.0)
    return sorted({round(runs * share) for share in shares})


def _batch(runs: _Rows) -> Batch:
    ids = [r["trajectory_id"] for r in runs]
    listed = [r["steps"] for r in runs]
    keys = _keys(runs, _RUN_KEYS)
    if not all(listed):
        raise UnplainError
    if any("task_id" not in r or "goal" not in r for r in runs):
        raise UnplainError
    lengths = [len(steps) for steps in listed]
    steps = _steps(list(chain.from_iterable(listed)), ids, lengths)
    columns = _read(runs, keys, TRAJECTORY_SCHEMA)
    given = {n: columns[n] for n in _TOKENS if n in columns}
    columns |= counted(steps, ids)
    columns |= {n: pc.coalesce(values, columns[n]) for n, values in given.items()}
    columns["source"] = [r.get("source") or "trajstore-jsonl" for r in runs]
    columns["rewards"] = [list((r.get("rewards") or {}).items()) for r in runs]
    columns["tags"] = [r.get("tags") or [] for r in runs]
    columns["imported_at"] = pa.repeat(datetime.now(UTC), len(runs)).cast(_type("imported_at"))
    rows = build_table(columns, TRAJECTORY_SCHEMA, rows=len(runs))
    return Batch(trajectories=rows, steps=steps)


def _steps(steps: _Rows, ids: Sequence[str], lengths: Sequence[int]) -> pa.Table:
    columns = _read(steps, _keys(steps, _STEP_KEYS), STEP_SCHEMA)
    runs = [[i] * n for i, n in zip(ids, lengths, strict=True)]
    columns["trajectory_id"] = list(chain.from_iterable(runs))
    columns["step_index"] = list(chain.from_iterable(map(range, lengths)))
    calls = [s.get("tool_calls") or () for s in steps]
    results = [s.get("observations") or () for s in steps]
    columns["tool_calls"] = _calls(calls)
    columns["observations"] = _results(results)
    for name in _FLAGS:
        flags = columns.get(name, pa.nulls(len(steps), pa.bool_()))
        columns[name] = pc.fill_null(flags, False)
    return build_table(columns, STEP_SCHEMA, rows=len(steps))


def _keys(rows: _Rows, allowed: AbstractSet[str]) -> AbstractSet[str]:
    keys = set().union(*rows)
    if keys - allowed:
        raise UnplainError
    return keys


def _type(name: str) -> pa.DataType:
    return TRAJECTORY_SCHEMA.field(name).type


_NOT_READ = frozenset({"rewards", "tags", "tool_calls", "observations"})


def _read(rows: _Rows, keys: AbstractSet[str], schema: pa.Schema) -> _Columns:
    """Arrays of the columns that any row has, in the schema's types."""
    types = dict(zip(schema.names, schema.types, strict=True))
    names = [n for n in schema.names if n in keys and n not in _NOT_READ]
    return {n: _array(n, [r.get(n) for r in rows], types[n]) for n in names}


def _array(name: str, values: list[Any], type_: pa.DataType) -> pa.Array:
    if name in _TIMES:
        return _times(values, type_)
    if name in _JSON:
        values = [v if v is None else read_json(v) for v in values]
    return pa.array(values, type_)


def _times(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Points in time; Arrow reads most of what people write, five times faster than Python."""
    try:
        return pa.array(values, pa.string()).cast(type_)
    except (pa.ArrowException, TypeError):
        read = (v if v is None or isinstance(v, datetime) else read_time(v) for v in values)
        return pa.array(read, type_)


def _calls(listed: Sequence[_Rows]) -> pa.ListArray:
    calls = list(chain.from_iterable(listed))
    _keys(calls, _CALL_KEYS)
    names = [c["name"] for c in calls]
    if None in names:
        raise UnplainError
    parsed, raw = argument_texts(c.get("arguments") for c in calls)
    columns = {
        "call_id": [c.get("call_id") for c in calls],
        "name": names,
        "arguments": parsed,
        "arguments_raw": raw,
    }
    return struct_lists(map(len, listed), columns, STEP_SCHEMA.field("tool_calls").type)


def _results(listed: Sequence[_Rows]) -> pa.ListArray:
    results = list(chain.from_iterable(listed))
    _keys(results, _RESULT_KEYS)
    columns = {n: [o.get(n) for o in results] for n in _RESULT_KEYS}
    return struct_lists(map(len, listed), columns, STEP_SCHEMA.field("observations").type)


def counted(steps: pa.Table, ids: Sequence[str]) -> _Columns:
    """Counts, sizes and token sums of each run, as :func:`trajstore.schema.finish` gives them.

    Args:
        steps: rows of ``STEP_SCHEMA``.
        ids: of the runs; every run has steps.

    Returns:
        One value a run, in the order of ``ids``.
    """
    at = {n: steps.column(n).combine_chunks() for n in steps.column_names}
    calls, results = at["tool_calls"], at["observations"]
    own = pc.and_(pc.fill_null(pc.equal(at["actor"], "agent"), False), pc.invert(at["is_copied"]))
    failed = _sums(pc.struct_field(results.values, "is_error").cast(pa.int64()), results.offsets)
    raw = _sums(pc.binary_length(pc.struct_field(calls.values, "arguments_raw")), calls.offsets)
    seen = _sums(pc.binary_length(pc.struct_field(results.values, "text")), results.offsets)
    said = pc.add(_bytes(at["text"]), _bytes(at["reasoning"]))
    of_own = {
        "n_agent_steps": own.cast(pa.int32()),
        "n_tool_calls": pc.list_value_length(calls),
        "n_tool_errors": failed,
        "n_format_errors": at["format_error"].cast(pa.int32()),
    }
    values = {n: pc.if_else(own, v, pa.scalar(0, v.type)) for n, v in of_own.items()}
    values |= {n: pc.if_else(own, at[n], pa.scalar(None, at[n].type)) for n in _TOKENS}
    values["n_steps"] = pa.repeat(1, len(steps))
    values["size_bytes"] = pc.add(pc.add(said, raw), seen)
    table = pa.table({"run": at["trajectory_id"], **values})
    sums = table.group_by("run", use_threads=False).aggregate([(n, "sum") for n in values])
    sums = sums.take(pc.index_in(pa.array(ids), value_set=sums.column("run").combine_chunks()))
    return {n: sums.column(f"{n}_sum").combine_chunks().cast(_type(n)) for n in values}


def _bytes(texts: pa.Array) -> pa.Array:
    return pc.fill_null(pc.binary_length(texts), 0)


def _sums(values: pa.Array, ends: pa.Array) -> pa.Array:
    """Sums of what lies between neighbouring ends; null counts as 0."""
    totals = pc.cumulative_sum(pc.fill_null(values, 0).cast(pa.int64()))
    at_ends = pa.concat_arrays([pa.array([0], pa.int64()), totals]).take(ends)
    return pc.subtract(at_ends.slice(1), at_ends.slice(0, len(at_ends) - 1))
