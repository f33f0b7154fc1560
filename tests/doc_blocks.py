"""Read the code blocks of a Markdown page, run them, and compare what they print.

The conventions of the pages:

* ``sh``: a script to paste as it stands; ``python``: blocks of a page share their names. A ``text``
  block right behind one of them is what it prints. Blocks of a page share a folder.
* ``sql``: one SELECT over the views; ``json``: one value.
* ``<!-- not run: WHY -->`` before a block keeps it from running, ``<!-- exits N -->`` says with
  which code a script ends.
* ``...`` in an output stands for anything in a line, alone on a line for any lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

HOME = "/home/you/work"
"""Stands in the pages for the folder that the blocks run in."""

_FENCE = re.compile(r"```([a-z-]*)$")
_MARK = re.compile(r"<!-- (not run: .+|exits (\d)) -->")
_UNSTABLE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d(:?\d\d)?|Z)?"), "<time>"),
    (re.compile(r"(disk_bytes) +[\d,]+"), r"\1 <size>"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    language: str
    line: int
    """Line of its opening fence, from 1."""
    text: str
    mark: str | None
    """What the comment before it says."""
    output_of: int | None
    """Number of the block whose output it is."""

    @property
    def runs(self) -> bool:
        skipped = self.mark is not None and self.mark.startswith("not run: ")
        return self.language in {"sh", "python"} and not skipped

    @property
    def exit_code(self) -> int:
        return int(self.mark.split()[1]) if self.mark and self.mark.startswith("exits ") else 0


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown page, in order."""
    found: list[Block] = []
    lines = text.splitlines()
    mark: str | None = None
    before: int | None = None
    at = 0
    while at < len(lines):
        fence, comment = _FENCE.match(lines[at]), _MARK.match(lines[at])
        if fence:
            end = lines.index("```", at + 1)
            block = Block(
                language=fence[1],
                line=at + 1,
                text="".join(f"{line}\n" for line in lines[at + 1 : end]),
                mark=mark,
                output_of=before if fence[1] == "text" else None,
            )
            before = len(found) if block.runs else None
            found.append(block)
            mark, at = None, end
        elif lines[at].strip():
            mark, before = (comment[1] if comment else None), None
        at += 1
    return found


def agree(expected: str, actual: str) -> bool:
    """Whether an output is what the page says, as far as it is stable."""
    pattern = "\n".join(
        "(?:.*\n)*?.*" if line.strip() == "..." else ".*".join(map(re.escape, line.split("...")))
        for line in _plain(expected).splitlines()
    )
    return re.fullmatch(pattern, _plain(actual)) is not None


def _plain(text: str) -> str:
    for pattern, stand_in in _UNSTABLE:
        text = pattern.sub(stand_in, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


@dataclass
class Run:
    """The blocks of one page, run in one folder."""

    folder: Path
    shims: Path
    """A folder with the commands ``trajstore`` and ``python``."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def page(self, text: str) -> Iterator[tuple[Block, str]]:
        """Run every block that runs; each output block, and the text that should stand in it.

        That is the block's own text where the output agrees, else the real output.
        """
        printed: dict[int, str] = {}
        for number, block in enumerate(blocks(text)):
            if block.runs:
                run = self._script if block.language == "sh" else self._python
                printed[number] = self._shown(run(block))
            elif block.output_of is not None:
                actual = printed[block.output_of]
                yield block, block.text if agree(block.text, actual) else actual

    def _python(self, block: Block) -> str:
        out = io.StringIO()
        code = compile("\n" * block.line + block.text, "page", "exec")
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out):
            exec(code, self.names)
        return out.getvalue()

    def _script(self, block: Block) -> str:
        path = f"{self.shims}{os.pathsep}{os.environ['PATH']}"
        ours = {"PATH": path, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
        done = subprocess.run(
            ["bash", "-ec", f"exec 2>&1\n{block.text}"],
            cwd=self.folder,
            env={**os.environ, **ours, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            check=False,
            text=True,
        )
        said = f"line {block.line} exits with {done.returncode}\n{done.stdout}"
        assert done.returncode == block.exit_code, said
        return done.stdout

    def _shown(self, output: str) -> str:
        text = output.replace(str(self.folder), HOME)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def updated(text: str, shown: list[tuple[Block, str]]) -> str:
    """The page with the text of its output blocks replaced."""
    lines = text.splitlines()
    for block, new in reversed(shown):
        lines[block.line : block.line + block.text.count("\n")] = new.splitlines()
    return "\n".join(lines) + "\n"


def write_shims(folder: Path) -> Path:
    """A folder with ``trajstore`` and ``python`` as an installed package would give them."""
    folder.mkdir()
    for name, runs in (("trajstore", "-m trajstore_cli.main"), ("python", "")):
        shim = folder / name
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} {runs} "$@"\n')
        shim.chmod(0o755)
    return folder
