"""``trajstore export atif``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trajstore_cli._cells import pairs
from trajstore_cli._command import add
from trajstore_cli._options import AtOption, FailEmptyOption, JsonOption, StoreArgument, open_store
from trajstore_cli._output import out, say
from trajstore_cli._values import as_json
from trajstore_cli.pair import WhereOption
from trajstore_cli.select import SelectionOption, read_selection

FolderOption = Annotated[
    Path, typer.Option("-o", "--output", metavar="DIR", help="Folder; gets one file a run.")
]


def atif(
    store: StoreArgument,
    output: FolderOption,
    where: WhereOption = None,
    selection: SelectionOption = None,
    at: AtOption = None,
    fail_empty: FailEmptyOption = False,
    json: JsonOption = False,
) -> None:
    """Write runs as ATIF documents, one JSON file each.

    Every run goes out, whatever its outcome, as a valid ATIF 1.7 document that `trajstore import`
    reads back as the same run. manifest.json says which runs they are.

    Example: trajstore export atif pool -o atif/ --where "success"
    """
    from trajstore.pipeline.exporting_atif import export_atif_from

    done = export_atif_from(
        open_store(store), output, where=where, selection=read_selection(selection), at=at
    )
    if json:
        out(as_json({k: v for k, v in done.manifest.items() if k != "files"}))
    else:
        told = {"trajectories": done.runs, "bytes": done.size_bytes, "output": str(output)}
        out(pairs(told))
    if not done.runs:
        say("no run fits; --where and --selection say which runs are taken")
        if fail_empty:
            raise typer.Exit(1)


def register(export: typer.Typer) -> None:
    """Add the command to the group ``export``."""
    add(export, atif)
