"""What a patch does to files: unified diffs and the envelope of ``apply_patch``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trajstore.filters.actions.file_action import FileAction

_ENVELOPE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$")
_MOVE = re.compile(r"^\*\*\* Move to: (.+?)\s*$")
_HEADER = re.compile(r"^(?:---|\+\+\+) (?:[ab]/)?([^\t\n]+?)(?:\t.*)?\s*$")


def patch_actions(text: str) -> Iterator[FileAction]:
    r"""One action a file that a patch speaks of.

    >>> next(patch_actions("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n")).removed
    'a'
    """
    part = _Part()
    for line in text.splitlines():
        if match := _ENVELOPE.match(line):
            yield from part.actions()
            part = _Part(match[2], {"Add": "add", "Update": "update", "Delete": "delete"}[match[1]])
        elif match := _MOVE.match(line):
            part.target = match[1]
        elif line.startswith("--- ") and (match := _HEADER.match(line)):
            yield from part.actions()
            part = _Part(match[1], "add" if match[1] == "/dev/null" else "update")
        elif line.startswith("+++ ") and (match := _HEADER.match(line)):
            part.name(match[1])
        else:
            part.take(line)
    yield from part.actions()


class _Part:
    """The part of a patch that is about one file."""

    def __init__(self, path: str = "", kind: str = "") -> None:
        self.path = path
        self.kind = kind
        self.target: str | None = None
        self._added: list[str] = []
        self._removed: list[str] = []

    def name(self, path: str) -> None:
        """Take the name behind ``+++``."""
        if path == "/dev/null":
            self.kind = "delete"
        else:
            self.path = path

    def take(self, line: str) -> None:
        """Take one line of a hunk."""
        if line.startswith("+"):
            self._added.append(line[1:])
        elif line.startswith("-"):
            self._removed.append(line[1:])

    def actions(self) -> Iterator[FileAction]:
        """What this part does."""
        if not self.path:
            return
        added, removed = "\n".join(self._added), "\n".join(self._removed)
        if self.kind == "delete":
            yield FileAction(kind="delete", path=self.path, removes=True, by_editor=True)
        elif self.kind == "add":
            yield FileAction(kind="write", path=self.path, added=added, by_editor=True)
        else:
            yield FileAction(
                kind="edit",
                path=self.path,
                added=added,
                removed=removed,
                removes=any(line.strip() for line in self._removed),
                by_editor=True,
            )
        if self.target:
            yield FileAction(kind="move", path=self.path, target=self.target, by_editor=True)
