"""``trajstore report``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trajstore_cli._cells import pairs
from trajstore_cli._command import add
from trajstore_cli._options import AtOption, JsonOption, StoreArgument, open_store
from trajstore_cli._output import out, say
from trajstore_cli._values import as_json
from trajstore_cli.select import SelectionOption, read_selection

OutputOption = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE.html", help="File to write; - is stdout.")
]
WhereOption = Annotated[
    str | None, typer.Option(metavar="SQL", help="Condition over trajectories.")
]
SeedOption = Annotated[int, typer.Option(help="Of the sample that the diversity map shows.")]


def report(
    store: StoreArgument,
    output: OutputOption,
    selection: SelectionOption = None,
    at: AtOption = None,
    where: WhereOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Write numbers and plots of a store as one HTML file.

    Outcomes per task, success against steps, steps and tokens by outcome, rewards, agents and
    models beside each other, tools, a diversity map, runs over time, and the funnel of a selection.
    The file opens offline and is the same for the same snapshot. --json prints every number in it.

    Example: trajstore report pool -o report.html --where "environment = 'airline'"
    """
    pool = open_store(store)
    to_stdout = str(output) == "-"
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder; name a file", param_hint="--output")
    done = pool.report(
        sys.stdout.buffer if to_stdout else output,
        selection=read_selection(selection),
        at=at,
        where=where,
        seed=seed,
    )
    show = say if to_stdout else out
    values = {
        "output": "stdout" if to_stdout else str(output),
        "snapshot": done.snapshot,
        "trajectories": done.trajectories,
        "size_bytes": done.size_bytes,
    }
    if json:
        show(as_json({**values, "sections": done.sections}))
        return
    show(pairs(values))
    for name, facts in done.sections.items():
        if isinstance(facts, dict) and "absent" in facts:
            say(f"no section '{name}': {facts['absent']}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, report)
