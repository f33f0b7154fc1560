"""Where an index lies, and the small file that says which version of it is whole.

::

    STORE/index/
      trajectory.json  step.json ...      one a level: table, version, fingerprint, snapshot
      trajectory-<id>.lance/ ...          LanceDB tables
      .lock                               builders of a local store take turns

A reader opens the table at the version that the file names. A builder replaces the file, in one
step, only after what it names is on disk; so a build that was killed at any moment is not seen, and
the next build goes on from what it left.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs as pafs

from trajstore.errors import RetrievalError, StoreFormatError, WriteError
from trajstore.retrieval.fingerprint import Fingerprint
from trajstore.retrieval.hits import Level

FORMAT = 1
_UNSEEN = ("aws_", "allow_http", "google_", "azure_")


class Place(Protocol):
    """What is asked of a store's location."""

    @property
    def uri(self) -> str:
        """Folder or URI."""

    @property
    def local(self) -> Any:
        """The local folder, or None."""

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Of the object store."""

    def filesystem(self) -> pafs.FileSystem:
        """An Arrow file system rooted there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """What the file of a level says."""

    table: str
    """The LanceDB table."""
    version: int
    """The version of it that is whole."""
    embedder: str
    """The name that makes the embedder again; empty for an object that no name makes."""
    fingerprint: Fingerprint
    """What made the vectors."""
    snapshot: int
    """The store's snapshot that it was brought up to; -1 while the first build goes on."""
    without_text: int = 0
    """Items of that snapshot that have no text to be found by."""
    next_table: str | None = None
    """The table that a rebuild has begun, and will go on with."""
    next_key: str | None = None
    """:meth:`Fingerprint.key` of that one."""


def pointer_path(level: Level) -> str:
    """Path of the file inside the index."""
    return f"{level}.json"


def read_pointer(index: Place, level: Level) -> Pointer | None:
    """What the file of a level says; None where nothing was built.

    Raises:
        RetrievalError: it cannot be read.
        StoreFormatError: a newer trajstore wrote it.
    """
    try:
        with index.filesystem().open_input_file(pointer_path(level)) as file:
            text = file.read()
    except FileNotFoundError:
        return None
    try:
        value = json.loads(text)
        if value["format"] > FORMAT:
            message = f"The index of {index.uri} was built by a newer trajstore; update this one."
            raise StoreFormatError(message, path=index.uri)
        fields = {n: v for n, v in value.items() if n in Pointer.__dataclass_fields__}
        return Pointer(**fields | {"fingerprint": Fingerprint.from_json(value["fingerprint"])})
    except (ValueError, LookupError, TypeError) as error:
        raise broken(index, level, error) from error


def write_pointer(index: Place, level: Level, pointer: Pointer) -> None:
    """Replace the file of a level in one step.

    Raises:
        WriteError: the disk refused.
    """
    text = json.dumps({"format": FORMAT, **asdict(pointer)}, indent=1).encode()
    if index.local is None:
        stream = index.filesystem().open_output_stream(pointer_path(level))
        # Only what a buffer took in comes out as bytes, which this file system wants.
        with stream, pa.BufferedOutputStream(stream, 2 * len(text)) as file:
            file.write(text)
        return
    path = index.local / pointer_path(level)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        message = f"The index at {index.uri} cannot be written: {error}"
        raise WriteError(message, path=index.uri) from error


def broken(index: Place, level: Level, error: object) -> RetrievalError:
    """The error for an index that cannot be read."""
    store = index.uri.removesuffix("/index")
    message = (
        f"The {level} index of {store} cannot be read: {error}. It holds nothing that the "
        f"store does not; make it anew with `trajstore index {store} --level {level} --rebuild`."
    )
    return RetrievalError(message, path=index.uri)


@contextmanager
def build_lock(index: Place) -> Iterator[None]:
    """Wait until no other process builds; on an object store nobody waits.

    Raises:
        WriteError: the folder cannot be made.
    """
    if index.local is None:
        yield
        return
    try:
        index.local.mkdir(parents=True, exist_ok=True)
        lock = (index.local / ".lock").open("ab")
    except OSError as error:
        message = f"The index at {index.uri} cannot be written: {error}"
        raise WriteError(message, path=index.uri) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def lance_options(options: Mapping[str, str]) -> dict[str, str]:
    """The store's options of the object store as LanceDB takes them."""
    lowered = {k.lower(): v for k, v in options.items()}
    return {
        {"aws_endpoint_url": "aws_endpoint", "aws_allow_http": "allow_http"}.get(k, k): v
        for k, v in lowered.items()
        if k.startswith(_UNSEEN)
    }
