"""Agents, models, sources and the like beside each other."""

from __future__ import annotations

from typing import Any

from trajstore.pipeline.report.bars import interval
from trajstore.pipeline.report.intervals import rate_of, wilson
from trajstore.pipeline.report.markup import Markup, joined, note, table, tag
from trajstore.pipeline.report.scope import Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.text import compact, counted, percent, short

MOST_GROUPS = 15
"""Groups that have a row, those with the most runs."""

_BY = ("agent", "model", "environment", "source", "policy_version")
_GROUPS = """
    SELECT {by} AS name, count(*) AS runs, count(DISTINCT task_id) AS tasks,
        count(success) AS known, count(*) FILTER (success) AS success,
        median(n_agent_steps) FILTER (n_agent_steps > 0) AS median_agent_steps,
        median(tokens) AS median_tokens
    FROM runs GROUP BY 1 ORDER BY runs DESC, name NULLS LAST LIMIT {most}"""


def comparison(scope: Scope) -> Section | Absent:
    """Success rate with its interval by agent, model, environment, source and policy version."""
    title = "Comparison"
    facts: dict[str, Any] = {}
    for by in _BY:
        number = scope.row(
            f"SELECT count(DISTINCT {by}) AS n, bool_or({by} IS NULL) AS blank FROM runs"
        )
        if not number["n"]:
            continue
        rows = scope.rows(_GROUPS.format(by=by, most=MOST_GROUPS))
        for row in rows:
            row["success_rate"] = rate_of(row["success"], row["known"])
            row["low"], row["high"] = wilson(row["success"], row["known"])
        facts[by] = {"groups": number["n"] + bool(number["blank"]), "each": rows}
    if not facts:
        return Absent(name="comparison", title=title, why="no run names its agent or model")
    said = note(
        "A tick is the success rate over known outcomes, the bar around it the 95 % interval "
        "(Wilson). Groups attempted different tasks unless the tasks column says otherwise, so a "
        "higher rate alone does not make a better agent."
    )
    body = joined([said, *(_drawn(by, fact) for by, fact in facts.items())])
    return Section(name="comparison", title=title, facts=facts, body=body)


def _drawn(by: str, fact: dict[str, Any]) -> Markup:
    name = by.replace("_", " ")
    rows = (
        (
            short(row["name"], 60),
            interval(row["success_rate"], row["low"], row["high"]),
            percent(row["success_rate"]),
            f"{row['success']:,} of {row['known']:,}" if row["known"] else "none known",
            f"{row['runs'] - row['known']:,}",
            f"{row['tasks']:,}",
            compact(row["median_agent_steps"]),
            compact(row["median_tokens"]),
        )
        for row in fact["each"]
    )
    heads = (
        name,
        "success rate",
        "succeeded",
        "unknown",
        "tasks",
        "median steps",
        "median tokens",
    )
    left = fact["groups"] - len(fact["each"])
    rest = note(f"{counted(left, 'group')} with fewer runs not shown.") if left else None
    caption = f"Success by {name}, the most runs first"
    shown = table(heads, rows, caption=caption, kinds="bnnnnnn")
    return joined([tag("h3", f"By {name}"), shown, rest])
