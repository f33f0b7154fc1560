"""``trajstore show``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from trajstore_cli._command import add
from trajstore_cli._options import AtOption, StoreArgument, open_reader
from trajstore_cli._output import out
from trajstore_cli._values import as_json


class Format(StrEnum):
    """How a trajectory is shown."""

    TEXT = "text"
    JSON = "json"
    MESSAGES = "messages"


def show(
    store: StoreArgument,
    trajectory_id: Annotated[str, typer.Argument(metavar="ID", help="Id, or how it begins.")],
    format: Annotated[  # noqa: A002  the name of the flag
        Format,
        typer.Option(
            "--format",
            help="text to read; json is one line that `import` reads back; messages are chat "
            "messages, one a line.",
        ),
    ] = Format.TEXT,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten long texts.")] = False,
    at: AtOption = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show one trajectory: its outcome, its labels and its steps.

    Example: trajstore show pool 00000000-0000-8303
    """
    if json and format not in {Format.TEXT, Format.JSON}:
        raise typer.BadParameter(f"--json and --format {format} say different things")
    reader = open_reader(store, at)
    run = reader.find(trajectory_id)
    if json or format is Format.JSON:
        from trajstore.importers import to_jsonl_record

        out(as_json(to_jsonl_record(run)))
    elif format is Format.MESSAGES:
        from trajstore.exports import chat_messages

        for message in chat_messages(run):
            out(as_json(message))
    else:
        from trajstore_cli._transcript import write_transcript

        write_transcript(reader, run, full=full)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, show)
