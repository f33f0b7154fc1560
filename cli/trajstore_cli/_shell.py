"""The interactive SQL prompt."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trajstore_cli._cells import pairs
from trajstore_cli._output import out, say
from trajstore_cli._rows import Format, write_rows

if TYPE_CHECKING:
    from trajstore.store import Reader

_HISTORY_LINES = 1_000
_PIECES = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | ; | [^;'"/-]+ | .""",
    re.VERBOSE | re.DOTALL,
)
_HELP = {
    ".tables": "list the views",
    ".help": "show this",
    ".quit": "leave; so does Ctrl-D",
    "describe VIEW;": "list the columns of a view",
    "SELECT ... ;": "run a query; it may go over several lines, and Ctrl-C cancels it",
}


class Shell:
    """Reads statements from stdin and prints their rows."""

    def __init__(self, reader: Callable[[], Reader], *, name: str) -> None:
        """Set up; nothing is read yet.

        Args:
            reader: gives the snapshot to read from, asked before each statement.
            name: of the store, to greet with.
        """
        self._reader = reader
        self._name = name
        self._pending = ""

    def run(self) -> None:
        """Read to the end of stdin or ``.quit``; a script stops at its first error."""
        if not sys.stdin.isatty():
            self._run_script()
            return
        version = self._reader().snapshot.version
        say(f"{self._name} at snapshot {version}. A query ends with ; and .help lists commands.")
        with _line_editing():
            while self._turn():
                pass

    def _run_script(self) -> None:
        for line in sys.stdin:
            if not self._take(line.rstrip("\r\n")):
                return
        if self._pending:
            self._query(self._pending)

    def _turn(self) -> bool:
        """One line from a person; whether to go on."""
        try:
            return self._take(_ask("   ...> " if self._pending else "trajstore> "))
        except EOFError:
            say("")
            return False
        except KeyboardInterrupt:
            say("\n(cancelled)")
            self._pending = ""
            return True

    def _take(self, line: str) -> bool:
        command = line.strip()
        if not self._pending.strip() and (command.startswith(".") or command in {"quit", "exit"}):
            return self._command(command)
        statements, self._pending = split_statements(f"{self._pending}\n{line}".lstrip("\n"))
        for statement in statements:
            self._query(statement)
        return True

    def _command(self, command: str) -> bool:
        from trajstore.store import VIEW_MEANINGS

        if command in {".quit", ".exit", "quit", "exit"}:
            return False
        if command == ".tables":
            out(pairs(VIEW_MEANINGS))
        elif command == ".help":
            out(pairs(_HELP))
        else:
            self._fail(f"there is no command {command}; there are .tables, .help and .quit")
        return True

    def _query(self, statement: str) -> None:
        from trajstore.errors import TrajstoreError

        try:
            write_rows(self._reader().query(statement), Format.TABLE, None)
        except TrajstoreError as error:
            self._fail(str(error))

    def _fail(self, message: str) -> None:
        """Say it; a script ends there."""
        say(f"error: {message}")
        if not sys.stdin.isatty():
            raise typer.Exit(1)


def split_statements(text: str) -> tuple[list[str], str]:
    r"""Statements that a ``;`` ends, and the text behind them.

    >>> split_statements("select ';'; -- a;b\nselect 2")
    (["select ';'"], ' -- a;b\nselect 2')
    """
    statements = []
    start, blank = 0, True
    for found in _PIECES.finditer(text):
        piece = found[0]
        if piece in {"'", '"'} or (piece == "/" and text.startswith("/*", found.start())):
            blank = False  # a literal or comment that goes on in the next line
            break
        if piece == ";":
            if not blank:
                statements.append(text[start : found.start()].strip())
            start, blank = found.end(), True
        elif piece.strip() and not piece.startswith(("--", "/*")):
            blank = False
    return statements, "" if blank else text[start:]


def _ask(prompt: str) -> str:
    if sys.stdout.isatty():
        return input(prompt)
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return input()


@contextmanager
def _line_editing() -> Iterator[None]:
    """Arrow keys, and a history that the next session finds."""
    try:
        import readline
    except ImportError:  # some builds of Python have none
        yield
        return
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "trajstore" / "history"
    readline.set_history_length(_HISTORY_LINES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        readline.read_history_file(path)
    except OSError as error:
        say(f"no history is kept: {error}")
        yield
        return
    try:
        yield
    finally:
        readline.write_history_file(path)
