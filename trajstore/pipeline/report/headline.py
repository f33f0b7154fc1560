"""The numbers at the top: how many runs, how many succeeded, what they took."""

from __future__ import annotations

from typing import Any

from trajstore.pipeline.report.bars import legend, shares
from trajstore.pipeline.report.intervals import rate_of, wilson
from trajstore.pipeline.report.markup import Markup, joined, note, tag
from trajstore.pipeline.report.scope import OUTCOMES, Scope
from trajstore.pipeline.report.sections import Section
from trajstore.pipeline.report.text import compact, count, counted, dollars, percent

_COUNTS = """
    SELECT count(*) AS trajectories,
        count(DISTINCT task_id) AS tasks,
        count(*) FILTER (success) AS success,
        count(*) FILTER (NOT success) AS failure,
        count(*) FILTER (success IS NULL) AS unknown,
        coalesce(sum(n_steps), 0) AS steps,
        coalesce(sum(n_agent_steps), 0) AS agent_steps,
        coalesce(sum(n_tool_calls), 0) AS tool_calls,
        coalesce(sum(n_tool_errors), 0) AS tool_errors,
        sum(prompt_tokens) AS prompt_tokens,
        sum(completion_tokens) AS completion_tokens,
        count(coalesce(prompt_tokens, completion_tokens)) AS with_tokens,
        sum(cost_usd)::DOUBLE AS cost_usd,
        count(cost_usd) AS with_cost
    FROM runs"""


def headline(scope: Scope) -> Section:
    """Counts of runs, tasks, outcomes, steps, tokens and cost."""
    facts = scope.row(_COUNTS)
    known = facts["success"] + facts["failure"]
    facts["success_rate"] = rate_of(facts["success"], known)
    facts["success_rate_low"], facts["success_rate_high"] = wilson(facts["success"], known)
    facts["in_snapshot"] = scope.stored
    if scope.selection is not None and not scope.where:
        facts["selected_but_gone"] = len(scope.selection) - scope.total
    tiles = [*_run_tiles(facts, known), *_use_tiles(facts)]
    body = joined([tag("dl", *tiles, class_="tiles"), _outcomes(facts), _gone(facts)])
    return Section(name="numbers", title="In numbers", facts=facts, body=body)


def _tile(name: str, value: str, small: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", tag("b", value), tag("small", small)))


def _run_tiles(facts: dict[str, Any], known: int) -> list[Markup]:
    rest = facts["in_snapshot"] - facts["trajectories"]
    of = f"of {facts['in_snapshot']:,} in the snapshot" if rest else "all of the snapshot"
    low, high = percent(facts["success_rate_low"]), percent(facts["success_rate_high"])
    said = (
        f"{facts['success']:,} of {known:,} known; 95\N{NO-BREAK SPACE}% interval {low} to {high}"
    )
    return [
        _tile("Trajectories", count(facts["trajectories"]), of),
        _tile("Tasks", count(facts["tasks"]), _per(facts["trajectories"], facts["tasks"])),
        _tile("Success rate", percent(facts["success_rate"]), said if known else "none known"),
        _tile("Unknown outcome", count(facts["unknown"]), "in no rate on this page"),
    ]


def _per(runs: int, tasks: int) -> str:
    if not tasks:
        return "no run"
    return f"{runs / tasks:.3g} runs a task" if runs > tasks else "one run a task"


def _use_tiles(facts: dict[str, Any]) -> list[Markup]:
    runs = facts["trajectories"]
    read, written = facts["prompt_tokens"], facts["completion_tokens"]
    tokens = None if read is None and written is None else (read or 0) + (written or 0)
    parts = f"{compact(read)} read, {compact(written)} written"
    return [
        _tile("Steps", count(facts["steps"]), f"{facts['agent_steps']:,} of them the agent's"),
        _tile("Tool calls", count(facts["tool_calls"]), _errors(facts["tool_errors"])),
        _tile("Tokens", compact(tokens), _told(parts, facts["with_tokens"], runs)),
        _tile("Cost", dollars(facts["cost_usd"]), _told("", facts["with_cost"], runs)),
    ]


def _errors(errors: int) -> str:
    return f"{counted(errors, 'result')} flagged as error{'' if errors == 1 else 's'}"


def _told(words: str, told: int, runs: int) -> str:
    """How many runs say it; a sum over some runs is not the sum over all."""
    if not told:
        return "no run says"
    said = f"{told:,} of {runs:,} runs say" if told < runs else "every run says"
    return f"{words}; {said}" if words else said


def _outcomes(facts: dict[str, Any]) -> Markup | None:
    runs = facts["trajectories"]
    if not runs:
        return None
    named = [(o, f"{o} {facts[o]:,}") for o in OUTCOMES]
    return joined([shares([(o, facts[o] / runs) for o in OUTCOMES]), legend(named)])


def _gone(facts: dict[str, Any]) -> Markup | None:
    gone = facts.get("selected_but_gone")
    if not gone:
        return None
    return note(f"{counted(gone, 'selected run')} cannot be read any more: deleted since.")
