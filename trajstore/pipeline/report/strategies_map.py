"""The diversity map: runs near each other went about their tasks in the same way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trajstore.errors import MissingDependencyError
from trajstore.filters import Frame
from trajstore.filters.sequence_kernels import Bigrams
from trajstore.filters.strategies import strategies
from trajstore.pipeline.report.bars import legend
from trajstore.pipeline.report.intervals import rate_of
from trajstore.pipeline.report.layout import classical_layout
from trajstore.pipeline.report.markup import Markup, details, figure, joined, note, table, tag
from trajstore.pipeline.report.plots import WIDTH, Words, picture
from trajstore.pipeline.report.scope import OUTCOMES, Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.text import counted, percent, short

MOST_POINTS = 1_000
"""Runs in the sample at most."""

_A_READ = 200
_LISTED = 15
_HEIGHT, _MARGIN = 440.0, 54.0
_GOLDEN = math.pi * (3 - math.sqrt(5))
_NEAR, _APART, _WIDEST_DISC = 3.0, 4.2, 46.0
_CALLING = "n_tool_calls > 0"


@dataclass(frozen=True, slots=True)
class _Point:
    """One run of the sample."""

    id: str
    task: str
    outcome: str
    steps: int
    words: tuple[str, ...]
    x: float = 0.0
    y: float = 0.0


def strategies_map(scope: Scope, *, seed: int) -> Section | Absent:
    """A seeded sample of runs, laid out by the likeness of their sequences of tool calls."""
    title = "Diversity of strategies"
    counts = scope.row(f"SELECT count(*) FILTER ({_CALLING}) AS n, count(*) AS all FROM runs")
    if not counts["n"]:
        return Absent(name="strategies", title=title, why="no agent called a tool")
    rows = _sample(scope, seed)
    try:
        points, shown = _placed(scope, rows)
    except MissingDependencyError as error:
        return Absent(name="strategies", title=title, why=str(error).removesuffix("."))
    facts = {
        "sampled": len(points),
        "with_tool_calls": counts["n"],
        "without_tool_calls": counts["all"] - counts["n"],
        "seed": seed,
        "distinct_strategies": len({p.words for p in points}),
        "shown_share": shown,
        "most_common": _common(points),
    }
    return Section(name="strategies", title=title, facts=facts, body=_drawn(points, facts))


def _sample(scope: Scope, seed: int) -> list[dict[str, Any]]:
    """Up to 1,000 runs with calls: those whose hash of seed and id is lowest."""
    return scope.rows(
        f"""SELECT trajectory_id, task_id, outcome, n_agent_steps FROM (
            SELECT *, md5_number_lower(concat('{int(seed)}', ':', trajectory_id)) AS draw
            FROM runs WHERE {_CALLING} ORDER BY draw, trajectory_id LIMIT {MOST_POINTS})
        ORDER BY trajectory_id"""
    )


def _placed(scope: Scope, rows: list[dict[str, Any]]) -> tuple[list[_Point], float | None]:
    ids = [r["trajectory_id"] for r in rows]
    parts = [
        strategies(Frame(pa.table({"trajectory_id": ids[at : at + _A_READ]}), scope.steps))
        for at in range(0, len(ids), _A_READ)
    ]
    words = pa.concat_arrays(parts)
    places, shown = classical_layout(Bigrams(words).block(slice(None)))
    points = [
        _Point(
            row["trajectory_id"],
            row["task_id"],
            row["outcome"],
            row["n_agent_steps"],
            tuple(w.as_py() for w in said),
            float(x),
            float(y),
        )
        for row, said, (x, y) in zip(rows, words, places, strict=True)
    ]
    return points, shown


def _common(points: Sequence[_Point]) -> list[dict[str, Any]]:
    """The strategies that occur most often in the sample."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for point in points:
        groups.setdefault(point.words, []).append(point.outcome)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        {
            "strategy": _said(words),
            "runs": len(outcomes),
            **{o: outcomes.count(o) for o in OUTCOMES},
        }
        for words, outcomes in ordered[:_LISTED]
    ]


def _said(words: Sequence[str]) -> str:
    """A sequence of calls in words, a call that is repeated with how often."""
    parts = []
    for word, same in itertools.groupby(words):
        times = len(list(same))
        parts.append(short(word, 40) + (f" \N{MULTIPLICATION SIGN}{times}" if times > 1 else ""))
    return short(" → ".join(parts), 160)


def _drawn(points: Sequence[_Point], facts: dict[str, Any]) -> Markup:
    words = Words(
        key="map",
        title="Runs by likeness of strategy",
        about=f"{counted(len(points), 'run')} as points; the nearer two are, the more alike their "
        "sequences of tool calls. The table below lists the most common sequences.",
        x="",
        y="",
    )
    marks = (_mark(point, x, y) for point, x, y in _spots(points))
    shown = picture(words, _HEIGHT, tag("g", *marks), class_="chart map")
    rows = (
        (
            c["strategy"],
            f"{c['runs']:,}",
            percent(rate_of(c["success"], c["success"] + c["failure"])),
        )
        for c in facts["most_common"]
    )
    common = table(
        ("sequence of calls", "runs", "success rate"), rows, caption="Most common strategies"
    )
    pointed = tag("p", "Point at a run, or tap it, to see which it is.", class_="picked")
    return figure(
        joined([legend([(o, o) for o in OUTCOMES]), shown]),
        about=joined([tag("div", pointed, aria_live="polite"), note(_explained(facts))]),
        data=details("Most common strategies", common),
    )


def _explained(facts: dict[str, Any]) -> str:
    sampled, calling = facts["sampled"], facts["with_tool_calls"]
    what = (
        f"A random sample of {sampled:,} of the {counted(calling, 'run')} that call a tool (seed "
        f"{facts['seed']})"
        if sampled < calling
        else f"All {counted(calling, 'run')} that call a tool"
    )
    said = f"{what}, {counted(facts['distinct_strategies'], 'strategy', 'strategies')} among them."
    said += (
        " Near means alike: Jaccard similarity of pairs of neighbouring calls (tool, and the "
        "program that a shell command starts), laid out by classical scaling. Runs with the same "
        "or nearly the same place form a disc; failures are diamonds, unknown outcomes rings."
    )
    if facts["shown_share"] is not None:
        share = percent(facts["shown_share"])
        said += f" The two axes have no unit and show {share} of the differences."
    if facts["without_tool_calls"]:
        said += f" {counted(facts['without_tool_calls'], 'run')} without a call left out."
    return said


def _spots(points: Sequence[_Point]) -> Iterator[tuple[_Point, float, float]]:
    """Where each point is drawn; those within 3 units form a disc, as seeds do."""
    left, right = min(p.x for p in points), max(p.x for p in points)
    low, high = min(p.y for p in points), max(p.y for p in points)
    wide, tall = WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN
    scale = min(wide / max(right - left, 1e-3), tall / max(high - low, 1e-3))
    places: dict[tuple[int, int], list[_Point]] = {}
    for point in points:
        across = WIDTH / 2 + scale * (point.x - (left + right) / 2)
        down = _HEIGHT / 2 - scale * (point.y - (low + high) / 2)
        places.setdefault((round(across / _NEAR), round(down / _NEAR)), []).append(point)
    for (column, row), there in sorted(places.items()):
        across, down = _NEAR * column, _NEAR * row
        ordered = sorted(there, key=lambda p: (OUTCOMES.index(p.outcome), p.id))
        apart = min(_APART, _WIDEST_DISC / math.sqrt(len(ordered)))
        for number, point in enumerate(ordered):
            far = apart * math.sqrt(number)
            angle = number * _GOLDEN
            yield point, across + far * math.cos(angle), down + far * math.sin(angle)


def _mark(point: _Point, x: float, y: float) -> Markup:
    said = tag(
        "title",
        f"{point.outcome}, {counted(point.steps, 'agent step')} · task {short(point.task, 80)} · "
        f"run {short(point.id, 80)}",
    )
    class_ = f"p-{point.outcome}"
    if point.outcome == "failure":
        path = f"M{x:.1f} {y - 3.8:.1f}l3.8 3.8-3.8 3.8-3.8-3.8z"
        return tag("path", said, d=path, class_=class_)
    return tag("circle", said, cx=x, cy=y, r=3.0, class_=class_)
