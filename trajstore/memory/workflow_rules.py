"""Workflows by rule, without a model: what successes do and failures do not.

A pattern is a contiguous run of 2 to 8 tool calls that the successes of two or more tasks share. It
is kept where no longer pattern occurs in as many successes (it is closed), and where it speaks for
success: ``(s - f) / (s + f)`` is 0.5 or more, with s and f the judged runs that have it. The score
is that of Lexus2016/hermes-agent-evolution#1477, the bounds are ours. It is a correlation: a
pattern may come with success without bringing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.memory.workflow_arguments import steps_with_variables
from trajstore.memory.workflow_grams import Calls, Grams, frequent_grams
from trajstore.memory.workflows import keep_workflows
from trajstore.schema import Workflow, json_text, workflow_id
from trajstore.store import Store

SOURCE = "induced"
"""Source of the workflows that are made here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """What counts as a workflow."""

    shortest: int = 2
    """Calls of the shortest pattern."""
    longest: int = 8
    """Calls of the longest pattern."""
    support: int = 2
    """Distinct tasks whose successes have it."""
    contrast: float = 0.5
    """Least ``(s - f) / (s + f)``, -1 to 1."""
    most: int = 50
    """Workflows to keep, those with the most successes above failures first (ours)."""
    supports: int = 50
    """Successes whose arguments are compared, and which are named, for each (ours)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Induced:
    """What an induction found."""

    workflows: tuple[str, ...] = ()
    """Ids of the workflows, the best first."""
    added: int = 0
    """Those that are new to the store."""
    runs: int = 0
    """Runs with tool calls whose outcome is known."""
    successes: int = 0
    """Those of them that succeeded."""
    patterns: int = 0
    """Patterns in the successes of enough tasks."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Patterns by why they are no workflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    tools: tuple[str, ...]
    level: Grams
    code: int
    successes: int
    failures: int
    tasks: int

    @property
    def contrast(self) -> float:
        return (self.successes - self.failures) / (self.successes + self.failures)

    @property
    def order(self) -> tuple[int, int, tuple[str, ...]]:
        return self.failures - self.successes, -len(self.tools), self.tools


def induce_workflows(
    store: Store, *, where: str = "true", options: RuleOptions = RuleOptions()
) -> Induced:
    """Find the workflows that successes share, and keep them.

    Arguments that differ between the successes become variables; see
    :func:`~trajstore.memory.workflow_arguments.steps_with_variables`. Runs whose outcome is unknown
    are left out, as are copied steps. Doing it again adds what is new.

    Args:
        store: the store.
        where: an SQL condition over ``trajectories``.
        options: what counts as a workflow.

    Raises:
        QueryError: ``where`` does not parse or is not allowed.
    """
    calls = _calls(store, where)
    patterns, counts, frequent = _patterns(calls, options)
    kept = sorted(patterns, key=lambda p: p.order)
    if len(kept) > options.most:
        counts["beyond the most"] = len(kept) - options.most
        kept = kept[: options.most]
    workflows = [_workflow(store, calls, p, options) for p in kept]
    return Induced(
        workflows=tuple(workflow_id(w) for w in workflows),
        added=keep_workflows(store, workflows) if workflows else 0,
        runs=len(calls.ids),
        successes=pc.sum(pc.cast(calls.success, pa.int64())).as_py() or 0,
        patterns=frequent,
        left_out={reason: count for reason, count in counts.items() if count},
    )


def _calls(store: Store, where: str) -> Calls:
    rows = store.query(
        f"""
        SELECT c.trajectory_id, c.name, t.success, t.task_id
        FROM tool_calls c JOIN (
            SELECT trajectory_id, success, task_id FROM trajectories
            WHERE success IS NOT NULL AND ({where}\n)) t USING (trajectory_id)
        WHERE c.actor = 'agent' AND NOT c.is_copied AND c.name IS NOT NULL
        ORDER BY c.trajectory_id, c.step_index, c.call_index"""
    ).read_all()
    ids = rows.column("trajectory_id").combine_chunks().dictionary_encode()
    tools = rows.column("name").combine_chunks().dictionary_encode()
    run = pc.cast(ids.indices, pa.int64())
    start = pc.index_in(pa.array(range(len(ids.dictionary)), pa.int64()), value_set=run)
    first = rows.take(start)
    return Calls(
        run=run,
        tool=pc.cast(tools.indices, pa.int64()),
        names=tools.dictionary,
        success=first.column("success").combine_chunks(),
        task=first.column("task_id").combine_chunks().dictionary_encode().indices,
        ids=ids.dictionary,
        start=pc.cast(start, pa.int64()),
    )


def _patterns(calls: Calls, options: RuleOptions) -> tuple[list[_Pattern], dict[str, int], int]:
    """Patterns that are workflows, the others by reason, and how many were frequent."""
    counts = {"part of a longer one": 0, "no contrast with failures": 0, "one tool repeated": 0}
    found: list[_Pattern] = []
    frequent = 0
    levels = [
        *frequent_grams(calls, longest=options.longest, support=options.support),
    ]
    names: list[tuple[str, ...]] = []
    for place, level in enumerate(levels):
        names = _names(calls, level, names)
        if level.length < options.shortest:
            continue
        frequent += level.table.num_rows
        closed = level.closed(levels[place + 1] if place + 1 < len(levels) else None)
        columns = [level.table.column(n).to_pylist() for n in ("successes", "failures", "tasks")]
        for code, (is_closed, won, lost, tasks) in enumerate(
            zip(closed.to_pylist(), *columns, strict=True)
        ):
            pattern = _Pattern(
                tools=names[code],
                level=level,
                code=code,
                successes=won,
                failures=lost,
                tasks=tasks,
            )
            if len(set(pattern.tools)) == 1:
                counts["one tool repeated"] += 1
            elif not is_closed:
                counts["part of a longer one"] += 1
            elif pattern.contrast < options.contrast:
                counts["no contrast with failures"] += 1
            else:
                found.append(pattern)
    return found, counts, frequent


def _names(calls: Calls, level: Grams, before: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Tools of each gram of a level, from those of the level below."""
    if level.length == 1:
        first = pc.index_in(pa.array(range(level.table.num_rows), pa.int64()), value_set=level.code)
        tool = calls.tool.take(level.at.take(first))
        return [(name,) for name in calls.names.take(tool).to_pylist()]
    prefix, suffix = (level.table.column(n).to_pylist() for n in ("prefix", "suffix"))
    return [(*before[p], before[s][-1]) for p, s in zip(prefix, suffix, strict=True)]


def _workflow(store: Store, calls: Calls, pattern: _Pattern, options: RuleOptions) -> Workflow:
    """The pattern with what its first supports have in common."""
    at = pattern.level.at.filter(pc.equal(pattern.level.code, pattern.code))
    run = calls.run.take(at)
    won = calls.success.take(run)
    at, run = at.filter(won), run.filter(won)
    first = pa.table({"run": run, "at": at}).group_by("run").aggregate([("at", "min")])
    first = first.sort_by("run").slice(0, options.supports)
    run = first.column("run").combine_chunks()
    offset = pc.subtract(first.column("at_min").combine_chunks(), calls.start.take(run))
    ids = calls.ids.take(run).to_pylist()
    supports, environment = _supports(store, ids, offset.to_pylist(), len(pattern.tools))
    about = {
        "successes": pattern.successes,
        "failures": pattern.failures,
        "tasks": pattern.tasks,
        "contrast": round(pattern.contrast, 6),
    }
    runs = "success" if pattern.successes == 1 else "successes"
    lost = "failure" if pattern.failures == 1 else "failures"
    return Workflow(
        name=" > ".join(pattern.tools),
        steps=json_text(steps_with_variables(pattern.tools, supports)),
        source=SOURCE,
        description=(
            f"{', then '.join(pattern.tools)}: in {pattern.successes:,} {runs} at "
            f"{pattern.tasks:,} tasks and {pattern.failures:,} {lost}"
        ),
        trajectory_ids=tuple(ids),
        environment=environment,
        metadata=json_text(about),
    )


def _supports(
    store: Store, ids: list[str], offsets: list[int], length: int
) -> tuple[list[list[str | None]], str | None]:
    """Arguments of the pattern's calls in each run, and the environment that all runs share."""
    listed = ", ".join("'" + i.replace("'", "''") + "'" for i in ids)
    rows = store.query(
        f"""
        SELECT trajectory_id, list(arguments ORDER BY step_index, call_index) AS given,
            any_value(t.environment) AS environment
        FROM tool_calls c JOIN trajectories t USING (trajectory_id)
        WHERE trajectory_id IN ({listed}) AND c.actor = 'agent' AND NOT c.is_copied
            AND c.name IS NOT NULL
        GROUP BY trajectory_id"""
    ).read_all()
    given = dict(
        zip(rows.column("trajectory_id").to_pylist(), rows.column("given").to_pylist(), strict=True)
    )
    found = [given[i][at : at + length] for i, at in zip(ids, offsets, strict=True)]
    environments = set(rows.column("environment").to_pylist())
    return found, environments.pop() if len(environments) == 1 else None
