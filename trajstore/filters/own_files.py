"""Which files of a run the agent made itself, and which were there before."""

from __future__ import annotations

import re
import string
from collections import defaultdict

from trajstore.filters.actions import FileAction, is_among, same_file

_PATH_CHARACTERS = f"{string.ascii_letters}{string.digits}_./@+-"
_LONGEST_FOLDER = 300


class Files:
    """What is known of the files of one run, action by action.

    A whole-file write makes a new file, unless the run had read or edited the file or some result
    had named it before. Edits and reads say that a file is there.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._own: list[str] = []
        self._touched: dict[str, set[str]] = defaultdict(set)
        self._heard: list[str] = []

    def is_own(self, path: str) -> bool:
        """Whether the agent made the file, or the folder it lies in."""
        return is_among(path, self._own)

    def is_known(self, action: FileAction) -> bool:
        """Whether the file of an action was there before it, as far as the run shows."""
        path, name = action.path, _name(action.path)
        if self.is_own(path) or action.kind == "make-folder":
            return False
        if action.kind in {"edit", "restore"} and (action.by_editor or action.removes):
            return True
        if action.kind == "write" and action.removes:
            return True
        if any(same_file(path, touched) for touched in self._touched[name]):
            return True
        return bool(name) and any(_names(text, path, name) for text in self._heard)

    def note(self, action: FileAction, *, known: bool) -> None:
        """Remember what an action says of its file."""
        path, target = action.path, action.target
        makes = action.kind in {"write", "edit", "make-folder"} and not known
        if target and self.is_own(path):
            self._own.append(target)
        elif makes and not self.is_own(path):
            self._own.append(path)
        elif not self.is_own(path):
            self._touched[_name(path)].add(path)

    def hear(self, result: str) -> None:
        """Remember a result, which may name files."""
        if result:
            self._heard.append(result)


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _names(text: str, path: str, name: str) -> bool:
    """Whether a text names the file."""
    if name not in text:
        return False
    for match in re.finditer(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
        before = text[max(0, match.start() - _LONGEST_FOLDER) : match.start()]
        folder = before[len(before.rstrip(_PATH_CHARACTERS)) :]
        if same_file(folder + name, path):
            return True
    return False
