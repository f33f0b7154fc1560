"""Chat conversations as trajectories: identity, task, outcome, preference, metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trajstore.importers.chat_record import ChatRecord, Side
from trajstore.importers.importer import success_of
from trajstore.importers.items import ImportOptions
from trajstore.importers.well_known import Columns
from trajstore.schema import Label, Step, Trajectory, digest, json_text, json_text_or_none
from trajstore.schema import trajectory_id as make_id

FAMILY = "chat"
"""Family of the ids of all chat formats: one conversation in two of them is one trajectory."""

EVALUATOR = "dataset"
"""Evaluator of preferences and marks that a data set states."""

_MARKS = ("label", "kto_tag")
_TOOLS = ("tools", "functions", "tool_definitions", "available_tools")
_PLAIN = (
    "attempt",
    "goal",
    "success",
    "reward",
    "rewards",
    "agent",
    "model",
    "policy_version",
    "environment",
    "environment_version",
    "status",
    "error",
    "termination_reason",
    "cost_usd",
    "duration_s",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "started_at",
    "ended_at",
    "tags",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation, read by the importer of its format."""

    steps: tuple[Step, ...]
    """Its steps, at least one."""
    tools: Any = None
    """Tool definitions that its text holds."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the trajectory by name; a trajectory id or task id here is final."""
    used: frozenset[str] = frozenset()
    """Columns of the record that went into it beside the messages."""


def said(steps: Sequence[Step]) -> list[Any]:
    """What was said and done, in a form that does not depend on the format it was written in."""
    return [
        [
            s.actor,
            s.reasoning or "",
            s.text or "",
            s.content,
            [[c.name, c.arguments or c.arguments_raw] for c in s.tool_calls],
            [o.text or "" for o in s.observations],
        ]
        for s in steps
    ]


def opening(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps before the first answer."""
    first = next((i for i, s in enumerate(steps) if s.actor == "agent"), len(steps))
    return tuple(steps[:first])


def chat_trajectory(
    columns: Columns,
    found: ChatRecord,
    read: Conversation,
    prompt: Sequence[Step],
    side: Side | None,
) -> Trajectory:
    """One conversation as a trajectory without source.

    Args:
        columns: the record; columns that find a place are noted as used.
        found: the conversations of the record.
        read: the one that becomes the trajectory.
        prompt: the steps that make the task: the opening, or what a pair shares.
        side: which answer of a pair it is.
    """
    view = columns.view()
    columns.use(read.used)
    tools, tool_columns = _tools(view, found, read)
    columns.use(tool_columns)
    columns.use(m for m in _MARKS if isinstance(view.get(m), bool))
    given = {n: columns.take(n) for n in _PLAIN}
    known = {n: v for n, v in given.items() if v is not None}
    task = columns.take("task_id")
    pair = digest(found.conversations)[:16]
    given_first = said(prompt) or (said(read.steps) if side is None else pair)
    group = task if task is not None else digest(given_first, tools)[:16]
    fields = {
        "trajectory_id": make_id(FAMILY, _key(columns, known, read.steps, task, side)),
        "task_id": f"{known.get('environment', FAMILY)}/{group}",
        "goal": next((s.text for s in read.steps if s.actor == "user" and s.text), None),
        "source": FAMILY,
        "steps": read.steps,
        "tools": tools,
        **known,
        **read.fields,
    }
    left = columns.left()
    if side is not None:
        left["preference"] = {"pair": pair, "side": side}
    return Trajectory(**fields, metadata=json_text_or_none(left))


def _key(
    columns: Columns,
    known: Mapping[str, Any],
    steps: Sequence[Step],
    task: str | None,
    side: Side | None,
) -> str:
    """What tells this run from all others; see :class:`ChatImporter` for the rule."""
    used = set(columns.used)
    run = columns.take("trajectory_id")
    columns.used = used
    attempt, model = known.get("attempt"), known.get("model")
    sweep, plain = columns.row.get("run_id"), columns.row.get("id")
    if run is not None and _is_unique(run):
        parts = ["run", run, attempt]
    elif isinstance(sweep, str) and task is not None:
        parts = ["run", sweep, task, attempt]
    elif run is not None or (isinstance(plain, str | int) and plain != ""):
        before = opening(steps)
        first = [
            [s.reasoning or "", s.text or "", [[c.name, c.arguments] for c in s.tool_calls]]
            for s in steps[len(before) : len(before) + 1]
        ]
        parts = ["id", run, plain, task, attempt, model, said(before), first]
    else:
        parts = ["said", task, attempt, model, said(steps)]
    return digest(*parts, side)


def _is_unique(run: str) -> bool:
    """Whether a name can be unique in the world; a row number or a short word cannot."""
    return len(run) >= 8 and not run.isdigit()


def _tools(
    view: Mapping[str, Any], found: ChatRecord, read: Conversation
) -> tuple[str | None, list[str]]:
    """JSON text of the tool definitions, and the column they came from."""
    name = next((n for n in _TOOLS if isinstance(view.get(n), list | str) and view[n]), None)
    if name is not None:
        return _tools_text(view[name]), [name]
    return _tools_text(found.tools or read.tools), []


def _tools_text(value: Any) -> str | None:
    if not isinstance(value, str):
        return json_text_or_none(value)
    try:
        parsed = json.loads(value)
    except ValueError:
        return json_text(value)
    return value if parsed else None


def judged(trajectory: Trajectory, options: ImportOptions) -> bool | None:
    """Success as given; else by the user's threshold, since chat sets have no rule of their own."""
    if trajectory.success is not None or options.success_threshold is None:
        return trajectory.success
    return success_of(trajectory.reward, options)


def stated(trajectory_id: str, side: Side | None, view: Mapping[str, Any]) -> Iterator[Label]:
    """What the data set says of a trajectory: the preferred one of two, or good and bad (KTO)."""
    if side is not None:
        value = 1.0 if side == "chosen" else 0.0
        yield Label(
            trajectory_id=trajectory_id, name="preference", value=value, evaluator=EVALUATOR
        )
    mark = next((view[m] for m in _MARKS if isinstance(view.get(m), bool)), None)
    if mark is not None:
        yield Label(trajectory_id=trajectory_id, name="kto", success=mark, evaluator=EVALUATOR)
