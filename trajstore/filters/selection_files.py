"""Selections as Parquet: the rows with their manifest inside, the dropped list beside them."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from trajstore.errors import SelectionError
from trajstore.filters.selection import DROPPED_SCHEMA, FunnelStage, Selection
from trajstore.schema import SCHEMA_VERSION, canonical_json

MANIFEST_KEY = b"trajstore.selection"
"""Key of the manifest in the metadata of the Parquet schema."""

_FORMAT = 1


def dropped_path(path: Path) -> Path:
    """Where the dropped list of a selection lies: ``best.parquet`` -> ``best.dropped.parquet``."""
    return path.with_name(f"{path.name.removesuffix('.parquet')}.dropped.parquet")


def write_selection(selection: Selection, path: str | Path | IO[bytes]) -> None:
    """Write a selection; equal selections give equal bytes.

    The rows go to ``path`` as Parquet, with snapshot, recipe, funnel and a hash of the ids as JSON
    in the metadata. What was dropped, and why, goes to :func:`dropped_path`. A binary stream gets
    the rows and the manifest only, so a selection can go through a pipe.

    Args:
        selection: what to write.
        path: file to make or replace, or a binary stream.
    """
    if not isinstance(path, str | Path):
        path.write(_parquet(selection.rows, _manifest(selection, None)))
        path.flush()
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    dropped = _parquet(selection.dropped, None)
    manifest = _manifest(selection, hashlib.sha256(dropped).hexdigest())
    _replace(dropped_path(target), dropped)
    _replace(target, _parquet(selection.rows, manifest))


def read_selection(path: str | Path | IO[bytes]) -> Selection:
    """Read what :func:`write_selection` wrote.

    Args:
        path: the file, or a binary stream. The dropped list is read where it lies beside the file;
            without it :attr:`Selection.dropped` is empty.

    Raises:
        SelectionError: no selection stands there, a newer version wrote it, or the two files are
            not of the same selection.
    """
    if not isinstance(path, str | Path):
        rows, manifest = _rows(BytesIO(path.read()), "the stream")
        return _selection(rows, DROPPED_SCHEMA.empty_table(), manifest)
    source = Path(path)
    rows, manifest = _rows(source, str(source))
    beside = dropped_path(source)
    dropped = DROPPED_SCHEMA.empty_table()
    if beside.is_file():
        content = beside.read_bytes()
        if hashlib.sha256(content).hexdigest() != manifest.get("dropped_sha256"):
            message = (
                f"{beside} is not the dropped list of {source}: one of the two was replaced. "
                "Select again, or remove the dropped list."
            )
            raise SelectionError(message, path=beside)
        dropped = pq.read_table(BytesIO(content)).cast(DROPPED_SCHEMA)
    return _selection(rows, dropped, manifest)


def ids_sha256(rows: pa.Table) -> str:
    """SHA-256 over the ids in order, each followed by a newline."""
    sha = hashlib.sha256()
    for batch in rows.select(["trajectory_id"]).to_batches(max_chunksize=65_536):
        sha.update("".join(f"{i}\n" for i in batch.column(0).to_pylist()).encode())
    return sha.hexdigest()


def _manifest(selection: Selection, dropped_sha256: str | None) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "schema_version": SCHEMA_VERSION,
        "snapshot": selection.snapshot,
        "recipe": selection.recipe,
        "funnel": [asdict(s) for s in selection.funnel],
        "trajectories": len(selection),
        "ids_sha256": ids_sha256(selection.rows),
        "dropped_sha256": dropped_sha256,
    }


def _parquet(rows: pa.Table, manifest: Mapping[str, Any] | None) -> bytes:
    metadata = {MANIFEST_KEY: canonical_json(manifest).encode()} if manifest else None
    out = BytesIO()
    table = rows.combine_chunks().replace_schema_metadata(metadata)
    pq.write_table(table, out, compression="zstd", row_group_size=100_000)
    return out.getvalue()


def _replace(path: Path, content: bytes) -> None:
    staged = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with staged.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


def _rows(source: Path | BytesIO, name: str) -> tuple[pa.Table, dict[str, Any]]:
    try:
        rows = pq.read_table(source)
    except FileNotFoundError as error:
        message = f"There is no selection at {name}."
        raise SelectionError(message, path=name) from error
    except (pa.ArrowException, OSError) as error:
        message = (
            f"{name} is no Parquet file ({error}); a selection is written by Selection.write or "
            "`trajstore select STORE ... -o FILE`."
        )
        raise SelectionError(message, path=name) from error
    text = (rows.schema.metadata or {}).get(MANIFEST_KEY)
    if text is None:
        message = f"{name} is Parquet, but no selection: its metadata holds no manifest."
        raise SelectionError(message, path=name)
    manifest = json.loads(text)
    if manifest["format"] > _FORMAT:
        message = f"{name} was written by a newer trajstore. Upgrade: pip install -U trajstore"
        raise SelectionError(message, path=name)
    if ids_sha256(rows) != manifest["ids_sha256"]:
        message = f"{name} was changed after it was selected: its ids do not fit its manifest."
        raise SelectionError(message, path=name)
    return rows.replace_schema_metadata(None), manifest


def _selection(rows: pa.Table, dropped: pa.Table, manifest: Mapping[str, Any]) -> Selection:
    return Selection(
        rows=rows,
        dropped=dropped,
        funnel=tuple(FunnelStage(**s) for s in manifest["funnel"]),
        snapshot=manifest["snapshot"],
        recipe=manifest["recipe"],
    )
