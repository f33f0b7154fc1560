"""Outcomes per task: which tasks are solved always, sometimes, never."""

from __future__ import annotations

from typing import Any

from trajstore.pipeline.report.bars import legend, shares
from trajstore.pipeline.report.markup import Markup, details, figure, joined, note, table, tag
from trajstore.pipeline.report.plots import Words, bars
from trajstore.pipeline.report.scope import OUTCOMES, Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.text import counted, percent, short

MOST_BARS = 60
"""Up to so many tasks each has a bar; of more a histogram and lists are shown."""

_LISTED = 15
_TASKS = """
    WITH counts AS (
        SELECT task_id, count(*) AS attempts, count(*) FILTER (success) AS success,
            count(*) FILTER (NOT success) AS failure,
            count(*) FILTER (success IS NULL) AS unknown
        FROM runs GROUP BY task_id),
    tasks AS (
        SELECT *, success + failure AS known, success / nullif(success + failure, 0) AS rate,
            CASE WHEN known = 0 THEN 'unknown' WHEN known = 1 THEN 'one_known'
                WHEN failure = 0 THEN 'all_success' WHEN success = 0 THEN 'none_success'
                ELSE 'mixed' END AS kind
        FROM counts)"""
_KINDS = {
    "all_success": "every known attempt succeeds",
    "mixed": "some succeed, some fail",
    "none_success": "no known attempt succeeds",
    "one_known": "a single attempt with a known outcome",
    "unknown": "no known outcome",
}
_LISTS = {
    "hardest": (
        "Hardest: the lowest success rate, then the most attempts",
        "rate < 1 ORDER BY rate, known DESC, task_id",
    ),
    "mixed": (
        "Mixed: success and failure closest to even; what pairs and groups learn from most",
        "kind = 'mixed' ORDER BY abs(rate - 0.5), known DESC, task_id",
    ),
    "zero_variance": (
        "Zero variance, always solved: the most attempts first",
        "kind = 'all_success' ORDER BY known DESC, task_id",
    ),
}
_RATES = [
    "never",
    "above 0, below 10 %",
    *(f"{10 * i} to {10 * i + 9} %" for i in range(1, 9)),
    "90 % or more, not always",
    "always",
]


def tasks(scope: Scope) -> Section | Absent:
    """Tasks by outcome; each with a bar, or a histogram of their success rates and lists."""
    title = "Outcomes per task"
    found = scope.rows(f"{_TASKS} SELECT kind, count(*) AS n FROM tasks GROUP BY 1")
    kinds = dict.fromkeys(_KINDS, 0) | {r["kind"]: r["n"] for r in found}
    number = sum(kinds.values())
    if not number:
        return Absent(name="tasks", title=title, why="there is no run")
    facts: dict[str, Any] = {"tasks": number, "kinds": kinds}
    if number <= MOST_BARS:
        facts["each"] = _rows(scope, "true ORDER BY rate DESC NULLS LAST, success DESC, task_id")
        shown = [_bars(facts["each"], "Every task, the most solved first")]
    else:
        facts["rates"] = _rates(scope)
        facts["lists"] = {n: _rows(scope, f"{c} LIMIT {_LISTED}") for n, (_, c) in _LISTS.items()}
        lists = facts["lists"].items()
        shown = [_histogram(facts["rates"])] if any(facts["rates"]) else []
        shown += [_list(name, rows) for name, rows in lists if rows]
    body = joined([_summary(kinds), *shown])
    return Section(name="tasks", title=title, facts=facts, body=body)


def _rows(scope: Scope, condition: str) -> list[dict[str, Any]]:
    return scope.rows(
        f"{_TASKS} SELECT task_id, attempts, success, failure, unknown FROM tasks WHERE {condition}"
    )


def _summary(kinds: dict[str, int]) -> Markup:
    lines = (
        tag("li", tag("b", f"{kinds[kind]:,}"), f" {words}")
        for kind, words in _KINDS.items()
        if kinds[kind]
    )
    same = kinds["all_success"] + kinds["none_success"]
    words = (
        f"In {counted(same, 'task')} with two or more known outcomes all are the same: "
        "group-relative advantages are zero there, and outcomes make no pair."
    )
    return joined([tag("ul", *lines, class_="kinds"), note(words) if same else None])


def _bars(rows: list[dict[str, Any]], caption: str) -> Markup:
    cells = (
        (
            short(row["task_id"], 80),
            shares([(o, row[o] / row["attempts"]) for o in OUTCOMES]),
            f"{row['success']:,} of {row['success'] + row['failure']:,}",
            f"{row['unknown']:,}",
        )
        for row in rows
    )
    heads = ("task", "succeeded", "unknown")
    key = legend([(o, o) for o in OUTCOMES])
    return joined([key, table(heads, cells, caption=caption, kinds="bnn")])


def _list(name: str, rows: list[dict[str, Any]]) -> Markup:
    caption = _LISTS[name][0]
    return details(caption, _bars(rows, caption))


def _rates(scope: Scope) -> list[int]:
    place = "CASE WHEN rate = 0 THEN 0 WHEN rate = 1 THEN 11 ELSE 1 + floor(rate * 10)::INT END"
    found = scope.rows(
        f"{_TASKS} SELECT {place} AS place, count(*) AS n FROM tasks WHERE known > 0 GROUP BY 1"
    )
    counts = {r["place"]: r["n"] for r in found}
    return [counts.get(place, 0) for place in range(len(_RATES))]


def _histogram(counts: list[int]) -> Markup:
    words = Words(
        key="task-rates",
        title="Tasks by their success rate",
        about="One bar for tasks never solved, one for tasks always solved, ten between.",
        x="success rate of the task, over known outcomes",
        y="tasks",
    )
    marks = [(0.5, "never"), *((i + 1.0, f"{10 * i} %") for i in (2, 4, 6, 8)), (11.5, "always")]
    rows = ((label, f"{n:,}") for label, n in zip(_RATES, counts, strict=True))
    shown = table(("success rate", "tasks"), rows, caption=words.title)
    known = sum(counts)
    never, always = (percent(counts[i] / known if known else None) for i in (0, -1))
    said = note(
        f"Of {counted(known, 'task')} with a known outcome {never} are never solved, "
        f"{always} always."
    )
    chart = bars(words, _RATES, [("accent", counts)], marks)
    return figure(chart, about=said, data=details("As a table", shown))
