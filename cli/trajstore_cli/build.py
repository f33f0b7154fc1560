"""``trajstore build``."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import pairs, table
from trajstore_cli._command import add
from trajstore_cli._options import DryRunOption, JsonOption, open_store
from trajstore_cli._output import out, say, say_some
from trajstore_cli._progress import import_progress
from trajstore_cli._values import as_json

if TYPE_CHECKING:
    from trajstore.pipeline.building import BuildReport, SetReport
    from trajstore.pipeline.recipe import Recipe

_COLUMNS = ("set", "kind", "to", "split", "rows", "state")

RecipeArgument = Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="The recipe.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Instead of the recipe's output."),
]
StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="STORE", help="Instead of the recipe's store.")
]
CheckOption = Annotated[
    bool,
    typer.Option("--check", help="Write nothing; exit with 1 where the sets on disk differ."),
]


def build(
    recipe: RecipeArgument,
    output: OutputOption = None,
    store: StoreOption = None,
    dry_run: DryRunOption = False,
    check: CheckOption = False,
    json: JsonOption = False,
) -> None:
    """Make training sets from one recipe file.

    Imports what the recipe names, splits the tasks, selects, and writes every set with its
    manifest. The same recipe and snapshot give the same bytes; then nothing is written. The funnel
    of each set goes to stderr. --dry-run and --check import nothing.

    Example: trajstore build recipe.toml
    """
    from trajstore.pipeline.recipe import read_recipe

    if dry_run and check:
        raise typer.BadParameter("give --dry-run or --check, not both", param_hint="--check")
    found = read_recipe(recipe)
    done = _done(found, output, store, dry_run=dry_run, check=check, json=json)
    if json:
        out(as_json(_values(done)))
    else:
        _print(done, dry_run=dry_run, check=check)
    if check and done.changes:
        raise typer.Exit(1)


def _done(
    recipe: Recipe,
    output: Path | None,
    store: str | None,
    *,
    dry_run: bool,
    check: bool,
    json: bool,
) -> BuildReport:
    from trajstore.pipeline import building

    writes = not dry_run and not check
    uri = store or recipe.store_uri()
    pool = open_store(uri, create=writes and recipe.imports is not None)
    if recipe.imports and not writes:
        say("nothing is imported; the store is read as it is")
    on_set = None if json else _tell
    if dry_run:
        return building.plan_build(recipe, store=pool, output=output, on_set=on_set)
    if check:
        return building.check_build(recipe, store=pool, output=output, on_set=on_set)
    with import_progress(quiet=json) as progress:
        return building.build(recipe, store=pool, output=output, progress=progress, on_set=on_set)


def _tell(made: SetReport) -> None:
    say(f"{made.name}:\n{made.explain()}")
    for reason, why in made.refused.items():
        say(textwrap.fill(f"refused as {reason}: {why}", 100, subsequent_indent="  "))
    say("")


def _print(done: BuildReport, *, dry_run: bool, check: bool) -> None:
    brought = done.imported
    if brought is not None:
        say(
            f"import: {brought.trajectories:,} trajectories in {brought.files:,} files, "
            f"{brought.added:,} new, {brought.bad:,} bad records"
        )
        say_some([str(p) for p in brought.problems if p.kind == "bad"], "{}")
    columns = [c for c in _COLUMNS if c != "state" or not dry_run]
    rows = [{"set": s.name, **{c: getattr(s, c) for c in columns[1:]}} for s in done.sets]
    out(table(rows, columns) + "\n")
    if check:
        say_some([f"{state}: {name}" for name, state in done.changes.items()], "{}")
    out(
        pairs(
            {
                _verb(done, dry_run=dry_run, check=check): str(done.output),
                "snapshot": done.snapshot,
            }
        )
    )


def _verb(done: BuildReport, *, dry_run: bool, check: bool) -> str:
    if dry_run:
        return "would write to"
    if not done.changes:
        return "unchanged"
    return "differs" if check else "wrote"


def _values(done: BuildReport) -> dict[str, Any]:
    return {
        "output": str(done.output),
        "snapshot": done.snapshot,
        "changes": dict(done.changes),
        "imported": done.imported.as_dict() if done.imported else None,
        "sets": [
            {
                **{n: getattr(s, n) for n in ("name", "kind", "to", "split", "rows", "state")},
                "funnel": list(s.funnel),
            }
            for s in done.sets
        ],
    }


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, build)
