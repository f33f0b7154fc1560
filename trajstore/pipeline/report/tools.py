"""Tools: how often each is called, how often its result is an error."""

from __future__ import annotations

from typing import Any

from trajstore.pipeline.report.bars import interval, shares
from trajstore.pipeline.report.intervals import rate_of, wilson
from trajstore.pipeline.report.markup import Markup, joined, note, table
from trajstore.pipeline.report.scope import Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.text import counted, percent, short

MOST_TOOLS = 25
"""Tools that have a row."""

_CALLS = """
    SELECT name, runs.rowid AS run, count(*) AS calls, count(*) FILTER (is_error) AS errors,
        count(is_error) AS flagged, any_value(runs.success) AS success
    FROM tool_calls JOIN runs USING (trajectory_id)
    WHERE actor = 'agent' AND NOT is_copied
    GROUP BY ALL"""
_TOOLS = f"""
    SELECT name, sum(calls) AS calls, sum(errors) AS errors, sum(flagged) AS flagged,
        count(*) AS runs, count(success) AS known, count(*) FILTER (success) AS success
    FROM ({_CALLS}) GROUP BY name"""


def tools(scope: Scope) -> Section | Absent:
    """Calls, error rate and runs of the most used tools."""
    title = "Tools"
    whole = scope.row(
        f"""SELECT count(*) AS tools, coalesce(sum(calls), 0) AS calls,
            coalesce(sum(errors), 0) AS errors, coalesce(sum(flagged), 0) AS flagged
        FROM ({_TOOLS})"""
    )
    if not whole["tools"]:
        return Absent(name="tools", title=title, why="no agent called a tool")
    rows = scope.rows(f"{_TOOLS} ORDER BY calls DESC, name NULLS LAST LIMIT {MOST_TOOLS}")
    for row in rows:
        row["error_rate"] = rate_of(row["errors"], row["flagged"])
        row["error_rate_low"], row["error_rate_high"] = wilson(row["errors"], row["flagged"])
        row["success_rate"] = rate_of(row["success"], row["known"])
    facts = {**whole, "each": rows}
    return Section(name="tools", title=title, facts=facts, body=_drawn(facts))


def _drawn(facts: dict[str, Any]) -> Markup:
    most = facts["each"][0]["calls"]
    rows = (
        (
            short(row["name"], 60),
            shares([("accent", row["calls"] / most)]),
            f"{row['calls']:,}",
            interval(row["error_rate"], row["error_rate_low"], row["error_rate_high"]),
            percent(row["error_rate"]),
            f"{row['errors']:,} of {row['flagged']:,}" if row["flagged"] else "not flagged",
            f"{row['runs']:,}",
            percent(row["success_rate"]),
        )
        for row in facts["each"]
    )
    heads = ("tool", "calls", "error rate", "errors", "runs", "their success")
    left = facts["tools"] - len(facts["each"])
    unflagged = facts["calls"] - facts["flagged"]
    said = f"{counted(facts['calls'], 'call')} of {counted(facts['tools'], 'tool')} by agents, "
    said += "copied context not counted."
    if left:
        said += f" {counted(left, 'tool')} called less often not shown."
    if unflagged:
        said += (
            f" For {counted(unflagged, 'call')} the source does not say whether the result is an "
            "error; they are in no error rate."
        )
    shown = table(heads, rows, caption="Tools, the most called first", kinds="bnbnnnn")
    return joined([shown, note(said)])
