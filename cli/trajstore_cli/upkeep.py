"""``trajstore snapshots``, ``verify``, ``compact``, ``vacuum`` and ``delete``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from trajstore_cli._options import DryRunOption, JsonOption, StoreArgument, open_store
from trajstore_cli._output import as_json, out, pairs, say, table


def snapshots(
    store: StoreArgument,
    pin: Annotated[str | None, typer.Option(metavar="NAME", help="Pin the newest one.")] = None,
    at: Annotated[int | None, typer.Option(help="With --pin: pin this number instead.")] = None,
    unpin: Annotated[str | None, typer.Option(metavar="NAME", help="Let a pin go.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 20,
    json: JsonOption = False,
) -> None:
    """List snapshots, the newest first; pin one to keep it readable for ever.

    Example: trajstore snapshots pool --pin before-cleanup
    """
    pool = open_store(store)
    if pin is not None:
        say(f"pinned snapshot {pool.pin(pin, at)} as {pin}")
    if unpin is not None:
        pool.unpin(unpin)
        say(f"unpinned {unpin}")
    rows = pool.snapshots(limit)
    if json:
        for row in rows:
            out(as_json(row))
        return
    out(table(rows, ["snapshot", "at", "operation", "pins"]))


def verify(
    store: StoreArgument,
    quick: Annotated[bool, typer.Option("--quick", help="Sizes and footers only.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Leave out what is lost.")] = False,
    json: JsonOption = False,
) -> None:
    """Check that the disk holds what the log says, and every run has exactly its steps.

    Example: trajstore verify pool
    """
    report = open_store(store).verify(deep=not quick, repair=repair)
    values = {"ok": report.ok, **asdict(report)}
    if json:
        out(as_json(values))
    else:
        shown = {"ok": report.ok, "snapshot": report.snapshot, "files": report.files}
        out(pairs({**shown, "problems": len(report.problems), "lost": len(report.lost)}))
        for problem in report.problems:
            say(problem)
        if report.problems and not repair:
            say("--repair takes the damaged files, and the trajectories in them, out of the store")
    if not report.ok and not report.repaired:
        raise typer.Exit(1)


def compact(store: StoreArgument, dry_run: DryRunOption = False, json: JsonOption = False) -> None:
    """Join small files into large sorted ones; do this every few hundred appends.

    Example: trajstore compact pool
    """
    values = asdict(open_store(store).compact(dry_run=dry_run))
    out(as_json(values) if json else pairs(values))


def vacuum(
    store: StoreArgument,
    retention_hours: Annotated[
        int, typer.Option(help="Keep unreferenced files younger than this.", min=0)
    ] = 168,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Remove files that no kept snapshot names, and every trace of deleted trajectories.

    Example: trajstore vacuum pool --retention-hours 24
    """
    retention = timedelta(hours=retention_hours)
    report = open_store(store).vacuum(retention=retention, dry_run=dry_run)
    values = asdict(report)
    out(as_json(values) if json else pairs(values))
    for name in report.pins_broken:
        say(f"the pin '{name}' held deleted trajectories and is broken")


def delete(
    store: StoreArgument,
    where: Annotated[str, typer.Option(metavar="SQL", help="Condition over trajectories.")],
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Hide trajectories at once, in every snapshot; `vacuum` then removes the bytes.

    A vacuum after it breaks pins that hold the deleted trajectories.

    Example: trajstore delete pool --where "task_id = 'airline/3'" --dry-run
    """
    report = open_store(store).delete(where, dry_run=dry_run)
    values = asdict(report)
    out(as_json(values) if json else pairs(values))
    if not dry_run and report.trajectories:
        say(
            "hidden in every snapshot; `trajstore vacuum` removes the bytes and breaks pins on them"
        )


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(snapshots)
    app.command()(verify)
    app.command()(compact)
    app.command()(vacuum)
    app.command()(delete)
