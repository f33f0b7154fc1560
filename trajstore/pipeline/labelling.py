"""Late outcomes and scores from a file: CSV, JSON, JSON Lines or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trajstore.errors import RecordError, SchemaError
from trajstore.importers import Record, Source
from trajstore.schema import OUTCOME, Label
from trajstore.store import Store

_TRUE = {"true", "t", "yes", "1", "1.0", "pass", "passed", "success", "resolved"}
_FALSE = {"false", "f", "no", "0", "0.0", "fail", "failed", "failure", "unresolved"}
_KNOWN = ("trajectory_id", "success", "reward", "value", "name", "step_index", "rationale")
_BATCH = 10_000


@dataclass
class LabelReport:
    """What a label file did."""

    labels: int = 0
    """Labels written."""
    already: int = 0
    """Labels that were there already."""
    unknown: list[str] = field(default_factory=list)
    """Ids that no trajectory has (yet); their labels are kept and count once it comes."""
    problems: list[str] = field(default_factory=list)
    """Rows that could not be read, with their place."""
    snapshot: int = 0
    """Snapshot after it."""


def label_from_file(
    store: Store,
    path: Path,
    *,
    evaluator: str,
    evaluator_version: str | None = None,
    name: str = OUTCOME,
    strict: bool = False,
) -> LabelReport:
    """Append the labels of a file.

    Args:
        store: where to.
        path: rows with ``trajectory_id`` and ``success``, ``reward`` (or ``value``) or both;
            optional ``name``, ``step_index``, ``rationale``, ``created_at``.
        evaluator: who judged.
        evaluator_version: version of the evaluator.
        name: what is judged, where a row does not say.
        strict: stop at the first row that cannot be read; nothing of the file is stored then.

    Raises:
        SchemaError: the file has no column ``trajectory_id``.
        RecordError: in strict mode, at the first bad row.
    """
    report = LabelReport()
    labels = list(_labels(path, report, evaluator, evaluator_version, name, strict=strict))
    for start in range(0, len(labels), _BATCH):
        done = store.label(labels[start : start + _BATCH])
        report.labels += done.labels
        report.already += done.labels_already
    report.snapshot = store.snapshot()
    report.unknown = _unknown(store, {label.trajectory_id for label in labels})
    return report


def _labels(
    path: Path,
    report: LabelReport,
    evaluator: str,
    version: str | None,
    name: str,
    *,
    strict: bool,
) -> Iterator[Label]:
    for place, row in _rows(path):
        try:
            yield _label(row, evaluator, version, name)
        except (KeyError, ValueError, TypeError) as error:
            problem = f"{path}:{place}: {error}"
            if strict:
                raise RecordError(problem, path=path, line=place) from error
            report.problems.append(problem)


def _rows(path: Path) -> Iterable[tuple[int, Mapping[str, Any]]]:
    source = Source(path)
    if source.shape == "parquet":
        _need_id(path, pq.read_schema(path).names)
        batches = pq.ParquetFile(path).iter_batches()
        yield from enumerate((row for b in batches for row in b.to_pylist()), 1)
    elif source.shape in {"lines", "array", "object"}:
        for record in source.records():
            if not isinstance(record, Record):
                raise SchemaError(str(record), path=path, line=record.line)
            if not isinstance(record.value, dict):
                raise SchemaError(f"{path}: each row must be a JSON object", path=path)
            yield record.line or record.index + 1, record.value
    else:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            _need_id(path, reader.fieldnames or [])
            yield from ((reader.line_num, {k: v for k, v in r.items() if v != ""}) for r in reader)


def _need_id(path: Path, names: Iterable[str]) -> None:
    listed = list(names)
    if "trajectory_id" not in listed:
        message = (
            f"{path} has no column 'trajectory_id'; its columns are {', '.join(listed)}. "
            f"Known columns: {', '.join(_KNOWN)}"
        )
        raise SchemaError(message, path=path)


def _label(row: Mapping[str, Any], evaluator: str, version: str | None, name: str) -> Label:
    if not row.get("trajectory_id"):
        raise ValueError("the row has no trajectory_id")
    value = row.get("reward", row.get("value"))
    success = _verdict(row.get("success"))
    if value is None and success is None:
        raise ValueError("the row has neither success nor reward")
    step = row.get("step_index")
    return Label(
        trajectory_id=str(row["trajectory_id"]),
        evaluator=str(row.get("evaluator") or evaluator),
        evaluator_version=row.get("evaluator_version") or version,
        name=str(row.get("name") or name),
        value=None if value is None else float(value),
        success=success,
        step_index=None if step is None else int(step),
        rationale=row.get("rationale"),
        created_at=_time(row.get("created_at")),
    )


def _verdict(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text in {"", "null", "none", "unknown"}:
        return None
    raise ValueError(f"success must be true, false or empty, not {value!r}")


def _time(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    parsed = datetime.fromisoformat(str(value))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _unknown(store: Store, ids: set[str]) -> list[str]:
    listed = sorted(ids)
    known: set[str] = set()
    for start in range(0, len(listed), 1000):
        quoted = ", ".join("'" + i.replace("'", "''") + "'" for i in listed[start : start + 1000])
        rows = store.query(
            f"SELECT trajectory_id FROM trajectories WHERE trajectory_id IN ({quoted})"
        ).read_all()
        known.update(rows.column(0).to_pylist())
    return [i for i in listed if i not in known]
