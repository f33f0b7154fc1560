"""``trajstore snapshots``, ``verify``, ``compact``, ``vacuum``, ``delete`` and ``expire``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import count_of, table
from trajstore_cli._command import add
from trajstore_cli._options import (
    DryRunOption,
    JsonOption,
    StoreArgument,
    open_store,
    storage_options,
)
from trajstore_cli._output import out, report, rows, say, say_some

if TYPE_CHECKING:
    from trajstore import Pool
    from trajstore.store import DeleteReport


def snapshots(
    store: StoreArgument,
    pin: Annotated[str | None, typer.Option(metavar="NAME", help="Pin the newest one.")] = None,
    at: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="With --pin: pin this one.", min=0)
    ] = None,
    unpin: Annotated[str | None, typer.Option(metavar="NAME", help="Let a pin go.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 20,
    json: JsonOption = False,
) -> None:
    """List snapshots, the newest first; pin one to keep it.

    A pinned snapshot stays readable for ever: `query --at NAME`, `export --at NAME`.

    Example: trajstore snapshots pool --pin before-cleanup
    """
    if at is not None and pin is None:
        raise typer.BadParameter("--at goes with --pin NAME", param_hint="--at")
    pool = open_store(store)
    if pin is not None:
        _pin(pool, pin, at)
    if unpin is not None:
        pool.unpin(unpin)
        say(f"unpinned {unpin}; `vacuum` may now remove what only it kept")
    listed = pool.snapshots(limit)
    if json:
        rows(listed)
        return
    broken = {p.name for p in pool.pins() if p.broken_by is not None}
    out(table([_row(snapshot, broken) for snapshot in listed]))


def _pin(pool: Pool, name: str, number: int | None) -> None:
    before = {p.name: p.snapshot for p in pool.pins()}.get(name)
    pinned = pool.pin(name, number)
    moved = f"; it was {before} until now" if before not in {None, pinned} else ""
    say(f"pinned snapshot {pinned} as {name}{moved}")


def _row(snapshot: dict[str, Any], broken: set[str]) -> dict[str, Any]:
    names = [f"{n} (broken)" if n in broken else n for n in snapshot["pins"]]
    at = datetime.fromisoformat(snapshot["at"]).strftime("%Y-%m-%d %H:%M:%SZ")
    return {**snapshot, "at": at, "pins": ", ".join(names)}


def verify(
    store: StoreArgument,
    quick: Annotated[bool, typer.Option("--quick", help="Sizes and footers only.")] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Take what is damaged out of the store.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check that the disk holds what the log says, run by run.

    The exit code is 1 where something is wrong, and 0 once --repair has made the store whole again.

    Example: trajstore verify pool
    """
    from trajstore.store import verify_store

    options = storage_options(store)
    done = verify_store(store, storage_options=options, deep=not quick, repair=repair)
    values = {"ok": done.ok, **asdict(done)}
    if json:
        report(values, json=True)
    else:
        report({**values, "problems": len(done.problems), "lost": len(done.lost)}, json=False)
        say_some(done.problems, "{}")
    lost = count_of(len(done.lost), "trajectory", "trajectories")
    if done.repaired:
        say(f"repaired: {lost} left out from now on; older snapshots are as they were")
    elif not done.ok:
        say(f"--repair takes the damaged files, and with them {lost}, out of the store")
        raise typer.Exit(1)


KeepMemoryOption = Annotated[
    bool, typer.Option("--keep-memory", help="Leave what was learnt from them.")
]


def compact(store: StoreArgument, dry_run: DryRunOption = False, json: JsonOption = False) -> None:
    """Join small files into large sorted ones.

    Do this every few hundred appends; readers and writers go on meanwhile.

    Example: trajstore compact pool
    """
    done = open_store(store).compact(dry_run=dry_run)
    report(asdict(done), json=json)
    if done.files_before == done.files_after and not done.rows_dropped:
        say("there is nothing to join")
    elif dry_run:
        say("nothing was written (--dry-run)")


def vacuum(
    store: StoreArgument,
    retention_hours: Annotated[
        int,
        typer.Option(metavar="HOURS", help="Keep unreferenced files younger than this.", min=0),
    ] = 168,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Remove files that no kept snapshot names, and deleted rows.

    Snapshots that are neither the newest nor pinned stop being readable. Keep the retention above
    an hour while anybody writes.

    Example: trajstore vacuum pool --retention-hours 24
    """
    retention = timedelta(hours=retention_hours)
    done = open_store(store).vacuum(retention=retention, dry_run=dry_run)
    report(asdict(done), json=json)
    for name in done.pins_broken:
        say(f"the pin '{name}' held deleted trajectories and is broken")
    if dry_run:
        say("nothing was removed (--dry-run)")


def delete(
    store: StoreArgument,
    where: Annotated[str, typer.Option(metavar="SQL", help="Condition over trajectories.")],
    keep_memory: KeepMemoryOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Hide trajectories and what was learnt from them, at once.

    That is in every snapshot, and it does not ask: try it with --dry-run first. What other runs
    taught, too, is not served until it is made anew. `vacuum` then removes the bytes, and breaks
    pins that hold the deleted trajectories.

    Example: trajstore delete pool --where "task_id = 'airline/3'" --dry-run
    """
    if not where.strip():
        message = "a condition is needed; --where true takes everything"
        raise typer.BadParameter(message, param_hint="--where")
    done = open_store(store).delete(where, dry_run=dry_run, keep_memory=keep_memory)
    _tell_hidden(done, dry_run=dry_run, json=json)


def expire(
    store: StoreArgument,
    older_than: Annotated[
        float | None,
        typer.Option(metavar="DAYS", help="Also runs that ended longer ago than this.", min=0),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only trajectories that fit.")
    ] = None,
    keep_memory: KeepMemoryOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Hide trajectories whose time is over.

    That is those past their `expires_at`, and with --older-than those of that age. As with
    `delete`, `vacuum` then removes the bytes.

    Example: trajstore expire pool --older-than 90 --where "source = 'chat'" --dry-run
    """
    age = None if older_than is None else timedelta(days=older_than)
    done = open_store(store).expire(
        older_than=age, where=where, dry_run=dry_run, keep_memory=keep_memory
    )
    _tell_hidden(done, dry_run=dry_run, json=json)


def _tell_hidden(done: DeleteReport, *, dry_run: bool, json: bool) -> None:
    told = asdict(done)
    if not json:
        told = {n: v for n, v in told.items() if not isinstance(v, dict)}
    report(told, json=json)
    for what, counts in (("removed", done.memory_removed), ("to be made anew", done.memory_stale)):
        if counts:
            listed = ", ".join(f"{count:,} {table}" for table, count in counts.items())
            say(f"memory {'that would be ' if dry_run else ''}{what}: {listed}")
    number = count_of(done.trajectories, "trajectory", "trajectories")
    if dry_run:
        say(f"{number} would be hidden; nothing was written (--dry-run)")
    elif done.trajectories:
        say(f"{number} hidden in every snapshot; `trajstore vacuum` removes the bytes")
    else:
        say("no trajectory fits the condition")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, snapshots)
    add(app, verify)
    add(app, compact)
    add(app, vacuum)
    add(app, delete)
    add(app, expire)
