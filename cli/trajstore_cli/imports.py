"""``trajstore import`` and ``trajstore formats``."""

from __future__ import annotations

import glob
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from trajstore_cli._cells import pairs, table
from trajstore_cli._command import add
from trajstore_cli._options import JsonOption, StoreArgument, open_store
from trajstore_cli._output import out, report, rows, say
from trajstore_cli._progress import import_progress

_SHOWN = {"bad": 10, "conflicting": 3, "ignored": 3}
_WIDTH = 100
_FOUND = ("trajectories", "labels", "labels_already", "skills", "reflections", "workflows")


PathsArgument = Annotated[
    list[str], typer.Argument(metavar="PATH", help="Files, folders, globs; - is stdin.")
]
FormatOption = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="Found by content if not given.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Stop at the first record that is bad.")
]
EnvironmentOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Environment, where files say none.")
]
AgentOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Agent, where files say none.")
]
ModelOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Model, where files say none.")
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(metavar="REWARD", help="Reward from which on a run counts as solved."),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="FIELD=COLUMN", help="For tables: our field = their column."),
]
RedactOption = Annotated[
    bool, typer.Option("--redact/--no-redact", help="Replace keys and tokens by placeholders.")
]


def import_(
    store: StoreArgument,
    paths: PathsArgument,
    format: FormatOption = None,  # noqa: A002  the name of the flag
    strict: StrictOption = False,
    environment: EnvironmentOption = None,
    agent: AgentOption = None,
    model: ModelOption = None,
    success_threshold: ThresholdOption = None,
    map: MapOption = None,  # noqa: A002  the name of the flag
    redact: RedactOption = True,
    json: JsonOption = False,
) -> None:
    """Read files of any known format into a store.

    The store is made if it isn't there, and what it holds already is left alone. A bad record is
    left out with its place and reason and costs no other; the exit code is 1 where nothing at all
    was found.

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
    _check(paths, format)
    pool = open_store(store, create=True)
    with _telling_what_stays(), import_progress(quiet=json) as progress:
        done = pool.import_files(
            paths, format=format, options=options, strict=strict, redact=redact, progress=progress
        )
    values = done.as_dict()
    if json:
        report(values, json=True)
    else:
        _print(values)
    if not any(values[name] for name in _FOUND):
        say("nothing was imported; `trajstore formats` lists what can be read")
        raise typer.Exit(1)


def _check(paths: Iterable[str], format: str | None) -> None:  # noqa: A002
    """Refuse what cannot work before a store is made."""
    from trajstore.errors import ImportFormatError
    from trajstore.importers import importer

    for path in paths:
        if path != "-" and not Path(path).exists() and not glob.glob(path, recursive=True):  # noqa: PTH207
            raise typer.BadParameter(f"there is nothing at {path}", param_hint="PATH")
    if format is None:
        return
    try:
        importer(format)
    except ImportFormatError as error:
        raise typer.BadParameter(str(error), param_hint="--format") from None


@contextmanager
def _telling_what_stays() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say("what was written so far stays; importing again adds the rest")
        raise


def _mapping(pairs_given: list[str]) -> dict[str, str]:
    mapping = {}
    for pair in pairs_given:
        field, equals, column = pair.partition("=")
        if not (field and equals and column):
            raise typer.BadParameter(f"'{pair}' is not FIELD=COLUMN", param_hint="--map")
        mapping[field] = column
    return mapping


def _print(values: dict[str, Any]) -> None:
    """Counts that are not zero on stdout; the first problems, bad ones before ignored ones."""
    problems = values.pop("problems")
    formats = [{"format": n, **c} for n, c in values.pop("formats").items()]
    if formats:
        columns = list(dict.fromkeys(k for row in formats for k in row))
        out(table(formats, columns) + "\n")
    out(pairs({k: v for k, v in values.items() if v != 0 or k == "files"}))
    for kind, most in _SHOWN.items():
        listed = [p for p in problems if p["kind"] == kind][:most]
        for problem in listed:
            say(_line(problem))
        more = values[kind] - len(listed)
        if more > 0:
            say(f"{kind}: {more:,} more; --json lists them")


def _line(problem: Mapping[str, Any]) -> str:
    line = f":{problem['line']}" if problem["line"] is not None else ""
    record = f" record {problem['record']}:" if problem["record"] is not None else ""
    return f"{problem['kind']}: {problem['source']}{line}:{record} {problem['reason']}"


def formats(json: JsonOption = False) -> None:
    """List the formats that `import` reads, and what is read of each.

    Example: trajstore formats
    """
    from trajstore.importers import importers

    known = [{"format": i.name, "what": i.title, "reads": i.reads} for i in importers().values()]
    if json:
        rows(known)
        return
    width = max(len(row["format"]) for row in known)
    for row in known:
        wrapped = [textwrap.fill(row[n], _WIDTH - width - 2) for n in ("what", "reads")]
        lines = textwrap.indent("\n".join(wrapped), " " * (width + 2))
        out(f"{row['format'].ljust(width)}{lines[width:]}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, import_, "import")
    add(app, formats)
