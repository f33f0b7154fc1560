"""The least ratios that the design asks for, by work and store.

A ratio says how many times better trajstore is than that store at that work, both measured in one
run. They hold for a million steps, that is ``--trajectories 50000``.
"""

from __future__ import annotations

TARGETS: dict[tuple[str, str], float] = {
    ("success rate by agent and model", "jsonl-orjson"): 500,
    ("success rate by agent and model", "sqlite-steps"): 8,
    ("tool histogram", "jsonl-orjson"): 150,
    ("tool histogram", "sqlite-steps"): 40,
    ("text search (LIKE)", "jsonl-orjson"): 4,
    ("text search (LIKE)", "sqlite-steps"): 4,
    ("text search (LIKE)", "lance"): 2.5,
    ("one trajectory by id", "jsonl-orjson"): 300,
    ("one trajectory by id", "lance"): 1 / 1.5,
    ("256 trajectories as objects", "jsonl-orjson"): 20,
    ("256 trajectories as Arrow", "lance"): 1 / 2,
    ("ingest from dicts", "jsonl-std"): 1,
    ("ingest from dicts", "sqlite-steps"): 2.5,
    ("ingest from dicts", "mlflow"): 300,
    ("ingest from Arrow", "zstd level 1, one core"): 0.9,
    ("size on disk", "jsonl-orjson"): 1 / 0.33,
    ("size on disk", "sqlite-steps"): 1 / 0.18,
    ("small appends, p50", "iceberg"): 8,
}

MOST_GROWTH = 2.0
"""Small appends: p50 of the last 50 commits over p50 of the first 50 stays below this."""
