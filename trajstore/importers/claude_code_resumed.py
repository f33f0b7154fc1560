"""Records that a resumed Claude Code session copied from an earlier session of its folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trajstore.importers.source import Source

_UUID = re.compile(rb'"uuid"\s*:\s*"([^"\\]+)"')
_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"\\]+)"')
_TIME = re.compile(rb'"timestamp"\s*:\s*"([^"\\]+)"')

_Order = tuple[bytes, bytes, str]
"""First moment, last moment, and name of a file: which of two that share records was first."""


@dataclass(slots=True)
class Folder:
    """Which records of the session files of one folder stand in an earlier one of them.

    A resume copies records into a new file and writes the new session's id over the old one; the
    ids of the records stay. Of two files with a record in common, the one that begins earlier is
    the first, else the one that ends earlier. What is kept is the ids of one folder's records.
    """

    path: Path
    """The folder."""
    changed: int = -1
    """Its time of change, in nanoseconds, when it was read."""
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Time of change and size of each file when it was read."""
    copied: dict[str, dict[str, str]] = field(default_factory=dict)
    """File name -> id of a record that it copied -> the session where it comes from."""

    def is_as_read(self, file: Path) -> bool:
        """Whether what was read still holds for a file."""
        same = self.path == file.parent and self.changed == self.path.stat().st_mtime_ns
        return same and self.sizes.get(file.name) == _stamp(file)

    def read(self) -> Folder:
        """Look at every session file once."""
        self.changed = self.path.stat().st_mtime_ns
        files = sorted(self.path.glob("*.jsonl"))
        self.sizes = {file.name: _stamp(file) for file in files}
        first: dict[bytes, tuple[_Order, bytes]] = {}
        later: dict[str, list[tuple[bytes, bytes]]] = {}
        orders: dict[str, _Order] = {}
        for file in files if len(files) > 1 else ():
            ids, orders[file.name] = _records(file)
            mine = [(uuid, session) for uuid, session in ids.items() if uuid in first]
            later[file.name] = mine
            for uuid, session in ids.items():
                there = first.get(uuid)
                if there is None or orders[file.name] < there[0]:
                    if there is not None:
                        later[there[0][2]].append((uuid, there[1]))
                    first[uuid] = (orders[file.name], session)
        for name, shared in later.items():
            self.copied[name] = {
                uuid.decode(): first[uuid][1].decode()
                for uuid, session in shared
                if first[uuid][0] < orders[name] and first[uuid][1] != session
            }
        return self


_latest: list[Folder] = []
"""The folder that was read last, since its files come one after another."""


def copied_records(file: Path) -> Mapping[str, str]:
    """Records of a session file that an earlier session of the same folder has.

    Returns:
        Id of the record -> id of that session; empty where the session began by itself.
    """
    if file.suffix != ".jsonl" or not file.is_file():
        return {}
    folder = next((f for f in tuple(_latest) if f.is_as_read(file)), None)
    if folder is None:
        folder = Folder(file.parent).read()
        _latest[:] = [folder]
    return folder.copied.get(file.name, {})


def _stamp(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


def _records(file: Path) -> tuple[dict[bytes, bytes], _Order]:
    """Record id -> session of one file, and when the file began and ended."""
    ids: dict[bytes, bytes] = {}
    begin, end = b"", b""
    with suppress(OSError, EOFError):
        for line in _session_lines(file):
            session = _SESSION.search(line)
            if session is None:
                continue
            for uuid in _UUID.findall(line):  # also those inside a message, which do no harm
                ids.setdefault(uuid, session[1])
            time = _TIME.search(line)
            if time is not None:
                begin, end = min(begin or time[1], time[1]), max(end, time[1])
    return ids, (begin, end, file.name)


def _session_lines(file: Path) -> Iterator[bytes]:
    source = Source(file)
    if b'"sessionId"' in source.head:
        with source.open() as stream:
            yield from stream
