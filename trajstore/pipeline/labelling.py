"""Late outcomes and scores from a file: CSV, JSON, JSON Lines or Parquet."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trajstore.errors import RecordError, SchemaError
from trajstore.importers import Problem, Record, Source
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
    missing_steps: list[str] = field(default_factory=list)
    """Steps that the run of that id does not have (yet), in words; their labels are kept."""
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
    _say_what_is_not_there(store, labels, report)
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
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            at = "" if place is None else f":{place}"
            problem = f"{path}{at}: {error}"
            if strict:
                raise RecordError(problem, path=path, line=place) from error
            report.problems.append(problem)


def _rows(path: Path) -> Iterable[tuple[int | None, Mapping[str, Any] | Problem]]:
    """The rows and their places; a Problem where there is a row that cannot be read."""
    source = Source(path)
    if source.shape == "parquet":
        _need_id(path, pq.read_schema(path).names)
        batches = pq.ParquetFile(path).iter_batches()
        yield from enumerate((row for b in batches for row in b.to_pylist()), 1)
    elif source.shape in {"lines", "array", "object"}:
        for record in source.records():
            if isinstance(record, Record):
                yield record.line or record.index + 1, record.value
            else:
                yield record.line, record
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


def _label(
    row: Mapping[str, Any] | Problem, evaluator: str, version: str | None, name: str
) -> Label:
    if not isinstance(row, Mapping):
        otherwise = f"each row must be a JSON object, not {row!r:.60}"
        raise TypeError(row.reason if isinstance(row, Problem) else otherwise)
    if not row.get("trajectory_id"):
        raise ValueError("the row has no trajectory_id")
    value = row.get("reward", row.get("value"))
    success = _verdict(row.get("success"))
    if value is None and success is None:
        raise ValueError("the row has neither success nor reward")
    return Label(
        trajectory_id=str(row["trajectory_id"]),
        evaluator=str(row.get("evaluator") or evaluator),
        evaluator_version=row.get("evaluator_version") or version,
        name=str(row.get("name") or name),
        value=None if value is None else _finite(value),
        success=success,
        step_index=_step(row.get("step_index")),
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


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"reward must be a finite number or empty, not {value!r}")
    return number


def _step(value: Any) -> int | None:
    if value is None:
        return None
    number = int(value)
    if number < 0 or (isinstance(value, float) and value != number):
        raise ValueError(f"step_index must be a whole number from 0 on, not {value!r}")
    return number


def _time(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    parsed = datetime.fromisoformat(str(value))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _say_what_is_not_there(store: Store, labels: list[Label], report: LabelReport) -> None:
    known = _steps_of(store, {label.trajectory_id for label in labels})
    report.unknown = sorted({label.trajectory_id for label in labels} - known.keys())
    steps = {(label.trajectory_id, label.step_index) for label in labels}
    beyond = [(i, n) for i, n in steps if n is not None and i in known and n >= known[i]]
    report.missing_steps = [
        f"step {n} of {i}, which has {known[i]} step{'s' * (known[i] != 1)}"
        for i, n in sorted(beyond)
    ]


def _steps_of(store: Store, ids: set[str]) -> dict[str, int]:
    """How many steps each of these trajectories has; nothing for those that are not there."""
    listed = sorted(ids)
    known: dict[str, int] = {}
    for start in range(0, len(listed), 1000):
        quoted = ", ".join("'" + i.replace("'", "''") + "'" for i in listed[start : start + 1000])
        rows = store.query(
            f"SELECT trajectory_id, n_steps FROM trajectories WHERE trajectory_id IN ({quoted})"
        ).read_all()
        known.update(zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True))
    return known
