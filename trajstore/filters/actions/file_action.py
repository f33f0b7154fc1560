"""One thing that was done to one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ActionKind = Literal["read", "write", "edit", "delete", "move", "restore", "make-folder"]
"""What was done. ``write`` gives the whole content, ``edit`` changes a part, ``move`` takes the
file from ``path`` to ``target``, ``restore`` brings back the version under version control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAction:
    """One thing that was done to one file or folder."""

    kind: ActionKind
    """What was done."""
    path: str
    """The path as it was written; it may hold a pattern such as ``*``."""
    added: str = ""
    """Text that came in, as far as it can be told."""
    removed: str = ""
    """Text that went, as far as it can be told."""
    removes: bool = False
    """Whether something that stood there went or was changed; known even where the text is not."""
    target: str | None = None
    """Where a moved file went."""
    by_editor: bool = False
    """Done by an edit tool, whose error means that nothing was changed."""


def edit(path: str, old: str, new: str, *, by_editor: bool = False) -> FileAction:
    r"""An edit that put ``new`` in the place of ``old``; lines that stay do not count.

    >>> edit("a.py", "x = 1", "x = 1\ny = 2").removes
    False
    """
    before, after = _lines(old), _lines(new)
    gone = [line for line in before if line not in after]
    come = [line for line in after if line not in before]
    return FileAction(
        kind="edit",
        path=path,
        added="\n".join(come),
        removed="\n".join(gone),
        removes=bool(gone),
        by_editor=by_editor,
    )


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]
