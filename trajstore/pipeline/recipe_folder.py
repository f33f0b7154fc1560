"""The folder of a build: staged beside its place, compared with what is there, swapped in whole."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trajstore.errors import RecipeError

MANIFEST = "manifest.json"
"""Name of the file that describes a build."""

State = Literal["new", "changed", "unchanged", "missing"]
"""What a build makes of what lies on disk; ``missing``: there, and no longer in the recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltFile:
    """A file of a build."""

    name: str
    """Its path inside the output folder, with ``/``."""
    sha256: str
    """SHA-256 of its bytes, hexadecimal."""
    bytes: int
    """Its size."""


def files_below(folder: Path) -> dict[str, BuiltFile]:
    """Every file below a folder by its path in it, in order of the paths."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            name = path.relative_to(folder).as_posix()
            found[name] = BuiltFile(name=name, sha256=digest, bytes=path.stat().st_size)
    return dict(sorted(found.items()))


def differences(there: Mapping[str, BuiltFile], now: Mapping[str, BuiltFile]) -> dict[str, State]:
    """What differs from the files that are there, by path; empty where all bytes are the same."""
    states: dict[str, State] = {}
    for name in sorted(there.keys() | now.keys()):
        if name not in there:
            states[name] = "new"
        elif name not in now:
            states[name] = "missing"
        elif there[name].sha256 != now[name].sha256:
            states[name] = "changed"
    return states


class OutputFolder:
    """The place of a build, and the hidden folder beside it in which the build is made.

    ``sets`` is staged as ``.sets.building``. Whoever makes it holds a lock on it, so a second build
    of the same output is refused and what a killed one left is cleared away. Publishing moves the
    old folder to ``.sets.replaced``, the new one to its place, and removes the old one; a reader
    sees the old files, for an instant none, then the new ones, and never a mixture. What a kill in
    that instant leaves is put back by the next build.
    """

    def __init__(self, place: Path) -> None:
        """Name the folders; nothing is made."""
        self.place = place.resolve()
        self.staged = self.place.with_name(f".{self.place.name}.building")
        self._old = self.place.with_name(f".{self.place.name}.replaced")

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """An empty folder to build in, which is gone afterwards unless it was published.

        Raises:
            RecipeError: another build is at work there, or the place holds files of somebody else.
        """
        self.place.parent.mkdir(parents=True, exist_ok=True)
        lock = self._locked()
        try:
            self._put_back()
            self.check()
            for left in self.staged.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield self.staged
        finally:
            if _is_open_as(self.staged, lock):
                shutil.rmtree(self.staged, ignore_errors=True)
            os.close(lock)

    def _locked(self) -> int:
        while True:
            self.staged.mkdir(exist_ok=True)
            try:
                lock = os.open(self.staged, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(lock)
                message = f"Another build is writing {self.place}; wait until it has ended."
                raise RecipeError(message, path=self.place) from error
            if _is_open_as(self.staged, lock):
                return lock
            os.close(lock)

    def _put_back(self) -> None:
        """Undo or finish a swap that a kill has cut in two."""
        if self._old.exists() and not self.place.exists():
            self._old.rename(self.place)
        shutil.rmtree(self._old, ignore_errors=True)

    def check(self) -> None:
        """Refuse a place that holds what no build wrote.

        Raises:
            RecipeError: it does; the message names a file.
        """
        if not self.place.exists():
            return
        if not self.place.is_dir():
            raise RecipeError(f"{self.place} is a file; sets go into a folder.", path=self.place)
        ours = _written(self.place / MANIFEST)
        there = (p for p in sorted(self.place.rglob("*")) if not p.is_dir())
        foreign = [p for p in there if p.relative_to(self.place).as_posix() not in ours]
        if foreign:
            message = (
                f"{self.place} holds {foreign[0].relative_to(self.place)}, which no build wrote: "
                "move it away, or build into another folder."
            )
            raise RecipeError(message, path=foreign[0])

    def publish(self) -> None:
        """Put the staged folder in its place, durably."""
        for path in (*self.staged.rglob("*"), self.staged):
            _sync(path)
        if self.place.exists():
            self.place.rename(self._old)
        self.staged.rename(self.place)
        _sync(self.place.parent)
        shutil.rmtree(self._old, ignore_errors=True)


def _is_open_as(path: Path, descriptor: int) -> bool:
    """Whether the path still is what was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _written(manifest: Path) -> set[str]:
    """The files of a build by its manifest, itself among them; none where it is no build's."""
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        listed = {str(file["name"]) for each in content["sets"] for file in each["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {MANIFEST, *listed}
