"""Rewards: how they are spread, by outcome."""

from __future__ import annotations

from typing import Any

from trajstore.pipeline.report.bars import legend
from trajstore.pipeline.report.markup import Markup, details, figure, joined, note, table
from trajstore.pipeline.report.plots import Tick, Words, bars
from trajstore.pipeline.report.scales import bins
from trajstore.pipeline.report.scope import OUTCOMES, Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.text import counted

_MOST_VALUES = 12
_SHOWN_LABELS = 6
_LABEL = "format('{:.4g}', reward + 0)"
_VALUES = """
    SELECT reward, outcome, count(*) AS n FROM runs WHERE reward IS NOT NULL GROUP BY ALL"""
_RANGE = """
    SELECT min(reward) AS smallest, max(reward) AS largest, quantile_disc(reward, 0.01) AS low,
        quantile_disc(reward, 0.99) AS high
    FROM runs"""


def rewards(scope: Scope) -> Section | Absent:
    """How many runs got which reward.

    Up to 12 distinct values, rounded to four digits, have a bar each; more are put in ranges.
    """
    title = "Rewards"
    values = scope.rows(
        f"""SELECT {_LABEL} AS label FROM ({_VALUES}) GROUP BY 1 ORDER BY min(reward)
        LIMIT {_MOST_VALUES + 1}"""
    )
    if not values:
        return Absent(name="rewards", title=title, why="no run has a reward")
    if len(values) <= _MOST_VALUES:
        labels = [v["label"] for v in values]
        place = f"list_position({labels!r}, {_LABEL}) - 1"
        step = -(-len(labels) // _SHOWN_LABELS)
        marks = [(i + 0.5, labels[i]) for i in range(0, len(labels), step)]
    else:
        ranges = bins(**scope.row(_RANGE), whole=False)
        labels = [ranges.label(i) for i in range(ranges.count)]
        place, marks = ranges.sql("reward"), ranges.ticks()
    found = scope.rows(
        f"""SELECT outcome, {place} AS place, sum(n) AS n FROM ({_VALUES}) GROUP BY ALL"""
    )
    counts = {(r["outcome"], r["place"]): r["n"] for r in found}
    series = {o: [counts.get((o, i), 0) for i in range(len(labels))] for o in OUTCOMES}
    facts = {
        "with_reward": sum(map(sum, series.values())),
        "without_reward": scope.row("SELECT count(*) AS n FROM runs WHERE reward IS NULL")["n"],
        "values": labels,
        "counts": series,
    }
    return Section(name="rewards", title=title, facts=facts, body=_drawn(facts, marks))


def _drawn(facts: dict[str, Any], marks: list[Tick]) -> Markup:
    words = Words(
        key="rewards",
        title="Runs by their reward",
        about="A bar for each value or range of the reward, parted by outcome.",
        x="reward of the whole run",
        y="runs",
    )
    labels, series = facts["values"], facts["counts"]
    rows = ((label, *(f"{series[o][i]:,}" for o in OUTCOMES)) for i, label in enumerate(labels))
    said = f"{counted(facts['with_reward'], 'run')} with a reward"
    without = facts["without_reward"]
    said += f"; {counted(without, 'run')} without one left out." if without else "."
    shown = table(("reward", *OUTCOMES), rows, caption=words.title)
    key = legend([(o, o) for o in OUTCOMES])
    return figure(
        joined([key, bars(words, labels, list(series.items()), marks)]),
        about=note(said),
        data=details("As a table", shown),
    )
