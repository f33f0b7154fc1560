"""The app: global options, and errors turned into exit codes.

Exit codes: 0 done; 1 the answer is no or the data is bad; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

import sys

import typer

from trajstore_cli import demo, export, imports, label, query, show, upkeep

app = typer.Typer(
    name="trajstore",
    help="A store for LLM-agent trajectories: import real logs, query them with SQL, make training "
    "sets.",
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
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options for every command."""
    del debug, version


for module in (demo, imports, query, show, label, export, upkeep):
    module.register(app)


def main() -> None:
    """Run the command line and exit with its code."""
    from trajstore.errors import TrajstoreError

    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        app()
    except TrajstoreError as error:
        if debug:
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
