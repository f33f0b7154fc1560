"""Computed values as rows of labels, many at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa

from trajstore.schema import LABEL_SCHEMA, canonical_json

Column: TypeAlias = pa.Array | pa.ChunkedArray


def label_rows(
    columns: Mapping[str, Column], *, evaluator: str, evaluator_version: str, at: datetime
) -> pa.Table:
    """Rows of ``LABEL_SCHEMA`` by one evaluator, with the ids that such labels have one by one.

    Args:
        columns: ``trajectory_id``, ``name`` and ``value``; ``step_index`` and ``rationale`` are
            null where they are not there.
        evaluator: who says so.
        evaluator_version: its version.
        at: when it was said.
    """
    n = len(columns["trajectory_id"])
    moment = pa.scalar(at, LABEL_SCHEMA.field("created_at").type)
    given: dict[str, Any] = {
        "step_index": pa.nulls(n, pa.int32()),
        "rationale": pa.nulls(n, pa.string()),
        **columns,
        "success": pa.nulls(n, pa.bool_()),
        "evaluator": pa.repeat(evaluator, n),
        "evaluator_version": pa.repeat(evaluator_version, n),
        "created_at": pa.repeat(moment, n),
    }
    ends = f",{canonical_json(evaluator)},{canonical_json(evaluator_version)}]"
    given["label_id"] = pa.array(_ids(given, ends), pa.string())
    return pa.table({f.name: given[f.name] for f in LABEL_SCHEMA}).cast(LABEL_SCHEMA)


def _ids(given: Mapping[str, Any], ends: str) -> Iterator[str]:
    """What :func:`trajstore.schema.label_id` gives, with each text made JSON once."""
    names = ("trajectory_id", "step_index", "name", "value", "rationale")
    known: dict[str | None, str] = {None: "null"}
    last, run_text = None, "null"
    for run, step, name, value, why in zip(*(given[n].to_pylist() for n in names), strict=True):
        if run != last:
            last, run_text = run, canonical_json(run)
            known = {None: "null"} if len(known) > 10_000 else known
        for text in (name, why):
            if text not in known:
                known[text] = canonical_json(text)
        place = "null" if step is None else step
        number = (
            repr(value) if value is not None and math.isfinite(value) else canonical_json(value)
        )
        said = f"[{run_text},{place},{known[name]},{number},null,{known[why]}{ends}"
        yield hashlib.sha256(said.encode()).hexdigest()[:32]


def _number(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return canonical_json(value)
    return repr(value)
