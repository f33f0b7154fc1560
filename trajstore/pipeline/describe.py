"""What a store holds, in numbers."""

from __future__ import annotations

from typing import Any

from trajstore.store import Reader, Store

_COUNTS = """
    SELECT count(*) AS trajectories,
        count(DISTINCT task_id) AS tasks,
        count(*) FILTER (success) AS successes,
        count(*) FILTER (success = false) AS failures,
        count(*) FILTER (success IS NULL) AS unknown,
        coalesce(sum(n_steps), 0)::BIGINT AS steps,
        coalesce(sum(n_tool_calls), 0)::BIGINT AS tool_calls,
        sum(prompt_tokens)::BIGINT AS prompt_tokens,
        sum(completion_tokens)::BIGINT AS completion_tokens,
        sum(cost_usd) AS cost_usd,
        coalesce(sum(size_bytes), 0)::BIGINT AS text_bytes,
        min(started_at)::VARCHAR AS first_started_at,
        max(started_at)::VARCHAR AS last_started_at
    FROM trajectories"""

_BY = """
    SELECT {column} AS name, count(*) AS trajectories, count(DISTINCT task_id) AS tasks,
        count(*) FILTER (success) AS successes, count(*) FILTER (success IS NULL) AS unknown
    FROM trajectories GROUP BY 1 ORDER BY trajectories DESC, name LIMIT 20"""


def describe(store: Store) -> dict[str, Any]:
    """Counts, outcomes, sources, agents, models, sizes and versions as JSON-ready values."""
    reader = store.reader()
    files = reader.snapshot.files
    return {
        "store": store.root.uri,
        "snapshot": reader.snapshot.version,
        **_rows(reader, _COUNTS)[0],
        "labels": _rows(reader, "SELECT count(*) AS n FROM labels")[0]["n"],
        "skills": _rows(reader, "SELECT count(*) AS n FROM skills")[0]["n"],
        "reflections": _rows(reader, "SELECT count(*) AS n FROM reflections")[0]["n"],
        "workflows": _rows(reader, "SELECT count(*) AS n FROM workflows")[0]["n"],
        "files": len(files),
        "disk_bytes": sum(f.size_bytes for f in files),
        "pins": [p.name for p in store.pins()],
        "evaluator_ranking": store.evaluator_ranking(),
        "by_source": _rows(reader, _BY.format(column="source")),
        "by_environment": _rows(reader, _BY.format(column="environment")),
        "by_agent": _rows(reader, _BY.format(column="agent")),
        "by_model": _rows(reader, _BY.format(column="model")),
    }


def _rows(reader: Reader, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = reader.query(query).read_all().to_pylist()
    return rows
