"""The funnel of a selection: what each stage was given, left, and why runs went."""

from __future__ import annotations

from typing import Any

from trajstore.filters import FunnelStage, Selection
from trajstore.pipeline.report.bars import shares
from trajstore.pipeline.report.markup import Markup, joined, note, table
from trajstore.pipeline.report.scope import Scope
from trajstore.pipeline.report.sections import Absent, Section
from trajstore.pipeline.report.text import counted, short
from trajstore.schema import json_text

_MOST_REASONS = 8
_MOST_STAGES = 100


def funnel(scope: Scope) -> Section | Absent | None:
    """Every stage of the selection; None where the report is about no selection."""
    selection = scope.selection
    if selection is None:
        return None
    title = "How the runs were selected"
    if not selection.funnel:
        return Absent(name="funnel", title=title, why="the selection has no stage")
    facts: dict[str, Any] = selection.lineage()
    return Section(name="funnel", title=title, facts=facts, body=_drawn(selection))


def _drawn(selection: Selection) -> Markup:
    stages = selection.funnel
    first = max(stages[0].before, 1)
    rows = (
        (
            stage.name,
            shares(
                [("accent", stage.after / first), ("lost", (stage.before - stage.after) / first)]
            ),
            f"{stage.before:,}",
            f"{stage.after:,}",
            _reasons(stage),
            _parameters(stage),
        )
        for stage in stages[:_MOST_STAGES]
    )
    heads = ("stage", "in", "out", "dropped because", "parameters")
    said = f"{counted(stages[0].before, 'run')} came in, {counted(len(selection), 'run')} left"
    more = len(stages) - _MOST_STAGES
    rest = f" {counted(more, 'further stage')} not shown." if more > 0 else ""
    shown = table(heads, rows, caption="Stages of the selection, in order", kinds="bnnww")
    return joined([note(f"{said}.{rest}"), shown])


def _reasons(stage: FunnelStage) -> str:
    ordered = sorted(stage.dropped.items(), key=lambda item: (-item[1], item[0]))
    said = [f"{short(reason, 60)} {number:,}" for reason, number in ordered[:_MOST_REASONS]]
    rest = sum(number for _, number in ordered[_MOST_REASONS:])
    return ", ".join([*said, f"other reasons {rest:,}"] if rest else said)


def _parameters(stage: FunnelStage) -> str:
    said = {k: v for k, v in stage.parameters.items() if v not in (None, False, [])}
    values = (f"{k}={v if isinstance(v, str) else json_text(v)}" for k, v in said.items())
    return short(", ".join(values), 160)
