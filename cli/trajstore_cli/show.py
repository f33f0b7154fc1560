"""``trajstore show``."""

from __future__ import annotations

import json as jsonlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from trajstore_cli._options import AtOption, StoreArgument, open_store
from trajstore_cli._output import as_json, out

if TYPE_CHECKING:
    from trajstore import Step, Trajectory

_SHORT = 2_000
_COLOURS = {"system": "magenta", "user": "blue", "agent": "green", "environment": "yellow"}


class Format(StrEnum):
    """How a trajectory is shown."""

    TEXT = "text"
    JSON = "json"
    MESSAGES = "messages"


def show(
    store: StoreArgument,
    trajectory_id: Annotated[str, typer.Argument(metavar="ID", help="Id, or how it begins.")],
    format: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TEXT,  # noqa: A002
    full: Annotated[bool, typer.Option("--full", help="Do not shorten long texts.")] = False,
    at: AtOption = None,
) -> None:
    """Show one trajectory, readable.

    Example: trajstore show pool 00000000-0000-8303
    """
    from trajstore.exports import chat_messages

    pool = open_store(store)
    reader = pool.at(at) if at is not None else pool.reader()
    run = reader.find(trajectory_id)
    if format is Format.JSON:
        from trajstore.importers import to_jsonl_record

        out(as_json(to_jsonl_record(run)))
    elif format is Format.MESSAGES:
        for message in chat_messages(run):
            out(as_json(message))
    else:
        _print(run, None if full else _SHORT)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(show)


def _print(run: Trajectory, most: int | None) -> None:
    outcome = {True: "success", False: "failure", None: "outcome unknown"}[run.success]
    reward = "" if run.reward is None else f", reward {run.reward:g}"
    typer.secho(f"{run.trajectory_id}  {run.task_id}", bold=True)
    typer.echo(f"{outcome}{reward}; {run.status or 'ended as unknown'}; {run.source}")
    who = [x for x in (run.agent, run.model, run.environment) if x]
    if who:
        typer.echo(" / ".join(who))
    if run.goal:
        typer.echo(f"goal: {_short(run.goal, most)}")
    for index, step in enumerate(run.steps):
        _print_step(index, step, most)


def _print_step(index: int, step: Step, most: int | None) -> None:
    flags = [f for f, on in (("copied", step.is_copied), ("format error", step.format_error)) if on]
    title = f"\n[{index}] {step.actor}" + (f" ({', '.join(flags)})" if flags else "")
    typer.secho(title, fg=_COLOURS[step.actor], bold=True)
    if step.reasoning:
        typer.secho(_short(step.reasoning, most), dim=True)
    if step.text:
        typer.echo(_short(step.text, most))
    for call in step.tool_calls:
        arguments = call.arguments if call.arguments is not None else call.arguments_raw or ""
        typer.secho(f"  → {call.name}({_short(_pretty(arguments), most)})", fg="cyan")
    for observation in step.observations:
        mark = "✗" if observation.is_error else "←"
        colour = "red" if observation.is_error else None
        typer.secho(f"  {mark} {_short(observation.text or '', most)}", fg=colour)


def _pretty(arguments: str) -> str:
    try:
        value = jsonlib.loads(arguments)
    except ValueError:
        return arguments
    if not isinstance(value, dict):
        return arguments
    return ", ".join(f"{k}={as_json(v)}" for k, v in value.items())


def _short(text: str, most: int | None) -> str:
    if most is None or len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most:,} more characters; --full shows them)"
