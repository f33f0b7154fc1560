"""Read the code blocks of a Markdown page, run them, and compare what they print.

The conventions of the pages:

* ``console``: lines that start with ``$ `` are commands, ``> `` goes on with one, the rest is what
  the command prints. Commands of a block share a shell, blocks of a page share a folder.
* ``python``: blocks of a page share their names; a ``text`` block right behind one is its output.
* ``sql``: one SELECT over the views, ``json``: one value; anything may be ``text``.
* ``<!-- not run: WHY -->`` before a block keeps it from running, ``<!-- exits N -->`` says that its
  last command ends with that code.
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
"""Stands in the pages for the folder that commands run in."""

_FENCE = re.compile(r"```([a-z-]*)$")
_MARK = re.compile(r"<!-- (not run: .+|exits (\d)) -->")
_UNSTABLE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d(:?\d\d)?|Z)?"), "<time>"),
    (re.compile(r"(disk_bytes|sha256|bytes)\W+[\w,.]+"), r"\1 <size>"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"[ \t]+"), " "),
)
_DONE = "\x1e"


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    language: str
    line: int
    """Line of its opening fence, from 1."""
    text: str
    mark: str | None
    """What the comment before it says."""
    behind: int | None
    """Index of the Python block whose output it is."""

    @property
    def not_run(self) -> bool:
        return self.mark is not None and self.mark.startswith("not run: ")

    @property
    def exit_code(self) -> int:
        return int(self.mark.split()[1]) if self.mark and self.mark.startswith("exits ") else 0


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown page, in order."""
    found: list[Block] = []
    lines = text.splitlines()
    mark: str | None = None
    behind: int | None = None
    at = 0
    while at < len(lines):
        fence, comment = _FENCE.match(lines[at]), _MARK.match(lines[at])
        if fence:
            end = lines.index("```", at + 1)
            inside = "".join(f"{line}\n" for line in lines[at + 1 : end])
            language = fence[1]
            owner = behind if language == "text" else None
            found.append(
                Block(language=language, line=at + 1, text=inside, mark=mark, behind=owner)
            )
            behind = len(found) - 1 if language == "python" else None
            mark, at = None, end
        elif comment:
            mark = comment[1]
        elif lines[at].strip():
            mark, behind = None, None
        at += 1
    return found


@dataclass(frozen=True)
class Command:
    """One command of a console block."""

    shell: str
    output: str


def commands(text: str) -> list[Command]:
    """The commands of a console block with what they print."""
    found: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0].append(line[2:])
        elif found:
            found[-1][1].append(line)
        else:
            raise ValueError(f"output before the first command: {line!r}")
    return [Command("\n".join(c), "".join(f"{o}\n" for o in out)) for c, out in found]


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
        """Every block that runs, with the text that should stand in it.

        That is the block's own text where its output agrees, else the text with the real output.
        """
        found = blocks(text)
        printed: dict[int, str] = {}
        for number, block in enumerate(found):
            if block.not_run:
                continue
            if block.language == "console":
                yield block, self._console(block)
            elif block.language == "python":
                printed[number] = self._python(block)
            elif block.behind is not None and block.behind in printed:
                actual = printed[block.behind]
                yield block, block.text if agree(block.text, actual) else actual

    def _python(self, block: Block) -> str:
        out = io.StringIO()
        code = compile("\n" * block.line + block.text, "page", "exec")
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out):
            exec(code, self.names)  # noqa: S102  the pages are ours
        return self._shown(out.getvalue())

    def _console(self, block: Block) -> str:
        listed = commands(block.text)
        outputs = self._shell([c.shell for c in listed], block)
        pieces = []
        for command, actual in zip(listed, outputs, strict=True):
            output = command.output if agree(command.output, actual) else actual
            first, *more = command.shell.split("\n")
            pieces.append("".join([f"$ {first}\n", *(f"> {m}\n" for m in more), output]))
        return "".join(pieces)

    def _shell(self, listed: list[str], block: Block) -> list[str]:
        script = "exec 2>&1\n" + "".join(f"{c}\nprintf '{_DONE}%d{_DONE}' $?\n" for c in listed)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        parts = done.stdout.split(_DONE)
        codes = [int(code) for code in parts[1::2]]
        wanted = [0] * (len(listed) - 1) + [block.exit_code]
        assert codes == wanted, f"line {block.line}: exit codes {codes}\n{done.stdout}"
        return [self._shown(p) for p in parts[:-1:2]]

    def _environment(self) -> dict[str, str]:
        path = f"{self.shims}{os.pathsep}{os.environ['PATH']}"
        ours = {"PATH": path, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
        return {**os.environ, **ours, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}

    def _shown(self, output: str) -> str:
        text = output.replace(str(self.folder), HOME)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def updated(text: str, shown: list[tuple[Block, str]]) -> str:
    """The page with the text of its blocks replaced."""
    lines = text.splitlines()
    for block, new in reversed(shown):
        end = block.line + block.text.count("\n")
        lines[block.line : end] = new.splitlines()
    return "\n".join(lines) + "\n"


def write_shims(folder: Path) -> Path:
    """A folder with ``trajstore`` and ``python`` as an installed package would give them."""
    folder.mkdir()
    for name, runs in (("trajstore", "-m trajstore_cli.main"), ("python", "")):
        shim = folder / name
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} {runs} "$@"\n')
        shim.chmod(0o755)
    return folder
