"""The app: global options and every command."""

from __future__ import annotations

import io
import sys

import typer

from trajstore_cli import (
    build,
    credit,
    demo,
    export,
    imports,
    index,
    insights,
    judge,
    label,
    pair,
    query,
    reflections,
    report,
    rollout,
    search,
    select,
    show,
    skills,
    train,
    upkeep,
    workflows,
)
from trajstore_cli._command import debug

app = typer.Typer(
    name="trajstore",
    help="A store for LLM-agent trajectories: import real logs, query them with SQL, make training "
    "sets.\n\n\b\nExample:\n  trajstore demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from trajstore import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    debug_: bool = typer.Option(False, "--debug", help="Show tracebacks."),
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options for every command."""
    del version
    debug.set(debug_)


for module in (
    demo,
    imports,
    query,
    report,
    show,
    label,
    judge,
    credit,
    select,
    pair,
    export,
    skills,
    reflections,
    workflows,
    insights,
    build,
    index,
    search,
    rollout,
    train,
    upkeep,
):
    module.register(app)


def main() -> None:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that is not UTF-8 gets escapes
            stream.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:]
    if "--debug" in arguments:  # it may stand anywhere
        arguments = ["--debug", *(a for a in arguments if a != "--debug")]
    app(arguments, prog_name="trajstore")


if __name__ == "__main__":
    main()
