"""Plain dicts to Arrow by columns: the quick way for records in the shape of the plain JSONL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from trajstore.importers import read_json, read_time
from trajstore.schema import STEP_SCHEMA, TRAJECTORY_SCHEMA, ToolCall, build_table
from trajstore.store import Batch

_COUNTS = ("n_steps", "n_agent_steps", "n_tool_calls", "n_tool_errors", "n_format_errors")
_RUN_KEYS = frozenset(TRAJECTORY_SCHEMA.names) - {"imported_at"} | {"steps"}
_STEP_KEYS = frozenset(STEP_SCHEMA.names) - {"trajectory_id", "step_index"}
_CALL_KEYS = frozenset({"name", "arguments", "call_id"})
_RESULT_KEYS = frozenset({"text", "call_id", "is_error", "content"})
_JSON = frozenset({"content", "state", "sampling", "metadata", "tools"})
_TIMES = frozenset({"timestamp", "started_at", "ended_at", "expires_at"})
_FLAGS = frozenset({"is_copied", "format_error"})

_Columns = dict[str, list[Any]]
_Call = dict[str, Any]


class _UnplainError(Exception):
    """A record that only the careful reader can take (or refuse)."""


def batch_of_records(records: Sequence[Mapping[str, Any]]) -> Batch | None:
    """Arrow tables of records that are plain; None where any record is not.

    Plain are records with ids, a goal and steps under the names of the schema, and nothing that has
    to be derived, merged or refused. The caller then reads them one by one, which gives the same
    rows or the error that names the place.
    """
    try:
        return _batch(records)
    except (_UnplainError, pa.ArrowException, TypeError, ValueError, KeyError, AttributeError):
        return None


def _batch(records: Sequence[Mapping[str, Any]]) -> Batch | None:
    runs = sorted(records, key=lambda r: r["trajectory_id"])
    ids = [r["trajectory_id"] for r in runs]
    if len(set(ids)) < len(ids):
        raise _UnplainError
    for run in runs:
        if run.keys() - _RUN_KEYS or {"task_id", "goal"} - run.keys() or not run["steps"]:
            raise _UnplainError
    columns = _read(runs, TRAJECTORY_SCHEMA.names)
    steps = _steps(runs, ids)
    _count(runs, steps["tool_calls"], columns)
    columns["source"] = [s or "trajstore-jsonl" for s in columns["source"]]
    columns["rewards"] = [list((r or {}).items()) for r in columns["rewards"]]
    columns["tags"] = [t or [] for t in columns["tags"]]
    columns["imported_at"] = [datetime.now(UTC)] * len(runs)
    return Batch(
        trajectories=build_table(columns, TRAJECTORY_SCHEMA),
        steps=build_table(steps, STEP_SCHEMA),
    )


def _steps(runs: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> _Columns:
    steps = [s for r in runs for s in r["steps"]]
    for step in steps:
        if step.keys() - _STEP_KEYS:
            raise _UnplainError
    columns = _read(steps, STEP_SCHEMA.names)
    columns["trajectory_id"] = [i for i, r in zip(ids, runs, strict=True) for _ in r["steps"]]
    columns["step_index"] = [n for r in runs for n in range(len(r["steps"]))]
    columns["tool_calls"] = [[_call(c) for c in calls or ()] for calls in columns["tool_calls"]]
    columns["observations"] = [list(map(_result, o or ())) for o in columns["observations"]]
    return columns


def _read(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> _Columns:
    return {n: _convert(n, [row.get(n) for row in rows]) for n in names}


def _convert(name: str, values: list[Any]) -> list[Any]:
    if name in _FLAGS:
        return [bool(v) for v in values]
    read: Callable[[Any], Any] | None = None
    if name in _JSON:
        read = read_json
    elif name in _TIMES:
        read = read_time
    if read is None:
        return values
    return [v if v is None or isinstance(v, datetime) else read(v) for v in values]


def _call(call: Mapping[str, Any]) -> _Call:
    if call.keys() - _CALL_KEYS:
        raise _UnplainError
    made = ToolCall.of(call["name"], call.get("arguments"))
    return {
        "call_id": call.get("call_id"),
        "name": call["name"],
        "arguments": made.arguments,
        "arguments_raw": made.arguments_raw,
    }


def _result(result: Mapping[str, Any]) -> Mapping[str, Any]:
    if result.keys() - _RESULT_KEYS or not isinstance(result.get("content"), str | None):
        raise _UnplainError
    return result


def _count(
    runs: Sequence[Mapping[str, Any]], calls: Sequence[Sequence[_Call]], columns: _Columns
) -> None:
    """Fill in counts, sizes and token sums, as :func:`trajstore.schema.finish` does."""
    tokens = ("prompt_tokens", "completion_tokens", "cached_tokens")
    for name in (*_COUNTS, "size_bytes"):
        columns[name] = []
    made = iter(calls)
    for place, run in enumerate(runs):
        steps = run["steps"]
        own = [s for s in steps if s.get("actor") == "agent" and not s.get("is_copied")]
        columns["n_steps"].append(len(steps))
        columns["n_agent_steps"].append(len(own))
        columns["n_tool_calls"].append(sum(len(s.get("tool_calls") or ()) for s in own))
        flags = (o.get("is_error") for s in own for o in s.get("observations") or ())
        columns["n_tool_errors"].append(sum(f is True for f in flags))
        columns["n_format_errors"].append(sum(s.get("format_error") is True for s in own))
        columns["size_bytes"].append(sum(_size(s, next(made)) for s in steps))
        for name in tokens:
            known = [s[name] for s in own if s.get(name) is not None]
            if columns[name][place] is None and known:
                columns[name][place] = sum(known)


def _size(step: Mapping[str, Any], calls: Sequence[_Call]) -> int:
    texts = [step.get("text"), step.get("reasoning")]
    texts += [o.get("text") for o in step.get("observations") or ()]
    texts += [c["arguments_raw"] for c in calls]
    return sum(len(t) if t.isascii() else len(t.encode("utf-8", "replace")) for t in texts if t)
