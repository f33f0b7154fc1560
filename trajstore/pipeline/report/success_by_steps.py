"""Success against steps: whether longer runs succeed more or less often."""

from __future__ import annotations

from typing import Any

from trajstore.pipeline.report.intervals import rate_of, wilson
from trajstore.pipeline.report.markup import Markup, details, figure, note, table
from trajstore.pipeline.report.plots import Rate, Words, rates
from trajstore.pipeline.report.scales import Bins, bins
from trajstore.pipeline.report.scope import Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.text import counted, percent

_TAKEN = "success IS NOT NULL AND n_agent_steps > 0"
_RANGE = f"""
    SELECT count(*) AS n, min(n_agent_steps) AS smallest, max(n_agent_steps) AS largest,
        quantile_disc(n_agent_steps, 0.01) AS low, quantile_disc(n_agent_steps, 0.99) AS high
    FROM runs WHERE {_TAKEN}"""
_STEPLESS = "SELECT count(*) AS n FROM runs WHERE success IS NOT NULL AND n_agent_steps = 0"


def success_by_steps(scope: Scope) -> Section | Absent:
    """The success rate by number of agent steps, with its interval and the number of runs."""
    title = "Success against steps"
    spread = scope.row(_RANGE)
    number = spread.pop("n")
    if not number:
        why = "no run has both a known outcome and an agent step"
        return Absent(name="success-by-steps", title=title, why=why)
    ranges = bins(**spread, whole=True)
    found = scope.rows(
        f"""SELECT {ranges.sql("n_agent_steps")} AS place, count(*) AS n,
            count(*) FILTER (success) AS success FROM runs WHERE {_TAKEN} GROUP BY 1"""
    )
    counts = {r["place"]: (r["success"], r["n"]) for r in found}
    facts = {
        "runs": number,
        "runs_without_agent_steps": scope.row(_STEPLESS)["n"],
        "bins": [_fact(ranges, place, *counts.get(place, (0, 0))) for place in range(ranges.count)],
    }
    return Section(name="success-by-steps", title=title, facts=facts, body=_drawn(facts, ranges))


def _fact(ranges: Bins, place: int, successes: int, known: int) -> dict[str, Any]:
    low, high = wilson(successes, known)
    return {
        "agent_steps": ranges.label(place),
        "known": known,
        "success": successes,
        "success_rate": rate_of(successes, known),
        "low": low,
        "high": high,
    }


def _drawn(facts: dict[str, Any], ranges: Bins) -> Markup:
    words = Words(
        key="by-steps",
        title="Success rate by number of agent steps",
        about="A line with its 95 % interval as a band; below it how many runs each point is of.",
        x="agent steps",
        y="runs",
    )
    points = [
        Rate(f"{b['agent_steps']} steps", b["success_rate"], b["low"], b["high"], b["known"])
        for b in facts["bins"]
    ]
    rows = (
        (
            b["agent_steps"],
            f"{b['known']:,}",
            f"{b['success']:,}",
            percent(b["success_rate"]),
            f"{percent(b['low'])} to {percent(b['high'])}",
        )
        for b in facts["bins"]
        if b["known"]
    )
    heads = ("agent steps", "known", "succeeded", "rate", "95 % interval")
    return figure(
        rates(words, points, ranges.ticks()),
        about=note(_said(facts)),
        data=details("As a table", table(heads, rows, caption=words.title)),
    )


def _said(facts: dict[str, Any]) -> str:
    said = (
        f"{counted(facts['runs'], 'run')} with a known outcome. Harder tasks take more steps too, "
        "so a falling line does not say that steps do harm."
    )
    without = facts["runs_without_agent_steps"]
    if without:
        said += f" {counted(without, 'run')} without a recorded agent step left out."
    return said
