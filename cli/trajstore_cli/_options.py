"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trajstore import Pool

StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="Folder or object-store URI of the store.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
AtOption = Annotated[
    str | None,
    typer.Option("--at", metavar="SNAPSHOT", help="A snapshot's number or a pin's name."),
]


def open_store(uri: str, *, create: bool = False) -> Pool:
    """Open a store; object-store options come from the usual ``AWS_...`` variables."""
    import trajstore

    options = {k: v for k, v in os.environ.items() if k.startswith("AWS_")}
    remote = "://" in uri
    return trajstore.open(uri, create=create, storage_options=options if remote else None)
