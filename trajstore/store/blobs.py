"""Media beside the tables, by SHA-256: the same picture is kept once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from trajstore.errors import StoreError
from trajstore.store.connection import object_store
from trajstore.store.layout import Location
from trajstore.store.parts import sync


class Blobs:
    """Content-addressed files of one store, under ``blobs/ab/<sha256>``."""

    def __init__(self, root: Location) -> None:
        """Blobs of the store at ``root``."""
        self._location = root.child("blobs")

    def put(self, data: bytes, *, durable: bool = True) -> str:
        """Keep bytes and give their SHA-256.

        Bytes that are there already are only marked as just used, so that a vacuum which runs
        before they are named by a commit leaves them alone.
        """
        name = hashlib.sha256(data).hexdigest()
        place = f"{name[:2]}/{name}"
        if self._location.local is None:
            object_store(self._location).pipe_file(self._location.path(place), data)
            return name
        path = self._location.local / place
        if path.exists():
            os.utime(path)
            return name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{name}.{os.getpid()}")
        draft.write_bytes(data)
        if durable:
            sync(draft)
        draft.replace(path)
        if durable:
            sync(path.parent)
        return name

    def get(self, name: str) -> bytes:
        """The bytes with that SHA-256.

        Raises:
            StoreError: there are none, or they are damaged.
        """
        try:
            data = self._read(f"{name[:2]}/{name}")
        except (OSError, ValueError) as error:
            raise StoreError(f"There is no blob {name}: {error}") from error
        if hashlib.sha256(data).hexdigest() != name:
            raise StoreError(f"Blob {name} is damaged: its bytes have another hash.")
        return data

    def _read(self, place: str) -> bytes:
        if self._location.local is not None:
            return (self._location.local / place).read_bytes()
        return bytes(object_store(self._location).cat_file(self._location.path(place)))

    def names(self) -> list[str]:
        """SHA-256 of every blob, in order."""
        return sorted(self.last_used())

    def last_used(self) -> dict[str, datetime]:
        """When each blob was last put, by SHA-256."""
        root = self._location.local
        if root is not None:
            found = (p for p in root.glob("??/*") if not p.name.startswith("."))
            return {p.name: datetime.fromtimestamp(p.stat().st_mtime, tz=UTC) for p in found}
        listed = object_store(self._location).find(self._location.uri, detail=True)
        return {Path(path).name: info["LastModified"] for path, info in listed.items()}

    def remove(self, names: Iterable[str]) -> int:
        """Remove blobs and say how many."""
        root = self._location.local
        count = 0
        for name in names:
            place = f"{name[:2]}/{name}"
            if root is not None:
                (root / place).unlink(missing_ok=True)
            else:
                object_store(self._location).rm_file(self._location.path(place))
            count += 1
        return count
