"""A run as the integrity rules see it: what was asked, said, called and answered, in order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from trajstore.filters.actions import FileAction, failed, is_among, named_paths, tool_actions
from trajstore.filters.own_files import Files
from trajstore.filters.selection import Frame
from trajstore.filters.step_rows import OWN_CALLS, by_blocks
from trajstore.schema import Observation, Step, ToolCall, Trajectory, counted

_ANSWERING = re.compile(r"finish|submit|answer|final|complete|respond", re.IGNORECASE)

_BLOCK_BYTES = 32 * 2**20

LONGEST_TEXT = 20_000
"""Characters of a result or a text that are looked at."""


@dataclass(frozen=True)
class Call:
    """One tool call with its result."""

    step_index: int
    """The step it was made in."""
    name: str
    """The tool."""
    arguments: str
    """Canonical JSON, or the raw text where it is no JSON."""
    observation: str
    """What came back, cut at :data:`LONGEST_TEXT`; '' if nothing did."""
    is_error: bool | None
    """Whether it failed; None is unknown."""

    @cached_property
    def actions(self) -> Sequence[FileAction]:
        """What it does to files."""
        return tool_actions(self.name, self.arguments, self.observation)

    @cached_property
    def failed(self) -> bool:
        """Whether its result says that it did not work."""
        return failed(self.observation, is_error=self.is_error)


@dataclass(frozen=True, slots=True)
class Touch:
    """One action of one call on a file."""

    call: Call
    """The call."""
    action: FileAction
    """What it does."""
    own: bool
    """Whether the agent had made the file itself in this run, or the folder it lies in."""
    known: bool
    """Whether the file is known to have been there before the action."""
    asked: bool
    """Whether the user named the file."""


@dataclass(frozen=True)
class Run:
    """What the rules look at."""

    trajectory_id: str
    """The run."""
    success: bool | None
    """The effective outcome."""
    calls: Sequence[Call] = ()
    """The agent's own calls, in order."""
    said: Sequence[tuple[int, str]] = ()
    """Step and text of what the agent said, in order."""
    asked: str = ""
    """What the user said in all."""

    @cached_property
    def touches(self) -> Sequence[Touch]:
        """What was done to files, in order; an edit tool's failed calls are left out."""
        files, found = Files(), []
        asked = named_paths(self.asked) if any(c.actions for c in self.calls) else set()
        for call in self.calls:
            for action in call.actions:
                if action.by_editor and call.failed:
                    continue
                own = files.is_own(action.path)
                known = files.is_known(action)
                found.append(Touch(call, action, own, known, is_among(action.path, asked)))
                files.note(action, known=known)
            files.hear(call.observation)
        return found

    @cached_property
    def final_answer(self) -> tuple[int, str] | None:
        """Step and text of the last thing that was handed in or, if that came later, said."""
        spoken = self.said[-1] if self.said else None
        for call in reversed(self.calls):
            if spoken and spoken[0] > call.step_index:
                break
            text = _strings(call.arguments).strip()
            if _ANSWERING.search(call.name) and text not in {"", call.name}:
                return call.step_index, text
        return spoken


def _strings(arguments: str) -> str:
    """All texts and numbers among the arguments, or the text itself where it is no JSON."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    values = value.values() if isinstance(value, dict) else [value]
    return "\n".join(str(v) for v in values if isinstance(v, str | int | float))


@dataclass
class _Growing:
    calls: list[Call] = field(default_factory=list)
    said: list[tuple[int, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


def runs_of(frame: Frame) -> Iterator[Run]:
    """The runs of a frame in ascending order of id, some tens of MiB at a time."""
    calls = by_blocks(frame, _calls_query, block_bytes=_BLOCK_BYTES)
    texts = by_blocks(frame, _texts_query, block_bytes=_BLOCK_BYTES)
    for (block, made), (_, spoken) in zip(calls, texts, strict=True):
        grown = {str(i): _Growing() for i in block.column("trajectory_id")}
        for run, step, name, arguments, observation, is_error in _rows(made):
            grown[run].calls.append(Call(step, name or "", arguments, observation, is_error))
        for run, step, actor, text in _rows(spoken):
            if actor == "agent":
                grown[run].said.append((step, text))
            else:
                grown[run].asked.append(text)
        outcomes = dict(_rows(block.select(["trajectory_id", "success"])))
        for run, parts in grown.items():
            asked = "\n".join(parts.asked)
            yield Run(run, outcomes[run], parts.calls, parts.said, asked)


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _calls_query(ids: str) -> str:
    return (
        "SELECT trajectory_id, step_index, name, coalesce(arguments, arguments_raw, '') AS "
        f"arguments, left(coalesce(observation, ''), {LONGEST_TEXT}) AS observation, is_error "
        f"FROM tool_calls WHERE {ids} AND {OWN_CALLS} "
        "ORDER BY trajectory_id, step_index, call_index"
    )


def _texts_query(ids: str) -> str:
    return (
        f"SELECT trajectory_id, step_index, actor, left(text, {LONGEST_TEXT}) AS text FROM steps "
        f"WHERE {ids} AND actor IN ('user', 'agent') AND NOT is_copied AND text <> '' "
        "ORDER BY trajectory_id, step_index"
    )


def run_of(trajectory: Trajectory) -> Run:
    """One trajectory as the rules see it."""
    calls = [c for i, s in enumerate(trajectory.steps) if counted(s) for c in _calls(i, s)]
    spoken = [(i, s) for i, s in enumerate(trajectory.steps) if s.text and not s.is_copied]
    return Run(
        trajectory_id=trajectory.trajectory_id,
        success=trajectory.success,
        calls=calls,
        said=[(i, s.text[:LONGEST_TEXT]) for i, s in spoken if s.actor == "agent" and s.text],
        asked="\n".join(s.text[:LONGEST_TEXT] for _, s in spoken if s.actor == "user" and s.text),
    )


def _calls(index: int, step: Step) -> Iterator[Call]:
    for place, call in enumerate(step.tool_calls):
        result = _result(step, place, call)
        text = (result.text or "")[:LONGEST_TEXT] if result else ""
        is_error = result.is_error if result else None
        yield Call(index, call.name, call.arguments or call.arguments_raw or "", text, is_error)


def _result(step: Step, place: int, call: ToolCall) -> Observation | None:
    """The n-th result of the call's id for the n-th call of that id, else by place."""
    earlier = sum(c.call_id == call.call_id for c in step.tool_calls[:place])
    answers = [o for o in step.observations if o.call_id == call.call_id]
    if earlier < len(answers):
        return answers[earlier]
    if place < len(step.observations) and step.observations[place].call_id is None:
        return step.observations[place]
    return None
