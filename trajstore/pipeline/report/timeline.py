"""When runs started, and how they ended."""

from __future__ import annotations

import math
from typing import Any

from trajstore.pipeline.report.bars import legend
from trajstore.pipeline.report.intervals import rate_of
from trajstore.pipeline.report.markup import Markup, details, figure, joined, note, table
from trajstore.pipeline.report.plots import Words, bars
from trajstore.pipeline.report.scope import OUTCOMES, Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.text import counted, percent

_MOST_BARS = 60
_MARKS = 5
_HOUR = 3600.0
_UNITS = (
    ("minute", 60.0, "%H:%M"),
    ("hour", _HOUR, "%m-%d %H:00"),
    ("day", 24 * _HOUR, "%Y-%m-%d"),
    ("week", 168 * _HOUR, "%Y-%m-%d"),
    ("month", 730 * _HOUR, "%Y-%m"),
    ("year", 8766 * _HOUR, "%Y"),
    ("decade", 87660 * _HOUR, "%Y"),
    ("century", 876600 * _HOUR, "%Y"),
)
_RANGE = """
    SELECT count(started_at) AS n, count(*) - count(started_at) AS without,
        epoch(min(started_at)) AS first, epoch(max(started_at)) AS last,
        epoch(quantile_disc(started_at, 0.01)) AS low,
        epoch(quantile_disc(started_at, 0.99)) AS high
    FROM runs"""


def timeline(scope: Scope) -> Section | Absent:
    """Runs by the time they started, in up to 60 periods of equal length."""
    title = "Over time"
    spread = scope.row(_RANGE)
    if not spread["n"]:
        return Absent(name="timeline", title=title, why="no run says when it started")
    first, last = spread["first"], spread["last"]
    if last - first > 20 * (spread["high"] - spread["low"]) > 0:
        first, last = spread["low"], spread["high"]
    fits = (u for u in _UNITS if (last - first) / u[1] < _MOST_BARS - 1)
    unit, _, form = next(fits, _UNITS[-1])
    facts = {"unit": unit, "without_time": spread["without"], **_periods(scope, unit, first, last)}
    facts["outside"] = spread["n"] - sum(p["runs"] for p in facts["periods"])
    return Section(name="timeline", title=title, facts=facts, body=_drawn(facts, form))


def _periods(scope: Scope, unit: str, first: float, last: float) -> dict[str, Any]:
    """Every period from the first to the last one, also those without a run."""
    start, end = (f"epoch_ms({1000 * math.floor(at)}::BIGINT)" for at in (first, last))
    start = f"date_trunc('{unit}', {start})"
    named = f"""
        SELECT strftime({start} + INTERVAL 1 {unit} * place, '%Y-%m-%d %H:%M') AS start, place
        FROM (SELECT unnest(range(date_diff('{unit}', {start}, {end}) + 1)) AS place)"""
    counts = ", ".join(f"count(*) FILTER (outcome = '{o}') AS {o}" for o in OUTCOMES)
    found = f"""
        SELECT date_diff('{unit}', {start}, started_at) AS place, count(*) AS runs, {counts}
        FROM runs WHERE epoch(started_at) BETWEEN {first!r} AND {last!r} GROUP BY 1"""
    columns = ", ".join(f"coalesce({c}, 0) AS {c}" for c in ("runs", *OUTCOMES))
    return {
        "periods": scope.rows(
            f"""SELECT start, {columns} FROM ({named}) LEFT JOIN ({found}) USING (place)
            ORDER BY place"""
        )
    }


def _drawn(facts: dict[str, Any], form: str) -> Markup:
    periods = facts["periods"]
    words = Words(
        key="timeline",
        title=f"Runs by the {facts['unit']} they started in",
        about="A bar for each period, parted by outcome.",
        x=f"{facts['unit']} of the start (UTC)",
        y="runs",
    )
    labels = [_label(p["start"], form) for p in periods]
    step = -(-len(labels) // _MARKS)
    marks = [(i + 0.5, labels[i]) for i in range(0, len(labels), step)]
    rows = (
        (
            _label(p["start"], form),
            *(f"{p[o]:,}" for o in OUTCOMES),
            percent(rate_of(p["success"], p["success"] + p["failure"])),
        )
        for p in periods
        if p["runs"]
    )
    said = f"{counted(sum(p['runs'] for p in periods), 'run')} shown."
    if facts["without_time"]:
        said += f" {counted(facts['without_time'], 'run')} without a start time left out."
    if facts["outside"]:
        said += f" {counted(facts['outside'], 'run')} far before or after left out."
    shown = table((facts["unit"], *OUTCOMES, "success rate"), rows, caption=words.title)
    key = legend([(o, o) for o in OUTCOMES])
    chart = bars(words, labels, [(o, [p[o] for p in periods]) for o in OUTCOMES], marks)
    return figure(joined([key, chart]), about=note(said), data=details("As a table", shown))


def _label(start: str, form: str) -> str:
    """The part of ``2026-03-01 12:00`` that the form names."""
    date, _, clock = start.rpartition(" ")
    year, month, day = date.rsplit("-", 2)
    parts = {"%Y": year, "%m": month, "%d": day, "%H": clock[:2], "%M": clock[3:]}
    for sign, text in parts.items():
        form = form.replace(sign, text)
    return form
