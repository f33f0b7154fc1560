"""Media beside the tables, by SHA-256: the same picture is kept once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
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
        """Keep bytes and give their SHA-256; bytes that are there already are not written again."""
        name = hashlib.sha256(data).hexdigest()
        place = f"{name[:2]}/{name}"
        if self._location.local is None:
            object_store(self._location).pipe_file(self._location.path(place), data)
            return name
        path = self._location.local / place
        if not path.exists():
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
        """SHA-256 of every blob (local stores), in order."""
        root = self._location.local
        if root is None or not root.is_dir():
            return []
        return sorted(p.name for p in root.glob("??/*") if not p.name.startswith("."))

    def remove(self, names: Iterable[str]) -> int:
        """Remove blobs and say how many."""
        root = self._location.local
        count = 0
        for name in names:
            path = (root or Path()) / name[:2] / name
            if root is not None and path.exists():
                path.unlink()
                count += 1
        return count
