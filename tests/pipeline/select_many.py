"""Make a store of many small runs, select from it, and print rows kept and memory used in MB.

Run by ``test_selecting``: the peak of memory belongs to a whole process.
"""

from __future__ import annotations

import resource
import sys
from datetime import UTC, datetime
from typing import Any

from trajstore import Batch
from trajstore import open as open_store
from trajstore.filters import stage
from trajstore.pipeline.selecting import select
from trajstore.schema import STEP_SCHEMA, TRAJECTORY_SCHEMA, build_table

_BATCH = 50_000


def _batch(start: int) -> Batch:
    n, when = _BATCH, datetime(2026, 3, 1, tzinfo=UTC)
    ids = [f"{start + i:036}" for i in range(n)]
    counted = ("n_agent_steps", "n_tool_calls", "n_tool_errors", "n_format_errors")
    runs: dict[str, list[Any]] = dict.fromkeys(TRAJECTORY_SCHEMA.names, [None] * n)
    runs |= {name: [i % 7 for i in range(n)] for name in counted}
    runs |= {
        "trajectory_id": ids,
        "task_id": [f"env/{(start + i) // 8}" for i in range(n)],
        "source": ["many"] * n,
        "policy_version": [f"iter-{i % 9}" for i in range(n)],
        "success": [(True, False, None)[i % 3] for i in range(n)],
        "reward": [float(i % 5) for i in range(n)],
        "n_steps": [1] * n,
        "size_bytes": [4] * n,
        "source_digest": [f"{start + i:064}" for i in range(n)],
        "imported_at": [when] * n,
        "rewards": [[]] * n,
        "tags": [[]] * n,
    }
    steps: dict[str, list[Any]] = dict.fromkeys(STEP_SCHEMA.names, [None] * n)
    steps |= {
        "trajectory_id": ids,
        "step_index": [0] * n,
        "actor": ["agent"] * n,
        "text": ["done"] * n,
        "tool_calls": [[]] * n,
        "observations": [[]] * n,
        "is_copied": [False] * n,
        "format_error": [False] * n,
    }
    return Batch(
        trajectories=build_table(runs, TRAJECTORY_SCHEMA), steps=build_table(steps, STEP_SCHEMA)
    )


def main(path: str, count: int) -> None:
    """Make the store, select, print."""
    pool = open_store(path, durable=False)
    for start in range(0, count, _BATCH):
        pool.append(_batch(start))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stages = [
        stage("success"),
        stage("above-task-mean"),
        stage("tool-errors", most=5),
        stage("staleness", most=6),
        stage("keep", condition="reward > 1"),
        stage("loops"),
    ]
    kept = len(select(open_store(path), stages))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    sys.stdout.write(f"{kept} {grown / 1024:.0f}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
