"""Rows of two plain tables, as somebody would lay them out by hand for generated runs.

A generated step has one call at most, so call and result are columns of the step. That is the best
layout for the queries measured here; runs with parallel calls would need a third table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from benchmarks.workload import NEEDLE, SHORTEST, Record, Whole

_S, _I, _F, _B = pa.string(), pa.int64(), pa.float64(), pa.bool_()

TRAJECTORIES = pa.schema(
    {
        "trajectory_id": _S,
        "task_id": _S,
        "attempt": _I,
        "goal": _S,
        "source": _S,
        "source_uri": _S,
        "source_digest": _S,
        "environment": _S,
        "environment_version": _S,
        "agent": _S,
        "model": _S,
        "policy_version": _S,
        "status": _S,
        "success": _B,
        "reward": _F,
        "tools": _S,
        "n_steps": _I,
        "n_agent_steps": _I,
        "n_tool_calls": _I,
        "n_tool_errors": _I,
        "n_format_errors": _I,
        "prompt_tokens": _I,
        "completion_tokens": _I,
        "cost_usd": _F,
        "duration_s": _F,
        "size_bytes": _I,
        "started_at": _S,
        "ended_at": _S,
        "tags": _S,
        "metadata": _S,
    }
)
"""Columns of ``trajectories``; objects and lists are JSON text, times ISO text."""

STEPS = pa.schema(
    {
        "trajectory_id": _S,
        "step_index": _I,
        "actor": _S,
        "text": _S,
        "reasoning": _S,
        "call_id": _S,
        "tool_name": _S,
        "arguments": _S,
        "observation": _S,
        "is_error": _B,
        "format_error": _B,
        "model": _S,
        "prompt_tokens": _I,
        "completion_tokens": _I,
        "latency_s": _F,
        "timestamp": _S,
    }
)
"""Columns of ``steps``; ``arguments`` is JSON text."""

SQL = {
    "rates": """
        SELECT agent, model, count(success), avg(CAST(success AS INTEGER))
        FROM trajectories GROUP BY agent, model HAVING count(success) > 0""",
    "histogram": """
        SELECT tool_name, count(*) FROM steps WHERE tool_name IS NOT NULL GROUP BY tool_name""",
    "errors": """
        SELECT tool_name, count(*), avg(CAST(is_error AS INTEGER))
        FROM steps WHERE is_error IS NOT NULL GROUP BY tool_name""",
    "search": f"""
        SELECT count(*) FROM steps WHERE observation LIKE '%{NEEDLE.replace("'", "''")}%'""",
    "shortest": f"""
        SELECT task_id, trajectory_id, n_tool_calls FROM (
            SELECT task_id, trajectory_id, n_tool_calls, row_number() OVER (
                PARTITION BY task_id ORDER BY n_tool_calls, trajectory_id) AS place
            FROM trajectories WHERE success) AS ranked
        WHERE place <= {SHORTEST}""",
}
"""The questions over these two tables, for SQLite and DuckDB alike."""


def trajectory_row(record: Record) -> tuple[Any, ...]:
    """One row of ``trajectories``."""
    return tuple(_text(record.get(name)) for name in TRAJECTORIES.names)


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def step_rows(record: Record) -> list[tuple[Any, ...]]:
    """The rows of ``steps`` of one trajectory."""
    return [_step_row(record["trajectory_id"], i, s) for i, s in enumerate(record["steps"])]


def _step_row(trajectory_id: str, index: int, step: dict[str, Any]) -> tuple[Any, ...]:
    call = (step.get("tool_calls") or [{}])[0]
    result = (step.get("observations") or [{}])[0]
    arguments = call.get("arguments")
    return (
        trajectory_id,
        index,
        step["actor"],
        step.get("text"),
        step.get("reasoning"),
        call.get("call_id"),
        call.get("name"),
        None if arguments is None else json.dumps(arguments),
        result.get("text"),
        result.get("is_error"),
        step.get("format_error", False),
        step.get("model"),
        step.get("prompt_tokens"),
        step.get("completion_tokens"),
        step.get("latency_s"),
        step.get("timestamp"),
    )


def tables(records: Sequence[Record]) -> tuple[pa.Table, pa.Table]:
    """Both tables in Arrow."""
    runs = [trajectory_row(r) for r in records]
    steps = [row for r in records for row in step_rows(r)]
    return _table(runs, TRAJECTORIES), _table(steps, STEPS)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def wholes(runs: Iterable[Sequence[Any]], steps: Iterable[Sequence[Any]]) -> list[Whole]:
    """Comparable trajectories from rows of both tables, in any order."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for values in steps:
        row = dict(zip(STEPS.names, values, strict=True))
        grouped.setdefault(row["trajectory_id"], []).append(row)
    result = []
    for values in runs:
        run = dict(zip(TRAJECTORIES.names, values, strict=True))
        own = sorted(grouped.get(run["trajectory_id"], []), key=lambda s: s["step_index"])
        success = None if run["success"] is None else bool(run["success"])
        head = (run["trajectory_id"], run["task_id"], run["goal"], success, run["reward"])
        result.append((*head, tuple(_whole_step(s) for s in own)))
    return result


def _whole_step(step: dict[str, Any]) -> Whole:
    calls: tuple[Any, ...] = ()
    if step["tool_name"] is not None:
        arguments = json.dumps(json.loads(step["arguments"]), sort_keys=True)
        calls = ((step["tool_name"], arguments),)
    results: tuple[Any, ...] = ()
    if step["observation"] is not None:
        flag = None if step["is_error"] is None else bool(step["is_error"])
        results = ((step["observation"], flag),)
    return (step["actor"], step["text"], step["reasoning"], calls, results)


def wholes_of_tables(runs: pa.Table, steps: pa.Table) -> list[Whole]:
    """Comparable trajectories from both tables in Arrow."""
    return wholes(_values(runs, TRAJECTORIES), _values(steps, STEPS))


def _values(table: pa.Table, schema: pa.Schema) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(n).to_pylist() for n in schema.names), strict=True))
