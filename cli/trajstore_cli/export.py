"""``trajstore export``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trajstore_cli._options import AtOption, JsonOption, StoreArgument, open_store
from trajstore_cli._output import as_json, out, pairs, say

app = typer.Typer(
    no_args_is_help=True, help="Write training sets in the shape that a trainer reads."
)


class Trainer(StrEnum):
    """Trainers whose shape can be written."""

    TRL = "trl"


class Format(StrEnum):
    """File formats."""

    PARQUET = "parquet"
    JSONL = "jsonl"


@app.command()
def sft(
    store: StoreArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.")],
    to: Annotated[Trainer, typer.Option(help="Trainer.")] = Trainer.TRL,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Condition over trajectories.")
    ] = None,
    include_failures: Annotated[
        bool, typer.Option(help="Also runs that failed or whose outcome is unknown.")
    ] = False,
    format: Annotated[Format, typer.Option("--format", help="File format.")] = Format.PARQUET,  # noqa: A002
    at: AtOption = None,
    json: JsonOption = False,
) -> None:
    """Write a supervised fine-tuning set: successes only, unless told otherwise.

    Example: trajstore export sft pool --to trl -o sft/ --where "environment = 'airline'"
    """
    del to
    report = open_store(store).export_sft(
        output,
        where=where,
        success_only=not include_failures,
        at=at,
        format=format.value,
    )
    values = dict(report.manifest)
    if json:
        out(as_json(values))
        return
    for stage in values["selection_funnel"]:
        say(f"{stage['stage']:<28} {stage['in']:>8,} -> {stage['out']:>8,}")
    out(pairs({"rows": values["rows"], "refused": values["refused"], "output": str(output)}))


def register(main: typer.Typer) -> None:
    """Add the commands."""
    main.add_typer(app, name="export")
