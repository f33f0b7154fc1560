"""What every command has in common: its help text, and errors turned into exit codes.

Exit codes: 0 done; 1 the answer is no or the data is bad; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

import functools
import inspect
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import typer

from trajstore_cli._output import say

debug: ContextVar[bool] = ContextVar("debug", default=False)
"""Whether errors keep their traceback."""


def add(app: typer.Typer, function: Callable[..., None], name: str | None = None) -> None:
    """Add a command; its docstring is its help, with the example on a line of its own to paste."""
    text = inspect.getdoc(function) or ""
    text = text.replace("\n\nExample: ", "\n\n\b\nExample:\n  ")
    app.command(name, help=text)(_guarded(function))


def _guarded(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        with errors_as_exit_codes():
            function(*args, **kwargs)
            sys.stdout.flush()

    return run


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Say what went wrong in a line and exit; a reader that has gone (``| head``) is no error."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(130) from None
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _reader_has_gone():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        if debug.get():
            raise
        say(f"error: {explain(error)}")
        raise typer.Exit(1) from None


def _reader_has_gone() -> bool:
    """Whether whoever read our stdout has closed it; a broken network pipe looks the same."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def explain(error: Exception) -> str:
    """An error in words: what, where, and what to do."""
    from trajstore.errors import TrajstoreError

    if isinstance(error, TrajstoreError):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"the input is not UTF-8 text: {error.reason} at byte {error.start}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'reading or writing'}: {error.strerror}"
    return f"{type(error).__name__}: {error} (unexpected; --debug shows where)"
