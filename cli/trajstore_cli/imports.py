"""``trajstore import`` and ``trajstore formats``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from trajstore_cli._options import JsonOption, StoreArgument, open_store
from trajstore_cli._output import as_json, out, pairs, say, table
from trajstore_cli._progress import import_progress

_SHOWN = 20


def import_(
    store: StoreArgument,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders, globs, -")],
    format: Annotated[  # noqa: A002  the name of the flag
        str | None, typer.Option("--format", help="Format name; found by content if not given.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first record that is bad.")] = False,
    environment: Annotated[
        str | None, typer.Option(help="Environment, where files say none.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Agent, where files say none.")] = None,
    model: Annotated[str | None, typer.Option(help="Model, where files say none.")] = None,
    success_threshold: Annotated[
        float | None, typer.Option(help="Reward from which on a run counts as solved.")
    ] = None,
    map: Annotated[  # noqa: A002  the name of the flag
        list[str] | None,
        typer.Option("--map", metavar="FIELD=COLUMN", help="For tables: our field = their column."),
    ] = None,
    secrets: Annotated[
        bool, typer.Option("--redact/--no-redact", help="Replace keys and tokens by placeholders.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Read files of any known format into a store (made if it isn't there).

    Example: trajstore import pool runs/
    """
    from trajstore import ImportOptions

    options = ImportOptions(
        environment=environment,
        agent=agent,
        model=model,
        success_threshold=success_threshold,
        mapping=_mapping(map or []),
    )
    missing = [p for p in paths if p != "-" and not Path(p).exists() and not _is_glob(p)]
    if missing:
        raise typer.BadParameter(f"there is nothing at {missing[0]}", param_hint="PATH...")
    pool = open_store(store, create=True)
    with import_progress(quiet=json) as progress:
        report = pool.import_files(
            paths,
            format=format,
            options=options,
            strict=strict,
            redact=secrets,
            progress=progress,
        )
    values = report.as_dict()
    if json:
        out(as_json(values))
    else:
        _print(values)
    if report.bad and not report.trajectories and not report.labels:
        raise typer.Exit(1)


def _is_glob(path: str) -> bool:
    return any(c in path for c in "*?[")


def _mapping(pairs_given: list[str]) -> dict[str, str]:
    mapping = {}
    for pair in pairs_given:
        field, equals, column = pair.partition("=")
        if not (field and equals and column):
            raise typer.BadParameter(f"'{pair}' is not FIELD=COLUMN", param_hint="--map")
        mapping[field] = column
    return mapping


def _print(report: dict[str, Any]) -> None:
    problems = report.pop("problems")
    formats = [{"format": n, **c} for n, c in report.pop("formats").items()]
    if formats:
        columns = list(dict.fromkeys(k for row in formats for k in row))
        out(table(formats, columns) + "\n")
    out(pairs(report))
    for problem in problems[:_SHOWN]:
        line = f":{problem['line']}" if problem["line"] else ""
        record = f" record {problem['record']}" if problem["record"] else ""
        say(f"{problem['kind']}: {problem['source']}{line}{record}: {problem['reason']}")
    more = report["bad"] + report["ignored"] - len(problems[:_SHOWN])
    if more > 0:
        say(f"... and {more} more; --json lists them")


def formats(json: JsonOption = False) -> None:
    """List the formats that `import` reads, and what is read of each.

    Example: trajstore formats
    """
    from trajstore.importers import importers

    rows = [{"format": i.name, "what": i.title, "reads": i.reads} for i in importers().values()]
    if json:
        for row in rows:
            out(as_json(row))
        return
    width = max(len(r["format"]) for r in rows)
    for row in rows:
        out(f"{row['format'].ljust(width)}  {row['what']}\n{' ' * width}  {row['reads']}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("import")(import_)
    app.command()(formats)
