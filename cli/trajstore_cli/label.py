"""``trajstore label``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trajstore_cli._command import add
from trajstore_cli._options import JsonOption, StoreArgument, file_or_stdin, open_store
from trajstore_cli._output import report, say_some


def label(
    store: StoreArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV, JSON, JSON lines or Parquet; - is stdin.")
    ],
    evaluator: Annotated[str, typer.Option(metavar="NAME", help="Who judged.")],
    evaluator_version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Its version.")
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="What is judged, where a row does not say.")
    ] = "outcome",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.")] = False,
    json: JsonOption = False,
) -> None:
    """Add late outcomes and scores from a file.

    Its rows have trajectory_id, and success or reward or both; optional are name, step_index,
    rationale and created_at. The exit code is 1 where no row could be read.

    Example: trajstore label pool verdicts.csv --evaluator nightly-tests
    """
    from trajstore.pipeline import label_from_file

    with file_or_stdin(file) as path:
        done = label_from_file(
            open_store(store),
            path,
            evaluator=evaluator,
            evaluator_version=evaluator_version,
            name=name,
            strict=strict,
        )
    values = asdict(done)
    if json:
        report(values, json=True)
    else:
        lists = [name for name in values if isinstance(values[name], list)]
        values |= {name: len(values[name]) for name in lists}
        if not done.missing_steps:
            del values["missing_steps"]
        report(values, json=False)
        say_some(done.problems, "bad: {}")
        say_some(done.missing_steps, "there is no {} (yet); its label is kept")
        say_some(done.unknown, "no trajectory has the id {} (yet); its label is kept")
    if done.problems and not done.labels and not done.already:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, label)
