"""``trajstore label``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trajstore_cli._options import JsonOption, StoreArgument, open_store
from trajstore_cli._output import as_json, out, pairs, say

_SHOWN = 10


def label(
    store: StoreArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False)],
    evaluator: Annotated[str, typer.Option(help="Who judged.")],
    evaluator_version: Annotated[str | None, typer.Option(help="Its version.")] = None,
    name: Annotated[
        str, typer.Option(help="What is judged, where a row does not say.")
    ] = "outcome",
    strict: Annotated[bool, typer.Option(help="Stop at the first bad row.")] = False,
    json: JsonOption = False,
) -> None:
    """Add late outcomes and scores from CSV, JSON, JSON Lines or Parquet.

    Columns: trajectory_id, and success or reward; optional name, step_index, rationale, created_at.

    Example: trajstore label pool verdicts.csv --evaluator nightly-tests
    """
    from trajstore.pipeline import label_from_file

    report = label_from_file(
        open_store(store),
        file,
        evaluator=evaluator,
        evaluator_version=evaluator_version,
        name=name,
        strict=strict,
    )
    values = asdict(report)
    if json:
        out(as_json(values))
    else:
        out(pairs({**values, "unknown": len(report.unknown), "problems": len(report.problems)}))
    for problem in report.problems[:_SHOWN]:
        say(f"bad: {problem}")
    for unknown in report.unknown[:_SHOWN]:
        say(f"no trajectory has the id {unknown} (yet); its label is kept")
    if report.problems and not report.labels and not report.already:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(label)
