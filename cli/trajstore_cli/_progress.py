"""Progress on stderr, only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def import_progress(*, quiet: bool) -> Iterator[Callable[[Any, Any], None] | None]:
    """A line that shows the file being read and the counts so far; None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("looking for trajectories")

        def show(source: Any, report: Any) -> None:
            text = f"{report.trajectories:,} trajectories in {report.files:,} files   {source.name}"
            progress.update(task, description=text)

        yield show
