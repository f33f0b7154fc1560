"""``trajstore select``."""

from __future__ import annotations

import io
import shlex
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._command import add
from trajstore_cli._options import AtOption, FailEmptyOption, StoreArgument, open_reader
from trajstore_cli._output import out, say
from trajstore_cli._values import as_json, settings

if TYPE_CHECKING:
    from trajstore.filters import Selection

StageOption = Annotated[
    list[str] | None,
    typer.Option("--stage", metavar='"NAME KEY=VALUE ..."', help="A stage; in order."),
]
RecipeOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.toml", help="Stages from a file: its [[select]] entries, as `build` reads."
    ),
]


SelectionOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What `trajstore select -o` wrote; - is stdin."),
]


def read_selection(path: Path | None) -> Selection | None:
    """The selection that a command was given, if any."""
    if path is None:
        return None
    from trajstore.filters import Selection

    if str(path) != "-":
        return Selection.read(path)
    content = sys.stdin.buffer.read()
    if not content.startswith(b"PAR1"):
        what = "holds text, such as ids, and no selection" if content else "is empty"
        message = f"stdin {what}; `trajstore select STORE ... -o -` writes a selection there"
        raise typer.BadParameter(message, param_hint="--selection")
    return Selection.read(io.BytesIO(content))


def select(
    store: StoreArgument,
    stage: StageOption = None,
    recipe: RecipeOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the selection; - is stdout."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Instead of ids, print what was dropped and why.")
    ] = False,
    at: AtOption = None,
    fail_empty: FailEmptyOption = False,
) -> None:
    """Select trajectories by stages; `trajstore stages` lists them.

    Ids go to stdout, one a line, or the whole selection to a Parquet file that
    `export --selection` reads. The funnel (what each stage left) goes to stderr.

    Example: trajstore select pool --stage success --stage "top-n n=1" -o best.parquet
    """
    from trajstore.filters import stages_from
    from trajstore.pipeline import select as select_from

    entries = [*_read(recipe), *(_parse(text) for text in stage or ())]
    found = select_from(open_reader(store, at), stages_from(entries))
    say(found.explain())
    _write(found, output, explain=explain)
    if fail_empty and not len(found):
        raise typer.Exit(1)


def _write(found: Selection, output: Path | None, *, explain: bool) -> None:
    if output is not None and str(output) != "-":
        found.write(output)
    elif output is not None:
        found.write(sys.stdout.buffer)
    elif explain:
        for row in found.dropped.to_pylist():
            out(as_json({k: v for k, v in row.items() if v is not None}))
    else:
        for trajectory_id in found.ids():
            out(trajectory_id)


def _read(recipe: Path | None) -> list[dict[str, Any]]:
    """The ``[[select]]`` entries of a TOML file, each with its ``stage``, as a recipe has them."""
    if recipe is None:
        return []
    try:
        content = tomllib.loads(recipe.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{recipe}: {error}", param_hint="--recipe") from error
    entries = content.get("select")
    if not isinstance(entries, list) or not all("stage" in e for e in entries):
        message = f"{recipe} has no [[select]] entries with a stage"
        raise typer.BadParameter(message, param_hint="--recipe")
    return entries


def _parse(text: str) -> dict[str, Any]:
    """``name key=value ...``; values are JSON where they parse as such, else text.

    >>> _parse("top-n n=2 by=tokens")
    {'stage': 'top-n', 'n': 2, 'by': 'tokens'}
    """
    name, *given = shlex.split(text) or [""]
    return {"stage": name, **settings(given, hint="--stage")}


def stages() -> None:
    """List the stages that `select` knows, with their parameters.

    Example: trajstore stages
    """
    from trajstore.filters import STAGES
    from trajstore.filters.stages import usage

    for name, factory in STAGES.items():
        first = (factory.__doc__ or "").strip().splitlines()[0]
        out(f"{name}\n    {first}\n    {usage(name)}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, select)
    add(app, stages)
