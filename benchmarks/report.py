"""Rows of results as Markdown tables (which also read well on a terminal) and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.measure import Row

_HEAD = (
    "store",
    "median",
    "range of runs",
    "trajstore is better by",
    "target",
    "met",
    "in CPU time",
    "better by",
    "note",
)


def tables(rows: Iterable[Row]) -> str:
    """One Markdown table a piece of work, in the order in which they were measured."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row.work, []).append(row)
    return "\n\n".join(f"### {work}\n\n{_table(found)}" for work, found in grouped.items())


def _table(rows: Sequence[Row]) -> str:
    cells = [_HEAD, *(_cells(r) for r in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
    kept = [i for i in range(len(_HEAD)) if any(line[i] for line in cells[1:])]
    lines = ["| " + " | ".join(line[i].ljust(widths[i]) for i in kept) + " |" for line in cells]
    rule = "| " + " | ".join("-" * widths[i] for i in kept) + " |"
    return "\n".join([lines[0], rule, *lines[1:]])


def _cells(row: Row) -> tuple[str, ...]:
    spread = f"{_number(min(row.runs))} - {_number(max(row.runs))}" if len(row.runs) > 1 else ""
    return (
        row.store,
        f"{_number(row.value)} {row.unit}",
        spread,
        "" if row.ratio is None else f"{_number(row.ratio)} x",
        "" if row.target is None else f"{_number(row.target)} x",
        {None: "", True: "yes", False: "NO"}[row.met],
        "" if row.cpu is None else f"{_number(row.cpu)} {row.unit}",
        "" if row.cpu_ratio is None else f"{_number(row.cpu_ratio)} x",
        row.note,
    )


def _number(value: float) -> str:
    """Three figures that matter.

    >>> [_number(v) for v in (1234567.0, 12.345, 0.01234)]
    ['1,234,567', '12.3', '0.0123']
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def summary(rows: Iterable[Row]) -> str:
    """How many targets are met, and which are not."""
    judged = [r for r in rows if r.met is not None]
    missed = [r for r in judged if not r.met]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} targets met."]
    lines += [
        f"- missed: {r.work} against {r.store}: {_number(r.ratio or 0)} x, "
        f"target {_number(r.target or 0)} x" + _in_cpu(r)
        for r in missed
    ]
    return "\n".join(lines)


def _in_cpu(row: Row) -> str:
    return "" if row.cpu_ratio is None else f" (in CPU time {_number(row.cpu_ratio)} x)"


def markdown(about: Mapping[str, str], rows: Sequence[Row], skipped: Sequence[str]) -> str:
    """The whole report as Markdown."""
    head = "\n".join(f"- {name}: {value}" for name, value in about.items())
    left_out = "".join(f"\n- not measured: {line}" for line in skipped)
    return f"## Results\n\n{head}{left_out}\n\n{tables(rows)}\n\n### Targets\n\n{summary(rows)}\n"


def write(
    folder: Path, about: Mapping[str, str], rows: Sequence[Row], skipped: Sequence[str]
) -> None:
    """Write ``store.md`` and ``store.json`` into a folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "store.md").write_text(markdown(about, rows, skipped), encoding="utf-8")
    report = {
        "about": dict(about),
        "not_measured": list(skipped),
        "rows": [{**asdict(r), "met": r.met} for r in rows],
    }
    (folder / "store.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
