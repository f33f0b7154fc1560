"""Arguments and options that several commands share."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trajstore import Pool
    from trajstore.store import Reader

StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="Folder or object-store URI of the store.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
FailEmptyOption = Annotated[
    bool, typer.Option("--fail-empty", help="Exit with 1 where there is not a single row.")
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", metavar="SNAPSHOT", help="A snapshot's number or a pin's name."),
]


def open_store(uri: str, *, create: bool = False) -> Pool:
    """Open a store; object-store options come from the usual ``AWS_...`` variables."""
    import trajstore

    if "://" not in uri and Path(uri).is_file():
        message = f"{uri} is a file; a store is a folder, and the first thing to give"
        raise typer.BadParameter(message, param_hint="STORE")
    return trajstore.open(uri, create=create, storage_options=storage_options(uri))


def storage_options(uri: str) -> dict[str, str] | None:
    """What the environment says about the object store of a URI; None for a folder."""
    if "://" not in uri:
        return None
    return {k: v for k, v in os.environ.items() if k.startswith("AWS_")}


def open_reader(uri: str, at: str | None) -> Reader:
    """The store's newest snapshot, or the one that ``--at`` names."""
    store = open_store(uri)
    return store.reader() if at is None else store.at(at)


@contextmanager
def file_or_stdin(path: Path) -> Iterator[Path]:
    """The file, or a copy of stdin for ``-``: what reads it may want to look twice."""
    if str(path) != "-":
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {path}", param_hint="FILE")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "stdin"
        copy.write_bytes(sys.stdin.buffer.read())
        yield copy
