"""What runs took, by outcome: steps, calls, tokens, money, time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trajstore.pipeline.report.markup import Markup, details, joined, note, table, tag
from trajstore.pipeline.report.plots import Spread, Words, spreads
from trajstore.pipeline.report.scales import Bins, bins
from trajstore.pipeline.report.scope import OUTCOMES, Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.text import compact, counted

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class _Measure:
    column: str
    title: str
    unit: str
    whole: bool
    condition: str = "true"


_MEASURES = (
    _Measure("n_agent_steps", "Agent steps", "agent steps", True, "n_agent_steps > 0"),
    _Measure("n_tool_calls", "Tool calls", "tool calls", True, "n_agent_steps > 0"),
    _Measure("tokens", "Tokens", "tokens read and written", True),
    _Measure("completion_tokens", "Tokens written", "tokens written", True),
    _Measure("cost_usd", "Cost", "US dollars", False),
    _Measure("duration_s", "Wall time", "seconds", False),
)


def measures(scope: Scope) -> Section | Absent:
    """Distributions of what runs took, a small chart each, success and failure apart."""
    title = "Steps, tokens, cost and time by outcome"
    facts, charts = {}, []
    for measure in _MEASURES:
        fact, chart = _measured(scope, measure)
        if fact is not None:
            facts[measure.column] = fact
            charts.append(chart)
    if not facts:
        why = "no run says how many steps, tokens, dollars or seconds it took"
        return Absent(name="measures", title=title, why=why)
    said = note(
        "Each row shows runs of one outcome as shares of their own number; the line is the median."
    )
    body = joined([said, tag("div", *charts, class_="grid2")])
    return Section(name="measures", title=title, facts=facts, body=body)


def _measured(scope: Scope, measure: _Measure) -> tuple[dict[str, Any] | None, Markup | None]:
    value = f"{measure.column}::DOUBLE"
    taken = f"{measure.column} IS NOT NULL AND {measure.condition}"
    spread = scope.row(
        f"""SELECT min({value}) AS smallest, max({value}) AS largest,
            quantile_disc({value}, 0.01) AS low, quantile_disc({value}, 0.99) AS high
        FROM runs WHERE {taken}"""
    )
    if spread["smallest"] is None:
        return None, None
    ranges = bins(**spread, whole=measure.whole)
    counted_rows = scope.rows(
        f"""SELECT outcome, {ranges.sql(measure.column)} AS place, count(*) AS n
        FROM runs WHERE {taken} GROUP BY ALL"""
    )
    summary = scope.rows(
        f"""SELECT outcome, count(*) AS n, quantile_disc({value}, {list(_QUANTILES)}) AS quantiles
        FROM runs WHERE {taken} GROUP BY 1"""
    )
    counts = {(r["outcome"], r["place"]): r["n"] for r in counted_rows}
    by = {r["outcome"]: r for r in summary}
    fact = {
        "bins": [ranges.label(i) for i in range(ranges.count)],
        "outcomes": {
            o: {
                "runs": by[o]["n"],
                "quantiles": dict(zip(map(str, _QUANTILES), by[o]["quantiles"], strict=True)),
                "counts": [counts.get((o, i), 0) for i in range(ranges.count)],
            }
            for o in OUTCOMES
            if o in by
        },
    }
    return fact, _drawn(measure, ranges, fact)


def _drawn(measure: _Measure, ranges: Bins, fact: dict[str, Any]) -> Markup:
    lanes = []
    for outcome, about in fact["outcomes"].items():
        low, first, median, third, high = about["quantiles"].values()
        said = (
            f"{outcome}: half of {counted(about['runs'], 'run')} at {compact(median)} or less, the "
            f"middle half {compact(first)} to {compact(third)}, 90 % {compact(low)} to "
            f"{compact(high)}"
        )
        lanes.append(Spread(outcome, about["counts"], ranges.place(median), said))
    words = Words(
        key=f"m-{measure.column.replace('_', '-')}",
        title=f"{measure.title} by outcome",
        about="; ".join(lane.said for lane in lanes),
        x=measure.unit + (" (logarithmic)" if ranges.log else ""),
        y="share of runs",
    )
    heads = ("outcome", "runs", "5 %", "25 %", "median", "75 %", "95 %")
    rows = (
        (o, f"{a['runs']:,}", *map(compact, a["quantiles"].values()))
        for o, a in fact["outcomes"].items()
    )
    return tag(
        "figure",
        tag("h3", measure.title),
        spreads(words, lanes, ranges.ticks()),
        details("As a table", table(heads, rows, caption=words.title)),
    )
