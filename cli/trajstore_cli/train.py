"""``trajstore train``: a training job from one TOML file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import pairs, safe_lines
from trajstore_cli._command import add
from trajstore_cli._options import DryRunOption, JsonOption, open_store
from trajstore_cli._output import out, paint, report, say

if TYPE_CHECKING:
    from trajstore.trainers.jobs import JobReport, Preview, Progress
    from trajstore.trainers.jobs.preview import ShownRow

_MARKS = ("{+", "+}")
"""Around what is trained on, where there is no colour; as wdiff has it."""
_SHOWN_NUMBERS = ("loss", "learning_rate", "rewards/margins", "ratio/mean")


def train(
    kind: Annotated[
        str, typer.Argument(metavar="JOB", help="Kind of job: sft, star, rft, dpo or grpo.")
    ],
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The job.")],
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Instead of the file's seed.")
    ] = None,
    dry_run: DryRunOption = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Fail where there is nothing to go on from.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Remove the job's folder and start anew.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Train a model on the runs of a store.

    A job that was interrupted goes on where it was when the same command is given again. Started
    by torchrun, processes sample and train together and the first one prints. --dry-run
    shows ten rows with what is trained on in colour, or between {+ and +} where there is none, and
    what is refused; it trains nothing and writes nothing.

    Example: trajstore train sft sft.toml --dry-run
    """
    from trajstore.trainers.jobs import KINDS, launched, preview_job, read_job, run_job

    if kind not in KINDS:
        message = f"there is no job '{kind}'; those there are: {', '.join(KINDS)}"
        raise typer.BadParameter(message, param_hint="JOB")
    if resume and fresh:
        raise typer.BadParameter("give --resume or --fresh, not both", param_hint="--fresh")
    read = read_job(kind, config, seed=seed)
    uri = read.located(read.job.store)
    first = launched().first
    if dry_run:
        if first:
            _print_preview(preview_job(kind, config, store=open_store(uri), seed=seed), json=json)
        return
    store = open_store(uri, create=KINDS[kind].samples(read))
    with _progress(quiet=json or not first) as progress:
        done = run_job(
            kind, config, store=store, seed=seed, resume=resume, fresh=fresh, progress=progress
        )
    if first:
        _print_report(done, json=json)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress | None]:
    """A bar with the newest numbers; None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    said = TextColumn("{task.description}", markup=False)
    numbers = TextColumn("{task.fields[numbers]}", markup=False)
    columns = (said, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), numbers)
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, of: int, told: Mapping[str, float]) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=of, numbers="")
            bars.update(tasks[what], completed=done, total=of, numbers=_numbers(told))

        yield show


def _numbers(told: Mapping[str, float]) -> str:
    return "  ".join(f"{n} {told[n]:.3g}" for n in _SHOWN_NUMBERS if n in told)


def _print_report(done: JobReport, *, json: bool) -> None:
    values: dict[str, Any] = {
        "job": done.kind,
        "output": str(done.output),
        "model": None if done.model is None else str(done.model),
        "snapshot": done.snapshot,
        **done.results,
    }
    if not json:
        values = {n: _shown(v) for n, v in values.items()}
    report(values, json=json)


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, list | tuple):
        return ", ".join(str(_shown(v)) for v in value)
    return value


def _print_preview(found: Preview, *, json: bool) -> None:
    if json:
        report(asdict(found), json=True)
        return
    for row in found.shown:
        out(_row(row) + "\n")
    counts = {
        "snapshot": found.snapshot,
        "runs": f"{found.runs:,}",
        "rows": f"{found.rows:,}, {found.cut:,} of them cut to max_tokens",
        "tokens": f"{found.tokens:,}, {found.trained:,} of them trained on",
        "longest": f"{found.longest:,} tokens",
        "tasks": f"{found.train_tasks:,} to train on, {found.held_out_tasks:,} held out",
        "refused": f"{sum(found.refused.values()):,} runs",
    }
    out(pairs(counts))
    for reason, count in found.unused.items():
        say(f"not used in {count:,} runs: {reason}")
    for reason, count in found.refused.items():
        say(f"refused {count:,}: {reason}")
        if found.first_refused[reason] != reason:
            say(f"  the first: {found.first_refused[reason]}")


def _row(row: ShownRow) -> str:
    """The row with what is trained on in green, or between marks where there is no colour."""
    head = f"-- {row.trajectory_id}: {row.tokens:,} tokens, {row.trained:,} trained on"
    text = "".join(_span(s.text, trained=s.trained) for s in row.spans)
    return f"{paint(head, 'bold')}\n{text}"


def _span(text: str, *, trained: bool) -> str:
    plain = safe_lines(text)
    if not trained:
        return paint(plain, "dim")
    coloured = paint(plain, "green")
    return plain.join(_MARKS) if coloured == plain else coloured


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, train)
