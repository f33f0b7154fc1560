"""Progress on stderr, only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trajstore_cli._cells import safe, shortened


@contextmanager
def import_progress(*, quiet: bool) -> Iterator[Callable[[Any, Any], None] | None]:
    """A line that shows the file being read and the counts so far; None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), text, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("looking for trajectories")

        def show(source: Any, report: Any) -> None:
            name = shortened(safe(source.name), 40)
            counts = f"{report.trajectories:,} trajectories in {report.files:,} files"
            progress.update(task, description=f"{counts}   {name}")

        yield show


@contextmanager
def count_progress(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar that shows how many of how many are done; None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def show(done: int, of: int) -> None:
            progress.update(task, completed=done, total=of)

        yield show
