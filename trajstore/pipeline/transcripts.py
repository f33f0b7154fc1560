"""A run as quoted data for a prompt, cut by a named rule to a budget."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trajstore.errors import JudgeError
from trajstore.schema import Step, Trajectory, json_text

Cut = Literal["middle", "tail"]

LEAST_BUDGET = 2_000
"""Characters that a transcript may always have."""

_NOTE_ROOM = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A run as text between two marker lines."""

    text: str
    """The markers and what stands between them."""
    characters: int
    """Length of the text in characters."""
    whole: int
    """Length that it would have without cuts."""
    steps_left_out: int
    """Steps that are not shown at all."""
    is_cut: bool
    """Whether anything was left out."""


def quote_run(trajectory: Trajectory, *, budget: int = 48_000, cut: Cut = "middle") -> Transcript:
    """Render a run for a judge: one JSON object a line, between markers that it cannot forge.

    Each line is a JSON object, so no text of the run can end a line, and the markers hold a hash of
    what stands between them, so no text of the run can contain them. Success, reward and labels are
    not shown: a judge should not know the verdict. Copied context is left out.

    Args:
        trajectory: the run.
        budget: most characters of the result, at least 2,000; about four make a token.
        cut: how a longer run is cut. Under both rules each text longer than an eighth of the budget
            first loses its middle. If that is not enough, ``middle`` keeps the first steps (a third
            of the room) and the last ones, and ``tail`` only the last ones. A note stands wherever
            something was left out, and the goal always stays.

    Raises:
        JudgeError: the budget is too small, or the rule is unknown.
    """
    if budget < LEAST_BUDGET:
        raise JudgeError(f"The budget must be at least {LEAST_BUDGET} characters, not {budget}.")
    if cut not in _KEPT:
        raise JudgeError(f"There is no rule '{cut}' to cut by. Rules: {', '.join(_KEPT)}")
    shown = [(i, s) for i, s in enumerate(trajectory.steps) if not s.is_copied]
    whole = _lines(trajectory.goal, shown, None)
    lines, left_out = whole, 0
    room = budget - len(_marked([]))
    if _size(lines) > room:
        lines = _lines(trajectory.goal, shown, budget // 8)
    if _size(lines) > room:
        lines, left_out = _KEPT[cut](lines, room)
    text = _marked(lines)
    return Transcript(
        text=text,
        characters=len(text),
        whole=len(_marked(whole)),
        steps_left_out=left_out,
        is_cut=lines is not whole,
    )


def _marked(lines: Sequence[str]) -> str:
    body = "\n".join(lines)
    mark = f"run-{hashlib.sha256(body.encode()).hexdigest()[:16]}"
    return f"<<<{mark}\n{body}\n{mark}>>>"


def _size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _lines(goal: str | None, steps: Sequence[tuple[int, Step]], most: int | None) -> list[str]:
    head = json_text({"goal": _short(goal, most)})
    return [head, *(json_text(_shown(index, step, most)) for index, step in steps)]


def _shown(index: int, step: Step, most: int | None) -> dict[str, Any]:
    said: dict[str, Any] = {"step": index, "actor": step.actor}
    for name, text in (("reasoning", step.reasoning), ("text", step.text)):
        if text:
            said[name] = _short(text, most)
    if step.tool_calls:
        said["calls"] = [
            {"tool": c.name, "arguments": _short(c.arguments_raw or c.arguments, most)}
            for c in step.tool_calls
        ]
    if step.observations:
        said["results"] = [
            {"text": _short(o.text, most), **({"error": True} if o.is_error else {})}
            for o in step.observations
        ]
    if step.format_error:
        said["format_error"] = True
    return said


def _short(text: str | None, most: int | None) -> str | None:
    if text is None or most is None or len(text) <= most:
        return text
    half = (most - _NOTE_ROOM) // 2
    note = f" [... {len(text) - 2 * half:,} characters left out ...] "
    return text[:half] + note + text[-half:]


def _note(count: int) -> str:
    return json_text({"left_out": f"{count} steps"})


def _fitting(lines: Sequence[str], room: int) -> int:
    """How many lines from the first on fit into the room."""
    used = 0
    for number, line in enumerate(lines):
        used += len(line) + 1
        if used > room:
            return number
    return len(lines)


def _keep_ends(lines: Sequence[str], room: int) -> tuple[list[str], int]:
    goal, steps = lines[0], list(lines[1:])
    room -= len(goal) + 1 + len(_note(len(steps))) + 1
    first = _fitting(steps, room // 3)
    room -= _size(steps[:first])
    last = _fitting(steps[first:][::-1], room)
    left_out = len(steps) - first - last
    return [goal, *steps[:first], _note(left_out), *steps[len(steps) - last :]], left_out


def _keep_tail(lines: Sequence[str], room: int) -> tuple[list[str], int]:
    goal, steps = lines[0], list(lines[1:])
    room -= len(goal) + 1 + len(_note(len(steps))) + 1
    last = _fitting(steps[::-1], room)
    left_out = len(steps) - last
    return [goal, _note(left_out), *steps[len(steps) - last :]], left_out


_KEPT: dict[str, Callable[[Sequence[str], int], tuple[list[str], int]]] = {
    "middle": _keep_ends,
    "tail": _keep_tail,
}
