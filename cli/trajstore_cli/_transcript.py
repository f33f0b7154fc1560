"""A trajectory as text to read.

Everything stored is indented, so that no stored text can pass for a heading.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trajstore_cli._cells import cell, count_of, pairs, safe, safe_lines
from trajstore_cli._output import out, paint
from trajstore_cli._values import as_json

if TYPE_CHECKING:
    from trajstore import Observation, Step, ToolCall, Trajectory
    from trajstore.store import Reader

_SHORT = 2_000
_COLOURS = {"system": "magenta", "user": "blue", "agent": "green", "environment": "yellow"}
_OUTCOME = """
    SELECT success, reward, outcome_evaluator FROM trajectories WHERE trajectory_id = '{}'"""
_LABELS = """
    SELECT name, step_index, success, value, evaluator, rationale FROM labels
    WHERE trajectory_id = '{}' ORDER BY created_at, label_id"""


def write_transcript(reader: Reader, run: Trajectory, *, full: bool) -> None:
    """Print the run with its effective outcome and its labels.

    Args:
        reader: where the run comes from.
        run: what to print.
        full: print long texts whole, and not just their first 2,000 characters.
    """
    quoted = run.trajectory_id.replace("'", "''")
    outcome = reader.query(_OUTCOME.format(quoted)).read_all().to_pylist()[0]
    labels = reader.query(_LABELS.format(quoted)).read_all().to_pylist()
    most = None if full else _SHORT
    out(paint(safe(run.trajectory_id), "bold"))
    out(pairs(_about(run, outcome)))
    for label in labels:
        out(_label(label))
    if run.goal and run.goal not in {s.text for s in run.steps if s.actor == "user"}:
        out(f"goal\n{_indented(run.goal, most)}")
    for index, step in enumerate(run.steps):
        _write_step(index, step, most)


def _about(run: Trajectory, outcome: Mapping[str, Any]) -> dict[str, Any]:
    attempt = f", attempt {run.attempt}" if run.attempt is not None else ""
    verdict = {True: "success", False: "failure", None: "unknown"}[outcome["success"]]
    reward = "" if outcome["reward"] is None else f", reward {cell(outcome['reward'])}"
    judge = f" (by {outcome['outcome_evaluator']})" if outcome["outcome_evaluator"] else ""
    parent = f"{run.relation or 'child'} of {run.parent_id}" if run.parent_id else None
    counts = (
        count_of(len(run.steps), "step"),
        count_of(run.n_tool_calls, "tool call"),
        count_of(run.n_tool_errors, "tool error") if run.n_tool_errors else "",
        count_of(run.n_format_errors, "format error") if run.n_format_errors else "",
    )
    return {
        "task": f"{run.task_id}{attempt}",
        "outcome": f"{verdict}{reward}{judge}",
        "ended": ", ".join(x for x in (run.status, run.termination_reason, run.error) if x),
        "agent": run.agent,
        "model": run.model,
        "policy": run.policy_version,
        "environment": run.environment,
        "source": f"{run.source} {run.source_uri or ''}".strip(),
        "parent": parent,
        "counts": ", ".join(c for c in counts if c),
        "tokens": _tokens(run),
        "cost": None if run.cost_usd is None else f"${run.cost_usd:.4f}",
        "duration": None if run.duration_s is None else f"{run.duration_s:.1f} s",
        "tags": ", ".join(run.tags),
    }


def _tokens(run: Trajectory) -> str | None:
    if run.prompt_tokens is None and run.completion_tokens is None:
        return None
    cached = f" ({run.cached_tokens:,} cached)" if run.cached_tokens else ""
    return f"{run.prompt_tokens or 0:,} prompt{cached}, {run.completion_tokens or 0:,} completion"


def _label(label: Mapping[str, Any]) -> str:
    words = {True: "success", False: "failure"}
    said = [words[label["success"]]] if label["success"] is not None else []
    said += [cell(label["value"])] if label["value"] is not None else []
    step = f" of step {label['step_index']}" if label["step_index"] is not None else ""
    why = f": {cell(label['rationale'], width=200)}" if label["rationale"] else ""
    return (
        f"label  {safe(label['name'])}{step} {', '.join(said)} by {safe(label['evaluator'])}{why}"
    )


def _write_step(index: int, step: Step, most: int | None) -> None:
    flags = [
        *(["copied"] if step.is_copied else []),
        *(["format error"] if step.format_error else []),
        *([f"reward {step.reward:g}"] if step.reward is not None else []),
    ]
    title = f"[{index}] {step.actor}" + (f" ({', '.join(flags)})" if flags else "")
    out("\n" + paint(title, _COLOURS[step.actor], "bold"))
    if step.reasoning:
        out(paint(_indented(step.reasoning, most), "dim"))
    if step.text:
        out(_indented(step.text, most))
    for kind in _other_parts(step.content):
        out(f"  [{safe(kind)}]")
    for call in step.tool_calls:
        out("\n".join(paint(line, "cyan") for line in _call_lines(call, most)))
    for observation in step.observations:
        _write_observation(observation, most)


def _call_lines(call: ToolCall, most: int | None) -> Iterator[str]:
    """The call, short arguments inside its brackets and those of several lines below it."""
    arguments = _arguments(call)
    if not isinstance(arguments, dict):
        text = "" if arguments is None else str(arguments)
        yield f"  → {safe(call.name)}({safe_lines(_short(text, most))})"
        return
    below = {k: v for k, v in arguments.items() if isinstance(v, str) and "\n" in v}
    inside = ", ".join(f"{k}={as_json(v)}" for k, v in arguments.items() if k not in below)
    yield f"  → {safe(call.name)}({safe(_short(inside, most))})"
    for name, value in below.items():
        yield f"      {safe(name)}:"
        yield from _indented(value, most, " " * 8).split("\n")


def _arguments(call: ToolCall) -> Any:
    if call.arguments is None:
        return call.arguments_raw
    value = json.loads(call.arguments)
    return value if isinstance(value, dict) else call.arguments


def _write_observation(observation: Observation, most: int | None) -> None:
    mark, colour = ("✗", "red") if observation.is_error else ("←", "")
    text = _indented(observation.text or "", most, " " * 4)
    lines = f"  {mark} {text[4:]}".rstrip()
    out(paint(lines, colour) if colour else lines)
    for kind in _other_parts(observation.content):
        out(f"    [{safe(kind)}]")


def _other_parts(content: str | None) -> list[str]:
    """Kinds of the parts that are no text."""
    if content is None:
        return []
    parts = json.loads(content)
    kinds = [p.get("type", "part") for p in parts if isinstance(p, dict)] if parts else []
    others = [str(k) for k in kinds if k not in {"text", "input_text", "output_text"}]
    return [k.removeprefix("input_").removesuffix("_url") for k in others]


def _indented(text: str, most: int | None, by: str = "  ") -> str:
    return textwrap.indent(safe_lines(_short(text, most)), by)


def _short(text: str, most: int | None) -> str:
    if most is None or len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most:,} more characters; --full shows them)"
